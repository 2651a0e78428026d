import { expect, test } from 'vitest';
import type { Enforcement } from '../../src/enforcement/report.ts';
import { type EnforcementReport, reportUnreadable } from '../../src/enforcement/report.ts';
import type { Rule } from '../../src/model/rule.ts';
import { reconcile } from '../../src/reconcile.ts';
import { dropsOf, passOver } from '../enforcement/support/pass.ts';
import { filterVerdicts, verdicts } from '../property/apply-universe.ts';
import { kernelOf, many, type World, withFilter } from './kernel.ts';
import { desiredState, rule, testRun } from './support.ts';

test('a create over what a rule modified in place left behind crashes the filter, and the report allows for its rebuild', async () => {
  await withFilter(100, [rule('accept 10.0.0.4/31')], async ({ simulator, clock, patch }) => {
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
  await withFilter(
    100,
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
      const held = new Set(simulator.filter.elements().map(({ id }) => id));
      expect(simulator.rules().filter(({ id }) => !held.has(id))).toEqual([]);
    },
  );
});

test.each([
  ['nobody looking at the kernel', 100, 5000, false],
  ['a look, where a rebuild takes longer than what is stored meanwhile survives', 700, 12_000, true],
])('40 rules modified in place cost one rebuild and one wait, with %s', async (_, beside, atMostMs, looks) => {
  const modified = Array.from({ length: 40 }, (_, index) => `drop 10.9.${2 * index}.0/24`);
  await withFilter(100, [...many(beside, 1), ...modified.map(rule)], async ({ simulator, clock, patch }) => {
    await patch(modified, { action: 'accept' });
    const desired = modified.map((line) => rule(line.replace('drop', 'accept').replace('/24', '/23')));
    const run = testRun(simulator.url, desiredState([...many(beside, 1), ...desired]), {
      clock,
      ...(looks ? { enforcement: kernelOf(simulator) } : {}),
    });
    const plan = await run.plan();
    expect(plan.exposure.filter(({ fromStep, toStep }) => fromStep === 's1' && toStep === 's1')).toHaveLength(1);
    const start = clock.now();
    const report = await run.apply(plan);
    await run.close();
    expect(report.end).toBe('converged');
    expect(clock.now() - start).toBeLessThan(atMostMs); // 40 waits: 124 s, and 300 s
    await clock.sleep((report.enforcedInMs ?? 0) + 1);
    expect(simulator.filter.state()).toEqual({ pending: 0, rebuilding: false, crashes: 1, lost: [] });
  });
});

/** Replaces a rule that was modified in place, in a gap, beside 400 others; the ms from its delete to the end of the apply. */
async function replaceModified(
  filterRate: number,
  enforcement: (world: World) => Enforcement | undefined,
): Promise<{ readonly ms: number; readonly lost: readonly string[] }> {
  let result: { readonly ms: number; readonly lost: readonly string[] } | null = null;
  await withFilter(filterRate, [...many(400, 1), rule('drop 10.9.1.0/24')], async (world) => {
    const { simulator, clock, patch } = world;
    await patch(['drop 10.9.1.0/24'], { action: 'accept' });
    const kernel = enforcement(world);
    const run = testRun(simulator.url, desiredState([...many(400, 1), rule('accept 10.9.0.0/23')]), {
      clock,
      ...(kernel === undefined ? {} : { enforcement: kernel }),
    });
    const plan = await run.plan();
    expect(plan.steps.map(({ type }) => type)).toEqual(['delete', 'create']);
    const start = clock.now();
    const report = await run.apply(plan);
    await run.close();
    expect(report.end).toBe('converged');
    const ms = clock.now() - start;
    await clock.sleep((report.enforcedInMs ?? 0) + 1);
    const { crashes, pending, rebuilding, lost } = simulator.filter.state();
    expect({ crashes, pending, rebuilding }).toEqual({ crashes: 1, pending: 0, rebuilding: false });
    result = { ms, lost };
  });
  if (result === null) throw new Error('the body did not run');
  return result;
}

const seen = ({ simulator }: World): Enforcement => kernelOf(simulator);

test('a filter that is seen to hold everything again is not waited for any longer', async () => {
  const { ms, lost } = await replaceModified(800, seen); // half a second
  expect(ms).toBeGreaterThanOrEqual(500);
  expect(ms).toBeLessThan(2000);
  expect(lost).toEqual([]);
});

test('a filter that is seen to be slower is waited for as long as without looking', async () => {
  expect((await replaceModified(100, seen)).ms).toBeGreaterThanOrEqual(4000);
});

test('a kernel that cannot be read, or reads the same before and after, shortens no wait', async () => {
  const fullMs = (await replaceModified(800, () => undefined)).ms;
  expect(fullMs).toBeGreaterThanOrEqual(4000);
  const says =
    (report: Partial<EnforcementReport>): ((world: World) => Enforcement) =>
    () => ({ check: async (live) => ({ ...reportUnreadable('', live.length), ...report }) });
  for (const kernel of [
    says({ state: 'unreadable', message: 'nft is gone' }),
    lateFailure,
    differentFirst(says({ state: 'enforced', tableHandle: 7 })),
    differentFirst(says({ state: 'enforced' })),
    says({ state: 'differs', tableHandle: 7 }),
  ]) {
    expect((await replaceModified(800, kernel)).ms).toBeGreaterThanOrEqual(fullMs);
  }
});

/** Before the delete the kernel holds something else than the live rules, in the same table. */
function differentFirst(then: (world: World) => Enforcement): (world: World) => Enforcement {
  return (world) => {
    let looks = 0;
    const later = then(world);
    return {
      check: async (...asked) => {
        const report = await later.check(...asked);
        return looks++ === 0 ? { ...report, state: 'differs' } : report;
      },
    };
  };
}

/** Can be read before the delete, and no more after it. */
function lateFailure(world: World): Enforcement {
  let looks = 0;
  const good = seen(world);
  return {
    check: async (...asked) => (looks++ === 0 ? await good.check(...asked) : reportUnreadable('nft is gone', 0)),
  };
}

test('a stop ends the wait for a rebuild, with a gap open at its bound, and closes the gap', async () => {
  await withFilter(100, [...many(1200, 1), rule('drop 10.9.1.0/24')], async ({ simulator, clock, patch }) => {
    await patch(['drop 10.9.1.0/24'], { action: 'accept' });
    const stop = new AbortController();
    simulator.onCall(({ method }) => {
      if (method === 'DELETE') void clock.sleep(1000).then(() => stop.abort());
    });
    const desired = [...many(1200, 1), rule('accept 10.9.0.0/23')];
    const run = testRun(simulator.url, desiredState(desired), { clock, stop: stop.signal });
    const start = clock.now();
    const report = await run.apply(await run.plan());
    await run.close();
    expect(report.end).toBe('stopped');
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual(['done', 'done']);
    expect(clock.now() - start).toBeLessThanOrEqual(11_000);
  });
});

test.each([
  ['deletes', many(300, 1), []],
  ['replacements', many(300, 1).map(narrow), many(300, 1)],
])('the time until the filter holds 300 %s is said within half as much again', async (_, before, after) => {
  await withFilter(100, before, async ({ simulator, clock }) => {
    const run = testRun(simulator.url, desiredState(after), { clock });
    const report = await run.apply(await run.plan());
    await run.close();
    expect(report.end).toBe('converged');
    const said = report.enforcedInMs ?? 0;
    const asked = clock.now();
    while (simulator.filter.state().pending > 0) await clock.sleep(10);
    const took = clock.now() - asked;
    expect(took).toBeLessThanOrEqual(1.5 * said + 200);
    expect(said).toBeLessThanOrEqual(1.5 * took + 200);
  });
});

/** The same rule with its last bit wide: the two collide, so that one replaces the other within a gap. */
function narrow(wide: Rule): Rule {
  return rule(`drop ${wide.destination.text.replace(/\/32$/, '')}/31`);
}

test('a sidecar that saw how long a slow filter took says the next time what it will take', async () => {
  await withFilter(40, [], async ({ simulator, clock }) => {
    const { pass, close } = passOver({ simulator }, '', { repair: false, waitMs: 60_000 });
    const learnt = { slowness: 1 };
    const enforcement = { kernel: kernelOf(simulator), repair: false, waitMs: 60_000, learnt };
    const run = testRun(simulator.url, desiredState([]), { clock });
    const watching = { ...pass, api: run.api, clock, enforcement };
    const said: number[] = [];
    const took: number[] = [];
    for (const count of [200, 400]) {
      const hosts = Array.from({ length: count }, (_, index) => `10.0.${index >> 8}.${index & 255}`);
      const { apply, kernel } = await reconcile(dropsOf(hosts), watching, async () => true);
      expect(apply?.end).toBe('converged');
      said.push(apply?.enforcedInMs ?? 0);
      took.push(kernel?.waitedMs ?? 0);
    }
    await run.close();
    await close();
    const ratios = took.map((ms, index) => ms / (said[index] ?? 0));
    expect(ratios[0]).toBeGreaterThan(2);
    expect(ratios[1]).toBeGreaterThan(0.8);
    expect(ratios[1]).toBeLessThan(1.25);
  });
});
