import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { planSchema } from '../../scripts/plan-schema.ts';
import type { Terminal } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
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

  it('never ends with 0 while nothing is enforced: doctor 1, plan 2, 3 or 4, apply 1 or 5 (long)', async () => {
    await run(folder, ...look, '--wait-enforced', '10s', '.');
    const plan = [...look, '--plan', '.'];
    expect((await run(folder, ...plan, '--detailed-exitcode', '--strict', '--fail-on', 'not-enforced')).code).toBe(0);
    runIn(netns, 'nft', 'delete table inet firezone');
    const doctor = await run(folder, 'doctor', ...look);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toContain('no forward chain');
    expect((await run(folder, ...plan, '--detailed-exitcode')).code).toBe(2);
    const refused = await run(folder, ...plan, '--fail-on', 'not-enforced');
    expect(refused.code).toBe(3);
    expect(refused.stdout + refused.stderr).toContain('The kernel is not known to hold the live rules');
    expect((await run(folder, ...plan, '--strict')).code).toBe(4);
    const idle = await run(folder, ...look, '.');
    expect(idle.code).toBe(1);
    expect(idle.stdout).toContain('concerns first, second');

    const third =
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: third}\nspec: {action: drop, destination: 10.3.0.0/16}\n';
    writeFileSync(join(folder, 'third.yaml'), third);
    // The server's call for this rule fails, so that it builds its filter anew, and that mends everything.
    expect((await run(folder, ...look, '--strict', '.')).code).toBe(0);
    writeFileSync(join(folder, 'fourth.yaml'), third.replace('third', 'fourth').replace('10.3.', '10.4.'));
    runIn(netns, 'nft', 'add table inet firezone { flags dormant; }');
    const asleep = await run(folder, ...look, '--strict', '.');
    expect(server.simulator.rules()).toHaveLength(4);
    expect(asleep.code).toBe(5);
    expect(asleep.stdout).toContain('dormant');
  }, 60_000);

  it('does not hide stale entries and missing jumps behind a 0 either', async () => {
    await run(folder, ...look, '--wait-enforced', '10s', '.');
    runIn(netns, 'nft', 'flush chain inet firezone forward');
    expect((await run(folder, 'doctor', ...look)).code).toBe(1);
    expect((await run(folder, ...look, '--plan', '--detailed-exitcode', '.')).code).toBe(2);
  });

  it('refuses --fail-on not-enforced without a look at the kernel', async () => {
    const ran = await run(folder, ...look.slice(0, 2), '--plan', '--fail-on', 'not-enforced', '.');
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain('add --enforcement nft');
  });

  it('tells in doctor why the kernel cannot be read, and what to do', async () => {
    const ran = await run(folder, 'doctor', ...look.slice(0, -1), join(folder, 'no-such-namespace'));
    expect(ran.code).toBe(1);
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
    expect(late.stdout).toContain('Not enforced: the kernel differs from 2 live rules: ');
    expect(late.code).toBe(5);
  }, 60_000);

  it('exits 5 when something was written and the kernel does not hold it in time', async () => {
    await server.simulator.close();
    server = await startKernelServer(netns, { rate: 1 });
    const ran = await run(folder, ...look.toSpliced(1, 1, server.simulator.url), '--wait-enforced', '200ms', '.');
    expect(ran.stdout).toContain('Not enforced: the kernel differs from 2 live rules: ');
    expect(ran.code).toBe(5);
  });

  it('asks nobody to keep what the kernel does not hold: that goes back', async () => {
    await server.simulator.close();
    server = await startKernelServer(netns, { rate: 1 });
    const slow = [...look.toSpliced(1, 1, server.simulator.url), '--wait-enforced', '1s'];
    const ran = await run(folder, ...slow, '--state-dir', join(folder, 'state'), '--confirm-with', '/bin/true', '.');
    expect(ran.stderr).toMatch(
      /The packet filter does not hold what was applied: going back[\s\S]*The server has what was before;/,
    );
    expect([ran.code, await server.live()]).toEqual([5, []]);
  });
});

describe('flags that look at the kernel', () => {
  it('are refused without --enforcement', async () => {
    const ran = await run('.', '--base-url', 'http://127.0.0.1:9', '--repair', '.');
    expect(ran.stderr + ran.stdout).toContain('add --enforcement nft');
    expect(ran.code).toBe(1);
  });
});
