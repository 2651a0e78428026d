import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';
import { hasPty, runOnTerminal } from './pty.ts';

let world: World;
let env: Readonly<Record<string, string>>;
beforeEach(async () => {
  world = await startWorld();
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
});
afterEach(() => world.close());

const nobody = { RECONCILE_YES: '' };

describe('without a terminal and without --yes', () => {
  it('nothing is written, exit 1, and the message says what to type', async () => {
    const run = await ended(spawnReconcile(['m'], { cwd: world.folder, env }));
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('There is no terminal to ask on; give --yes')]);
    expect(run.out).toContain('10.0.0.0/8');
    expect(world.simulator.rules()).toEqual([]);
  });

  it('a saved plan is not applied either', async () => {
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    const run = await world.cli(['apply', 'plan.json', 'm'], { env: nobody });
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('give --yes to apply')]);
    // Not a line of its own: a saved plan, the number of an apply or --state-dir would be missing in it.
    expect(run.err).toContain('add --yes to the same line');
    expect(world.simulator.rules()).toEqual([]);
  });

  it('every output says it', async () => {
    const run = await world.cli(['--output', 'json', 'm'], { env: nobody });
    expect(run.code).toBe(1);
    expect(run.json().problems).toContainEqual(expect.objectContaining({ code: 'no-terminal', severity: 'error' }));
  });

  it.each([
    ['--yes', ['--yes', 'm'], nobody, 0],
    ['RECONCILE_YES', ['m'], {}, 0],
    ['yes in the settings file', ['--config', 's.yaml', 'm'], nobody, 0],
  ])('%s counts', async (_, args, variables, code) => {
    world.write('s.yaml', 'yes: true\n');
    expect((await world.cli(args, { env: variables })).code).toBe(code);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it('an empty plan ends with 0, a refused one with 3, an invalid one with 4', async () => {
    await world.cli(['m']);
    expect((await world.cli(['m'], { env: nobody })).code).toBe(0);
    world.write('m/b.yaml', rule('b', 'action: accept, destination: 10.1.0.0/16'));
    expect((await world.cli(['--fail-on', 'any', 'm'], { env: nobody })).code).toBe(3);
    world.write('m/b.yaml', rule('b', 'action: accept, destination: 10.1.0.0.0'));
    expect((await world.cli(['m'], { env: nobody })).code).toBe(4);
  });

  it('neither --watch nor --once asks', async () => {
    expect((await ended(spawnReconcile(['--watch', '--once', 'm'], { cwd: world.folder, env }))).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(1);
  });
});

describe.skipIf(!hasPty)(`a person at a terminal${hasPty ? '' : ' (skipped: no script of util-linux)'}`, () => {
  const ask = (answer: string) =>
    runOnTerminal(['m'], { cwd: world.folder, env, type: [[/\[y\/N\] /, `${answer}\r`]] });

  it.each([
    ['y', ''],
    ['yes', ' (long)'],
    ['Y', ' (long)'],
  ])('%s applies, and the question names the changes and the server%s', async (answer) => {
    const { code, screen } = await ask(answer);
    expect(screen).toContain(`Apply 1 create to ${world.simulator.url}? [y/N] `);
    expect([code, world.simulator.rules().length]).toEqual([0, 1]);
  });

  it.each([
    ['n', ''],
    ['', ''],
    ['yy', ' (long)'],
    ['sure', ' (long)'],
  ])('%j writes nothing, exit 1%s', async (answer) => {
    const { code, screen } = await ask(answer);
    expect(screen).toContain('Nothing was written.');
    expect([code, world.simulator.rules().length]).toEqual([1, 0]);
  });

  it('the end of input writes nothing, exit 1 (long)', async () => {
    const run = await runOnTerminal(['m'], { cwd: world.folder, env, type: [[/\[y\/N\] /, '\u0004']] });
    expect([run.code, world.simulator.rules().length]).toEqual([1, 0]);
  });

  it('Ctrl-C at the question writes nothing', async () => {
    const run = await runOnTerminal(['m'], { cwd: world.folder, env, type: [[/\[y\/N\] /, '\u0003']] });
    expect([run.code, world.simulator.rules().length]).toEqual([1, 0]);
  });
});

describe('what moves while a person thinks about the question', () => {
  const yesAfter = (change: () => unknown, ...options: readonly string[]) => {
    const answer = async (): Promise<string> => {
      await change();
      return 'y';
    };
    return world.cli([...options, 'm'], { answer });
  };

  it('a yes to "No traffic changes" opens nothing when another rule is gone meanwhile: exit 3, the new plan', async () => {
    world.write('s.yaml', 'scope: {networks: [10.0.0.0/24]}\n');
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.9'));
    world.simulator.seed([{ action: 'drop', destination: '10.0.0.9' }]);
    world.simulator.seed([{ action: 'drop', destination: '10.0.0.0/24', port_type: 'tcp', port_range: '80' }]);
    const [wide] = world.simulator.seed([{ action: 'drop', destination: '10.0.0.0/8', user_id: null }]);
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
    const remove = () => fetch(`${world.simulator.url}/v0/rules/${wide}`, { method: 'DELETE', headers });
    const run = await yesAfter(remove, '--config', 's.yaml');
    expect([run.code, world.simulator.rules().length]).toEqual([3, 2]);
    expect(run.out).toMatch(/No traffic changes.*\[stale-plan\].*opens +10\.0\.0\.0\/24 tcp 80/s);
  });

  it('says which rule ended where only time passed, while the question stood or since the plan was saved', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-11-26T12:00:00Z') });
    try {
      const pass = (hours: number) => void vi.setSystemTime(Date.now() + hours * 3_600_000);
      world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.9, expires: "2026-11-26T14:00:00Z"'));
      world.write('m/b.yaml', rule('b', 'action: drop, destination: 10.0.0.8, expires: "2026-11-26T18:00:00Z"'));
      const asked = await yesAfter(() => pass(3));
      expect([asked.code, world.simulator.rules()]).toEqual([3, []]);
      expect(asked.out).toContain('`a` ended at 2026-11-26T14:00:00Z while the question stood');
      expect((await world.cli(['plan', 'm', '--save', 'plan.json'])).code).toBe(0);
      pass(4);
      const saved = await world.cli(['apply', 'plan.json', 'm']);
      expect([saved.code, world.simulator.rules()]).toEqual([3, []]);
      const why = 'changed since: the manifests, or what they ask for now (`b` ended at 2026-11-26T18:00:00Z)';
      expect(saved.out).toContain(why);
      expect(saved.out).toContain('plan again, review it, and apply that');
    } finally {
      vi.useRealTimers();
    }
  });

  it('nor does a manifest that changed meanwhile count for approved', async () => {
    const run = await yesAfter(() => world.write('m/b.yaml', rule('b', 'action: accept, destination: 10.1.0.0/16')));
    expect([run.code, world.simulator.rules()]).toEqual([3, []]);
    expect((await world.cli(['m'], { answer: 'y' })).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(2);
  });
});

describe('a rule that another writer adds while the apply runs', () => {
  const interfere = () => {
    const block = { action: 'drop', destination: '10.66.0.0/16', port_type: 'tcp', port_range: '22' } as const;
    const off = world.simulator.onCall(({ method }) => {
      if (method !== 'POST') return;
      off();
      world.simulator.seed([block]);
    });
  };

  it.each([
    ['a yes at the question', ['m'], { answer: 'y' }],
    ['a saved plan', ['apply', 'plan.json', 'm'], {}],
  ])('%s does not delete it: exit 5, and the message names it', async (_, args, options) => {
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    interfere();
    const run = await world.cli(args, options);
    expect([run.code, world.simulator.rules().length]).toEqual([5, 2]);
    expect(run.out).toMatch(/\[replan-refused\].*not as desired: drop 10\.66\.0\.0\/16 tcp 22/s);
    expect((await world.cli(args, options)).code).toBe(args.length > 1 ? 3 : 0);
  });

  it('--approve with --yes does not delete it: exit 5', async () => {
    const guarded = ['--yes', '--fail-on', 'any', 'm'];
    const [, digest = ''] = /--approve ([0-9a-f]{32})/.exec((await world.cli(guarded)).out) ?? [];
    interfere();
    const run = await world.cli([...guarded, '--approve', digest]);
    expect([run.code, world.simulator.rules().length]).toEqual([5, 2]);
  });

  it('a saved plan changes no other field of the Configuration, though somebody changes one meanwhile: exit 5', async () => {
    const fields = (mtu: number): string =>
      `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: c}\nspec: {default_client_mtu: ${mtu}, default_client_persistent_keepalive: 25}\n`;
    world.write('m/c.yaml', fields(1400));
    await world.cli(['--yes', 'm']);
    world.write('m/c.yaml', fields(1300));
    await world.cli(['plan', '--save', 'plan.json', 'm']);
    const off = world.simulator.onCall(({ method }) => {
      if (method !== 'PATCH') return;
      off();
      Object.assign(world.simulator.configuration(), { default_client_persistent_keepalive: 99 });
    });
    const run = await world.cli(['apply', '--yes', 'plan.json', 'm']);
    expect([run.code, run.out]).toEqual([5, expect.stringContaining('[replan-refused]')]);
    expect(world.simulator.configuration()).toMatchObject({
      default_client_mtu: 1300,
      default_client_persistent_keepalive: 99,
    });
  });

  it('a saved plan with --rule-updates patch overwrites no rule that somebody added meanwhile', async () => {
    world.write('m/a.yaml', rule('a', 'action: accept, destination: 10.1.0.0/16, port_type: udp, port_range: 1'));
    await world.cli(['--yes', 'm']);
    const [{ id = '' } = {}] = world.simulator.rules();
    world.write('m/a.yaml', rule('a', 'action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443'));
    const patch = ['--rule-updates', 'patch', 'm'];
    await world.cli(['plan', '--save', 'plan.json', ...patch]);
    world.simulator.faults.inject({
      match: { method: 'PATCH' },
      fault: { kind: 'status', status: 404, body: '{"error":"not found"}' },
    });
    const off = world.simulator.onCall(({ method }) => {
      if (method !== 'PATCH') return;
      off();
      world.simulator.faults.clear();
      // The next read waits until the rule is gone.
      world.simulator.faults.inject({ match: { method: 'GET' }, fault: { kind: 'delay', milliseconds: 300 } });
      const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
      void fetch(`${world.simulator.url}/v0/rules/${id}`, { method: 'DELETE', headers });
      world.simulator.seed([{ action: 'accept', destination: '10.1.0.0/16', port_type: 'udp', port_range: '500' }]);
    });
    const run = await world.cli(['apply', '--yes', 'plan.json', ...patch]);
    expect([run.code, run.out]).toEqual([1, expect.stringContaining('[replan-refused]')]);
    expect(world.simulator.rules().some(({ port_range }) => port_range === '500')).toBe(true);
  });

  it('--yes deletes it too, and says so', async () => {
    interfere();
    const run = await world.cli(['--yes', 'm']);
    expect([run.code, world.simulator.rules().length]).toEqual([0, 1]);
    expect(run.out).toMatch(/\[changed-meanwhile\].*delete drop 10\.66\.0\.0\/16 tcp 22/s);
  });
});

describe('--suspend holds for every command that writes', () => {
  it.each([
    ['the flag', ['--suspend', 'm'], {}, 'suspended by --suspend'],
    ['the variable', ['m'], { RECONCILE_SUSPEND: 'true' }, 'suspended by RECONCILE_SUSPEND'],
    ['the settings file', ['--config', 's.yaml', 'm'], {}, /suspended by .*s\.yaml:2/],
    ['the flag, of a saved plan', ['apply', '--suspend', 'plan.json', 'm'], {}, 'suspended by --suspend'],
  ])('%s: exit 3 with something to write, and the message names it', async (_, args, variables, message) => {
    world.write('s.yaml', 'yes: true\nsuspend: true\n');
    await world.cli(['--plan', '--save', 'plan.json', 'm']);
    const run = await world.cli(args, { env: variables });
    expect([run.code, run.err]).toEqual([3, expect.stringMatching(message)]);
    expect(world.simulator.rules()).toEqual([]);
  });

  it('nobody is asked, and an empty plan ends with 0', async () => {
    expect((await world.cli(['--suspend', 'm'], { answer: 'y' })).code).toBe(3);
    expect(world.simulator.rules()).toEqual([]);
    await world.cli(['m']);
    expect((await world.cli(['--suspend', 'm'])).code).toBe(0);
  });

  it('--watch --once stays 2', async () => {
    const child = spawnReconcile(['--watch', '--once', '--suspend', 'm'], { cwd: world.folder, env });
    expect((await ended(child)).code).toBe(2);
  });
});

describe('a flag that only a watch heeds', () => {
  it.each([['--once'], ['--on-drift', 'report'], ['--listen', '127.0.0.1:0'], ['--interval', '5s']])(
    '%s without --watch is wrong usage, and nothing is written',
    async (...flag) => {
      const run = await world.cli([...flag, 'm']);
      expect([run.code, run.err]).toEqual([1, expect.stringContaining(`${flag[0]} goes with \`reconcile watch\``)]);
      expect(world.simulator.rules()).toEqual([]);
    },
  );

  it('from a variable or a shared settings file it is ignored', async () => {
    world.write('s.yaml', 'interval: 5s\nonDrift: report\n');
    const run = await world.cli(['--config', 's.yaml', 'm'], { env: { RECONCILE_RESCAN: '20s' } });
    expect(run.code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(1);
  });
});
