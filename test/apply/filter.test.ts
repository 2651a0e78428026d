import { expect, test } from 'vitest';
import type { Rule } from '../../src/model/rule.ts';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { filterVerdicts, seedOf, verdicts } from '../property/apply-universe.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { desiredState, rule, testRun, token } from './support.ts';

interface World {
  readonly simulator: Simulator;
  readonly clock: FakeClock;
  /** Changes the rules in place, which the filter does not see. */
  patch(lines: readonly string[], fields: object): Promise<void>;
}

/** A server whose packet filter follows 100 rules a second, and holds all of them when the body starts. */
async function withSlowFilter(live: readonly Rule[], body: (world: World) => Promise<void>): Promise<void> {
  const clock = createFakeClock();
  const simulator = await startSimulator({
    token,
    filterRate: 100,
    filterTime: { now: () => clock.now(), schedule: () => () => {} },
  });
  try {
    simulator.seed(live.map(seedOf));
    await clock.sleep(60_000);
    const patch: World['patch'] = async (lines, fields) => {
      for (const line of lines) {
        const [action, destination] = line.split(' ');
        const found = simulator.rules().find((one) => one.action === action && one.destination === destination);
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
        const url = `${simulator.url}/v0/rules/${found?.id}`;
        const answer = await fetch(url, { method: 'PATCH', headers, body: JSON.stringify({ rule: fields }) });
        expect(answer.status).toBe(200);
      }
    };
    await body({ simulator, clock, patch });
  } finally {
    await simulator.close();
  }
}

test('a create over what a rule modified in place left behind crashes the filter, and the report allows for its rebuild', async () => {
  await withSlowFilter([rule('accept 10.0.0.4/31')], async ({ simulator, clock, patch }) => {
    await patch(['accept 10.0.0.4/31'], { action: 'drop' });
    const desired = [rule('drop 10.0.0.4/31'), rule('accept 10.0.0.0/29')];
    const run = testRun(simulator.url, desiredState(desired), { clock });
    const report = await run.apply(await run.plan());
    await run.close();
    expect(report.end).toBe('converged');
    await clock.sleep((report.enforcedInMs ?? 0) + 1);
    expect(simulator.filter.state()).toMatchObject({ pending: 0, rebuilding: false, crashes: 1, lost: [] });
    expect(filterVerdicts(simulator)).toEqual(verdicts(desired));
  });
});

test('a rebuild begins only after the backlog before its delete, and is over when the report said', async () => {
  const many = (count: number, net: number): readonly Rule[] =>
    Array.from({ length: count }, (_, index) => rule(`drop 10.${net}.${index >> 8}.${index & 255}`));
  await withSlowFilter(
    [...many(100, 1), ...many(300, 2), rule('drop 10.9.0.0/24')],
    async ({ simulator, clock, patch }) => {
      await patch(['drop 10.9.0.0/24'], { action: 'accept' });
      // 300 deletes are a backlog of 3 s; the delete that crashes the filter comes last.
      const run = testRun(simulator.url, desiredState(many(100, 1)), { clock });
      const report = await run.apply(await run.plan());
      await run.close();
      expect(report.end).toBe('converged');
      await clock.sleep((report.enforcedInMs ?? 0) + 1);
      expect(simulator.filter.state()).toEqual({ pending: 0, rebuilding: false, crashes: 1, lost: [] });
      const held = new Set(simulator.filter.elements().map((element) => element.rule));
      expect(simulator.rules().filter(({ id }) => !held.has(id))).toEqual([]);
    },
  );
});
