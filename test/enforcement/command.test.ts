import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Terminal } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
import { planSchema } from '../../src/report/plan-schema.ts';
import { addNamespace, deleteNamespaces, kernelUnavailable, pathOf, runIn } from './support/namespace.ts';
import { type KernelServer, startKernelServer, token } from './support/server.ts';

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const title = `the command with --enforcement${kernelUnavailable === null ? '' : ` (skipped: ${kernelUnavailable})`}`;

async function run(cwd: string, ...argv: readonly string[]): Promise<Ran> {
  let stdout = '';
  let stderr = '';
  const terminal: Terminal = {
    cwd,
    env: { RECONCILE_TOKEN: token, RECONCILE_YES: 'true' },
    stdinIsTerminal: false,
    stdoutIsTerminal: false,
    stderrIsTerminal: false,
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
    ask: async () => null,
    stop: new AbortController().signal,
  };
  const code = await runCli(argv, terminal);
  return { code, stdout, stderr };
}

describe.skipIf(kernelUnavailable !== null)(title, () => {
  let netns = '';
  let folder = '';
  let server: KernelServer;
  let look: readonly string[];

  beforeEach(async () => {
    netns = addNamespace();
    server = await startKernelServer(netns);
    await server.settled();
    folder = mkdtempSync(join(tmpdir(), 'reconcile-enforcement-'));
    const rule = (name: string, destination: string): string =>
      `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ${name}}\nspec: {action: drop, destination: ${destination}}\n`;
    writeFileSync(join(folder, 'rules.yaml'), `${rule('first', '10.1.0.0/16')}---\n${rule('second', '10.2.0.0/16')}`);
    look = ['--base-url', server.simulator.url, '--enforcement', 'nft', '--netns', pathOf(netns)];
  });

  afterEach(async () => {
    await server.simulator.close();
    deleteNamespaces(netns);
    rmSync(folder, { recursive: true });
  });

  it('says after an apply that the kernel holds it, and takes the PATH after a bare --wait-enforced for a PATH', async () => {
    const ran = await run(folder, ...look, '--wait-enforced', '.');
    expect(ran.stdout).toContain('Enforced: the kernel holds 2 live rules and nothing else');
    expect(ran.code).toBe(0);
  });

  it('shows in a plan what the kernel lacks with its place in the manifests, and repairs it on request', async () => {
    await run(folder, ...look, '--wait-enforced', '10s', '.');
    runIn(netns, 'nft', 'delete element inet firezone ip_drop { 10.2.0.0/16 }');
    const planned = await run(folder, ...look, '--plan', '--output', 'json', '.');
    expect(planned.code).toBe(0);
    const document = JSON.parse(planned.stdout) as {
      problems: readonly { code: string; file: string; line: number }[];
      enforcement: { state: string; missing: number; findings: readonly { effect: { opens: unknown[] } }[] };
    };
    expect(document.problems).toMatchObject([{ code: 'kernel-missing', file: 'rules.yaml', line: 9 }]);
    expect(document.enforcement).toMatchObject({ state: 'differs', missing: 1 });
    const valid = new Ajv2020({ strict: false }).compile(planSchema);
    expect(valid(document), JSON.stringify(valid.errors)).toBe(true);
    expect(document.enforcement.findings[0]?.effect.opens.length).toBeGreaterThan(0);

    const refused = await run(folder, ...look, '--repair', '--max-exposure', 'none', '.');
    expect(refused.code).toBe(3);

    const repaired = await run(folder, ...look, '--repair', '.');
    expect(repaired.stdout).toContain('the kernel does not hold it');
    expect(repaired.stdout).toContain('Enforced: the kernel holds 2 live rules and nothing else');
    expect(repaired.code).toBe(0);
  }, 60_000);

  it('tells in doctor whether the kernel holds the live rules, and what passes that they drop', async () => {
    await run(folder, ...look, '--wait-enforced', '10s', '.');
    const well = await run(folder, 'doctor', ...look);
    expect(well.stdout).toContain('kernel: holds 2 live rules and nothing else');
    expect(well.code).toBe(0);

    runIn(netns, 'nft', 'delete element inet firezone ip_drop { 10.2.0.0/16 }');
    const ill = await run(folder, 'doctor', ...look, '--output', 'json');
    const { problems } = JSON.parse(ill.stdout) as { problems: readonly Record<'code' | 'summary' | 'hint', string>[] };
    const [missing, ...more] = problems.filter(({ code }) => code.startsWith('kernel-'));
    expect(missing).toMatchObject({ code: 'kernel-missing', summary: expect.stringContaining('drop 10.2.0.0/16') });
    expect(missing?.hint).toContain('lets pass what the rules drop: tcp to 10.2.0.0/16');
    expect(more).toEqual([]);
    expect(ill.stdout).not.toContain('kernel: holds');
    expect((await run(folder, 'doctor', ...look)).stdout).toContain('drop 10.2.0.0/16 * is not in the kernel');
  }, 60_000);

  it('tells in doctor why the kernel cannot be read, and what to do', async () => {
    const ran = await run(folder, 'doctor', ...look.slice(0, -1), join(folder, 'no-such-namespace'));
    expect(ran.stdout).toContain('check --netns');
    expect(ran.stdout).not.toContain('kernel: holds');
  });

  it('waits after a saved plan was applied until the kernel holds it', async () => {
    await run(folder, ...look, '--plan', '--save', 'plan.json', '.');
    const applied = await run(folder, 'apply', 'plan.json', '.', ...look, '--wait-enforced', '20s');
    expect(applied.stdout).toContain('Enforced: the kernel holds 2 live rules and nothing else');
    expect(applied.code).toBe(0);
    expect((await server.check()).state).toBe('enforced');

    await server.simulator.close();
    server = await startKernelServer(netns, { rate: 1 });
    const slow = look.toSpliced(1, 1, server.simulator.url);
    await run(folder, ...slow, '--plan', '--save', 'plan.json', '.');
    const late = await run(folder, 'apply', 'plan.json', '.', ...slow, '--wait-enforced', '200ms');
    expect(late.stdout).toContain('Not enforced: of 2 live rules the kernel has');
    expect(late.code).toBe(5);
  }, 60_000);

  it('exits 5 when something was written and the kernel does not hold it in time', async () => {
    await server.simulator.close();
    server = await startKernelServer(netns, { rate: 1 });
    const ran = await run(folder, ...look.toSpliced(1, 1, server.simulator.url), '--wait-enforced', '200ms', '.');
    expect(ran.stdout).toContain('Not enforced: of 2 live rules the kernel has');
    expect(ran.code).toBe(5);
  });
});

describe('flags that look at the kernel', () => {
  it('are refused without --enforcement', async () => {
    const ran = await run('.', '--base-url', 'http://127.0.0.1:9', '--repair', '.');
    expect(ran.stderr + ran.stdout).toContain('add --enforcement nft');
    expect(ran.code).toBe(1);
  });
});
