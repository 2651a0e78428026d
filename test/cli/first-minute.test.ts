import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rule, startWorld, token, type World } from './harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
});
afterEach(() => world.close());

describe('a first apply to a server with rules that Git does not know', () => {
  const announced = /^note .*2 live rules are in no manifest and will be deleted/;

  beforeEach(() => {
    world.simulator.seed([
      { action: 'drop', destination: '192.0.2.0/24' },
      { action: 'accept', destination: '198.51.100.0/24' },
    ]);
  });

  it('says so before anything else, with the export that adopts them', async () => {
    const plan = await world.cli(['--plan', 'm']);
    expect([plan.code, plan.out]).toEqual([0, expect.stringMatching(announced)]);
    expect(plan.out).toContain('reconcile export --out DIR');
    const asked = await world.cli(['m'], { answer: 'n' });
    expect([asked.code, asked.out]).toEqual([1, expect.stringMatching(announced)]);
  });

  it('is no problem of --strict, and not said of what --base explains', async () => {
    expect((await world.cli(['--plan', '--strict', 'm'])).code).toBe(0);
    world.write('old/a.yaml', '# nothing yet\n');
    expect((await world.cli(['--plan', '--base', 'old', 'm'])).out).not.toMatch(announced);
  });

  it('is said once: a server that this machine applied to is known', async () => {
    await world.cli(['--state-dir', 'state', 'm']);
    world.simulator.seed([{ action: 'drop', destination: '203.0.113.0/24' }]);
    const again = await world.cli(['--plan', '--state-dir', 'state', 'm']);
    expect(again.out).toContain('203.0.113.0/24');
    expect(again.out).not.toContain('in no manifest');
    expect((await world.cli(['--plan', 'm'])).out).toContain('1 live rule is in no manifest and will be deleted');
  });
});

describe('the record of one-shot runs', () => {
  const record = (path: string) => JSON.parse(world.read(path)) as { server: string; rules: readonly unknown[] };

  it('threat 36: counts only in a folder of our own, as the history does', async () => {
    for (const name of ['oneshot', 'history']) {
      const outside = join(world.folder, `outside-${name}`);
      mkdirSync(outside);
      mkdirSync(join(world.folder, 'state/reconcile'), { recursive: true, mode: 0o700 });
      symlinkSync(outside, join(world.folder, 'state/reconcile', name));
    }
    const run = await world.cli(['--yes', '--state-dir', 'state', 'm']);
    expect([run.code, run.err]).toEqual([0, expect.stringContaining('cannot be recorded')]);
    for (const name of ['oneshot', 'history']) expect(readdirSync(join(world.folder, `outside-${name}`))).toEqual([]);
  });

  it('--state-dir: oneshot/ below it, for its owner only; what a sidecar keeps there is left alone', async () => {
    mkdirSync(join(world.folder, 'state'));
    for (const name of ['owner', 'record.json', 'journal.jsonl']) world.write(`state/${name}`, 'of the sidecar');
    expect((await world.cli(['--state-dir', 'state', 'm'])).code).toBe(0);
    expect(record('state/reconcile/oneshot/record.json')).toMatchObject({
      server: world.simulator.url,
      rules: [{ name: 'a', file: 'a.yaml', line: 4 }],
    });
    expect(statSync(join(world.folder, 'state/reconcile/oneshot')).mode & 0o777).toBe(0o700);
    for (const name of ['owner', 'record.json', 'journal.jsonl']) {
      expect(world.read(`state/${name}`)).toBe('of the sidecar');
    }
  });

  it('by default below XDG_STATE_HOME, by server; a plan writes none, and CI does without', async () => {
    const states = join(world.folder, 'xdg');
    const made = () => statSync(states, { throwIfNoEntry: false }) !== undefined;
    await world.cli(['--plan', 'm'], { env: { XDG_STATE_HOME: states } });
    await world.cli(['m'], { env: { XDG_STATE_HOME: states, CI: 'true' } });
    expect(made()).toBe(false);
    await world.cli(['m'], { env: { XDG_STATE_HOME: states } });
    const [folder] = (await import('node:fs')).readdirSync(join(states, 'firezone-reconcile'));
    expect(folder).toMatch(/^127\.0\.0\.1-[0-9a-f]{12}$/);
    expect(record(`xdg/firezone-reconcile/${folder}/oneshot/record.json`).server).toBe(world.simulator.url);
  });

  it('one that cannot be written is a warning, and the apply is done', async () => {
    writeFileSync(join(world.folder, 'state'), 'a file');
    const run = await world.cli(['--state-dir', 'state', 'm']);
    expect([run.code, run.err]).toEqual([0, expect.stringMatching(/cannot be recorded in .*state/)]);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it.each(['{', '[]', '{"version":1,"server":"https://other.example.com","rules":[]}', 'null'])(
    'a record that is %s counts as absent',
    async (text) => {
      world.write('state/reconcile/oneshot/record.json', text);
      chmodSync(join(world.folder, 'state/reconcile/oneshot/record.json'), 0o600);
      world.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
      const plan = await world.cli(['--plan', '--state-dir', 'state', 'm']);
      expect([plan.code, plan.out]).toEqual([0, expect.stringContaining('1 live rule is in no manifest')]);
    },
  );
});

describe('a sidecar that has no record of this server', () => {
  it('says how many rules it deletes that Git does not know, and how to keep them, before it does; once', async () => {
    const known = [{ action: 'drop', destination: '192.0.2.0/24' }] as const;
    world.simulator.seed([...known, { action: 'accept', destination: '192.0.2.7' }]);
    const watch = () =>
      world.cli([
        'watch',
        '--once',
        '--delete-quiet',
        '1ms',
        '--max-deletes',
        '100%',
        '--max-changes',
        '100%',
        '--state-dir',
        'state',
        'm',
      ]);
    const first = await watch();
    expect([first.code, first.err]).toEqual([
      0,
      expect.stringMatching(
        /Live rules that are in no manifest are deleted now.*2.*reconcile export --out DIR[\s\S]*The pass ended/,
      ),
    ]);
    world.simulator.seed(known);
    const second = await watch();
    expect([second.code, second.err]).toEqual([0, expect.not.stringContaining('in no manifest are deleted')]);
  });
});

describe('fmt never erases a warning', () => {
  const slip = rule('slip', 'action: drop, destination: 10.3.0.0/8').replace('action: drop', 'action:   drop');

  it('host bits stay as they are written, and validate keeps its warning', async () => {
    world.write('m/a.yaml', slip);
    const run = await world.cli(['fmt', 'm']);
    expect([run.code, run.err]).toEqual([0, expect.stringMatching(/host-bits.*10\.3\.0\.0\/8/)]);
    expect(world.read('m/a.yaml')).toMatch(/action: drop, destination: 10\.3\.0\.0\/8/);
    expect((await world.cli(['validate', 'm'])).out).toContain('host-bits');
  });

  it('fmt --check fails with the reason', async () => {
    world.write('m/a.yaml', slip);
    await world.cli(['fmt', 'm']);
    const run = await world.cli(['fmt', '--check', 'm']);
    expect([run.code, run.err]).toEqual([
      1,
      expect.stringMatching(/host-bits[\s\S]*1 file, 0 would change, 1 to correct by hand\.\n$/),
    ]);
  });
});

describe('drift', () => {
  it('without a base is a difference from these manifests; with one it is drift; the exit code is the same', async () => {
    const plain = await world.cli(['drift', 'm']);
    expect([plain.code, plain.out]).toEqual([2, expect.stringContaining('The server differs from these manifests')]);
    expect(plain.out).not.toMatch(/drifted|gone/);
    const based = await world.cli(['drift', '--base', 'm', 'm']);
    expect([based.code, based.out]).toEqual([2, expect.stringMatching(/gone from the server[\s\S]*1 object drifted/)]);
  });
});

describe('a token file that every user can read', () => {
  const run = async (mode: number, ...flags: readonly string[]) => {
    const file = world.write('token', token);
    chmodSync(file, mode);
    return world.cli([...flags, '--plan', '--token-file', 'token', 'm']);
  };

  it('is one log line with the cure, and no problem of --strict', async () => {
    const open = await run(0o644, '--strict');
    expect([open.code, open.err.match(/chmod 600 .*token/g)?.length]).toEqual([0, 1]);
    expect((await run(0o640)).err).toBe('');
    expect((await run(0o600)).err).toBe('');
  });
});
