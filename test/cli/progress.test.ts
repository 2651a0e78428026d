import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/adapters/clock.ts';
import { ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';
import { hasPty, runOnTerminal } from './pty.ts';

let world: World;
let env: Readonly<Record<string, string>>;
beforeEach(async () => {
  world = await startWorld();
  const rules = Array.from({ length: 60 }, (_, i) => rule(`r${i}`, `action: drop, destination: 10.0.${i}.0/24`));
  world.write('m/a.yaml', rules.join(''));
  env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
});
afterEach(() => world.close());

describe('progress', () => {
  it.skipIf(!hasPty)(
    'after a second a terminal shows what is being read, and the line goes when the plan comes',
    async () => {
      world.simulator.faults.inject({ fault: { kind: 'delay', milliseconds: 1300 }, match: { times: 1 } });
      const { code, screen } = await runOnTerminal(['plan', 'm'], { cwd: world.folder, env });
      const { host } = new URL(world.simulator.url);
      expect([code, screen]).toEqual([0, expect.stringContaining(`reading rules from ${host} (1 s)\r\u001b[K`)]);
    },
  );

  it.each([
    [
      ['diff', 'm', 'm'],
      ['reading m', 'comparing'],
    ],
    [
      ['reach', 'm'],
      ['following 60 rules', 'making a table of it'],
    ],
  ])('%j shows on a terminal, after a second, how far it is, and a pipe nothing', async (args, said) => {
    let now = 0;
    const clock = vi.spyOn(systemClock, 'now').mockImplementation(() => (now += 1100));
    try {
      const shown = await world.cli(args, { stderrIsTerminal: true });
      const lines = said.map((text) => `\r\u001b[K${text}`);
      expect([shown.code, shown.err]).toEqual([0, `${lines.join('')}\r\u001b[K`]);
      expect((await world.cli(args)).err).toBe('');
      clock.mockImplementation(() => 0);
      expect((await world.cli(args, { stderrIsTerminal: true })).err).toBe('');
    } finally {
      clock.mockRestore();
    }
  });

  it('a pipe is told nothing while it waits (long)', async () => {
    world.simulator.faults.inject({ fault: { kind: 'delay', milliseconds: 1300 }, match: { times: 1 } });
    const run = await ended(spawnReconcile(['plan', 'm'], { cwd: world.folder, env }));
    expect([run.code, run.err]).toEqual([0, '']);
  });
});

describe('Ctrl-C', () => {
  it('while applying: answers at once what is under way, what comes first, and what more of it does', async () => {
    world.simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'delay', milliseconds: 30 } });
    const child = spawnReconcile(['apply', '--yes', '--concurrency', '2', 'm'], { cwd: world.folder, env });
    const unsubscribe = world.simulator.onCall(() => {
      if (world.simulator.rules().length === 10) child.kill('SIGINT');
    });
    const run = await ended(child);
    unsubscribe();
    expect([run.code, run.err]).toEqual([5, expect.stringMatching(/Stopping after \d+ of 60 requests/)]);
    expect(run.err).toContain('a third ends at once');
    expect(world.simulator.rules().length).toBeLessThan(20);
  });

  it('while reading: says that nothing was written', async () => {
    const child = spawnReconcile(['apply', '--yes', 'm'], { cwd: world.folder, env });
    world.simulator.faults.inject({ fault: { kind: 'lost-answer' } });
    const unsubscribe = world.simulator.onCall(() => child.kill('SIGINT'));
    const run = await ended(child);
    unsubscribe();
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('nothing was written')]);
    expect(world.simulator.rules()).toEqual([]);
  });
});
