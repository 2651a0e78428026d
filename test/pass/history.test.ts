import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ApplyReport, Outcome } from '../../src/apply/outcome.ts';
import type { Desired } from '../../src/desired/context.ts';
import { findProfile } from '../../src/model/profile.ts';
import { collides, formatRuleKey, type LiveRule, type Rule, toWire } from '../../src/model/rule.ts';
import { type LiveState, wholeScope } from '../../src/model/state.ts';
import { goBack } from '../../src/pass/go-back.ts';
import {
  type ApplyRecord,
  decodeApplyRecord,
  encodeApplyRecord,
  joinApplyRecords,
  makeApplyRecord as makeRecord,
} from '../../src/pass/history.ts';
import type { Plan, Step } from '../../src/plan/plan.ts';
import { formatRule } from '../../src/policy/words.ts';
import { startSimulator } from '../../src/simulator/server.ts';
import { desiredState, rule, testRun, token } from '../apply/support.ts';
import { runs } from '../property/runs.ts';

const profile = findProfile('firezone-0.7');

/** Rules of which many collide, so that what others made stands in the way now and then. */
const universe: readonly Rule[] = [
  ...['10.0.0.0/8', '10.1.0.0/16', '10.1.1.0/24', '10.2.0.0/16', '192.0.2.1', '192.0.2.0/24', '2001:db8::/32'],
].flatMap((destination) => [`drop ${destination}`, `accept ${destination}`, `drop ${destination} tcp 80-90`].map(rule));

function live(rules: readonly Rule[]): readonly LiveRule[] {
  return rules.map((one) => {
    const id = `00000000-0000-4000-8000-${String(universe.indexOf(one)).padStart(12, '0')}`;
    return { id, rule: one, destinationText: toWire(one).destination, insertedAt: '', updatedAt: '' };
  });
}

/** What the server can hold of a list: no two that collide. */
function holdable(rules: readonly Rule[]): readonly Rule[] {
  const held: Rule[] = [];
  for (const one of rules) if (!held.some((other) => collides(other, one))) held.push(one);
  return held;
}

const anyRules = fc.shuffledSubarray([...universe]).map(holdable);

function recordOf(before: readonly Rule[], after: readonly Rule[]): ApplyRecord {
  return {
    ...{ at: '2026-11-22T00:00:00.000Z', by: 'test', server: null, revision: null, digest: null, end: 'converged' },
    deleted: live(before.filter((one) => !after.includes(one))),
    created: live(after.filter((one) => !before.includes(one))),
    ...{
      said: new Map([[formatRuleKey(universe[0] as Rule), { name: 'first' }]]),
      endsBefore: new Map([[formatRuleKey(universe[1] as Rule), { name: null, expires: 7 }]]),
      fields: [],
      before: null,
      after: null,
    },
  };
}

/** What was before this apply, where these rules are live now. */
function stateBefore(record: ApplyRecord, state: LiveState, now = 0, goesBack = false): Desired {
  return goBack({ record, ...(goesBack && { goesBack }) }, state, {
    profile,
    scope: wholeScope,
    now,
    resolveSecret: () => ({ ok: false, error: 'none' }),
  });
}

/** The rules of a state to go back to, none of which may be refused. */
function rulesIn({ problems, state }: Desired): readonly Rule[] {
  expect(problems.filter(({ code }) => code !== 'changed-since')).toEqual([]);
  return state?.rules.map((one) => one.rule) ?? [];
}

/** The only rules that may be deleted to go back. */
function createdBy(record: ApplyRecord): ReadonlySet<string> {
  return new Set(record.created.map(({ rule }) => formatRuleKey(rule)));
}

/** What a plan of these manifests makes of the live rules when only some of them may be deleted. */
function planned(record: ApplyRecord, now: readonly Rule[]): readonly string[] {
  const back = stateBefore(record, { rules: live(now), configuration: null });
  const wanted = new Set(rulesIn(back).map(formatRuleKey));
  const prune = createdBy(record);
  const kept = now.map(formatRuleKey).filter((key) => wanted.has(key) || !prune.has(key));
  return [...new Set([...kept, ...wanted])].sort();
}

describe('going back', () => {
  it('gives the state before the apply, where nobody changed anything since', () => {
    fc.assert(
      fc.property(anyRules, anyRules, (before, after) => {
        expect(planned(recordOf(before, after), after)).toEqual(before.map(formatRuleKey).sort());
      }),
    );
  });

  it('keeps all that others made since, whatever they made, and names what cannot come back for it', () => {
    fc.assert(
      fc.property(anyRules, anyRules, anyRules, (before, after, others) => {
        const record = recordOf(before, after);
        const made = others.filter((one) => !after.includes(one) && !before.includes(one));
        const now = holdable([...made, ...after]);
        const result = planned(record, now);
        for (const one of made) expect(result).toContain(formatRuleKey(one));
        const { problems } = stateBefore(record, { rules: live(now), configuration: null });
        const missing = before.filter(
          (one) => !result.includes(formatRuleKey(one)) && record.deleted.some((gone) => gone.rule === one),
        );
        for (const one of missing)
          expect(problems.some(({ summary }) => summary.includes(formatRule(one, new Map())))).toBe(true);
        const rules = universe.filter((one) => result.includes(formatRuleKey(one)));
        expect(rules.some((a) => rules.some((b) => a !== b && collides(a, b)))).toBe(false);
      }),
    );
  });

  it('does nothing twice: what was undone already is not undone again', () => {
    fc.assert(
      fc.property(anyRules, anyRules, (before, after) => {
        expect(planned(recordOf(before, after), before)).toEqual(before.map(formatRuleKey).sort());
      }),
    );
  });

  it('has no word for what is as before, unless somebody asks to undo what was carried out', () => {
    const [mine, gone] = [rule('drop 10.1.0.0/16'), rule('accept 10.2.0.0/16')];
    const record = recordOf([gone], [mine]);
    const words = (one: ApplyRecord, goesBack: boolean) =>
      stateBefore(one, { rules: live([gone]), configuration: null }, 0, goesBack).problems.length;
    expect([words(record, true), words({ ...record, end: 'started' }, false), words(record, false)]).toEqual([0, 0, 2]);
  });

  it('reads every record that it wrote', () => {
    fc.assert(
      fc.property(anyRules, anyRules, (before, after) => {
        const record = recordOf(before, after);
        const value: unknown = JSON.parse(JSON.stringify(encodeApplyRecord(record)));
        const byKey = (rules: readonly LiveRule[]) => rules.map((one) => formatRuleKey(one.rule)).sort();
        const read = decodeApplyRecord(value);
        if (!read.ok) throw new Error(read.error);
        expect(byKey(read.value.deleted)).toEqual(byKey(record.deleted));
        expect(byKey(read.value.created)).toEqual(byKey(record.created));
        expect(read.value.said).toEqual(record.said);
      }),
    );
  });

  it('gives the state before, filtered by time, plus what others changed meanwhile, whatever step of the apply or of the way back failed', async () => {
    const fault = fc.record({
      method: fc.constantFrom('POST', 'DELETE'),
      nth: fc.integer({ min: 1, max: 5 }),
      times: fc.integer({ min: 1, max: 9 }),
      kind: fc.constantFrom('reset-after' as const, 'reset-before' as const, 'status' as const),
    });
    const worlds = fc.record({
      before: anyRules,
      after: anyRules,
      // Rules of which of the universe end, and at what hour; going back takes place at hour 12.
      ends: fc.array(fc.option(fc.integer({ min: 1, max: 24 })), {
        minLength: universe.length,
        maxLength: universe.length,
      }),
      faults: fc.tuple(fault, fault),
      removed: fc.nat(),
    });
    await fc.assert(
      fc.asyncProperty(worlds, async ({ before, after, ends, faults, removed }) => {
        const simulator = await startSimulator({ token, users: [] });
        const inject = ({ kind, ...match }: (typeof faults)[0]): number =>
          simulator.faults.inject({ match, fault: kind === 'status' ? { kind, status: 403 } : { kind } });
        const hasEnded = (one: Rule): boolean => (ends[universe.indexOf(one)] ?? 24) <= 12;
        const former = (one: Rule) => {
          const end = ends[universe.findIndex((other) => formatRuleKey(other) === formatRuleKey(one))];
          return { name: 'r', ...(end == null ? {} : { expires: end * hour }) };
        };
        const open: TestRun[] = [];
        try {
          simulator.seed(before.map((one) => ({ ...toWire(one), port_type: one.ports?.type ?? null })));
          const run = testRun(simulator.url, desiredState(after));
          open.push(run);
          const plan = await run.plan();
          inject(faults[0]);
          const record = makeRecord(origin, plan, plan.steps.length === 0 ? null : await run.apply(plan), {
            lookUp: former,
            ends: new Map(),
          });
          simulator.faults.clear();
          simulator.seed([{ action: 'accept', destination: '172.16.0.0/12' }]);
          const deleted = new Set(record.deleted.map(({ rule: one }) => formatRuleKey(one)));
          const found = (await run.live()).rules;
          // A DELETE without an answer is in the record, and may not have been carried out.
          const staying = new Set(found.map((one) => formatRuleKey(one.rule)));
          // What the apply is not known to have left alone is its own to put back.
          const left = found.filter((one) => !deleted.has(formatRuleKey(one.rule)));
          const gone = left[removed % left.length];
          if (gone !== undefined) await deleteRule(simulator.url, gone.id);
          for (const isLast of [false, true]) {
            const back = stateBefore(record, await run.live(), 12 * hour);
            const wanted = desiredState(rulesIn(back));
            const undo = testRun(simulator.url, wanted, { planOptions: { prune: createdBy(record) } });
            open.push(undo);
            const undoing = await undo.plan();
            if (!isLast) inject(faults[1]);
            await undo.apply(undoing);
            simulator.faults.clear();
          }
          const expected = before
            .filter((one) => staying.has(formatRuleKey(one)) || !(deleted.has(formatRuleKey(one)) && hasEnded(one)))
            .map(formatRuleKey)
            .concat('accept 172.16.0.0/12 *')
            .filter((key) => gone === undefined || key !== formatRuleKey(gone.rule));
          const result = (await run.live()).rules.map((one) => formatRuleKey(one.rule));
          expect(result.sort()).toEqual(expected.sort());
        } finally {
          for (const each of open) await each.close();
          await simulator.close();
        }
      }),
      { numRuns: runs(300) },
    );
  }, 300_000);
});

const hour = 3_600_000;
const origin = { at: '2026-11-22T00:00:00.000Z', by: 'test', server: null, revision: null, digest: null };

type TestRun = ReturnType<typeof testRun>;

async function deleteRule(url: string, id: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}` };
  expect((await fetch(`${url}/v0/rules/${id}`, { method: 'DELETE', headers })).ok).toBe(true);
}

describe('the record of an apply that replaces a rule', () => {
  const [replaced] = live([rule('drop 10.1.0.0/16')]);
  if (replaced === undefined) throw new Error('there is one');
  const shared = { change: 0, after: [], gap: null, mayRebuild: false };
  const steps: readonly Step[] = [
    { ...shared, type: 'delete', id: 'a', live: replaced },
    { ...shared, type: 'create', id: 'b', rule: replaced.rule },
  ];
  const plan = { steps, changes: [] } as unknown as Plan;
  const applied = (end: ApplyReport['end'], created: Outcome['outcome']): ApplyReport => {
    const [gone, made] = steps.map((step): Outcome => ({ ...outcome, step }));
    return { end, outcomes: [gone, { ...made, outcome: created }] } as unknown as ApplyReport;
  };
  const outcome = { outcome: 'done', status: 200 } as unknown as Outcome;

  it.each([
    ['is about to', null, ['drop 10.1.0.0/16 *']],
    ['may have lost it', applied('failed', 'unknown'), ['drop 10.1.0.0/16 *']],
    ['put it back', applied('failed', 'done'), []],
    ['was seen to put it back', applied('converged', 'unknown'), []],
  ])('names it as deleted where it %s', (_, apply, deleted) => {
    const record = makeRecord(origin, plan, apply, { lookUp: () => undefined, ends: new Map() });
    expect([record.deleted.map((one) => formatRuleKey(one.rule)), record.created]).toEqual([deleted, []]);
  });
});

describe('the record of an apply that wrote the Configuration in part', () => {
  const fields = ['default_client_mtu', 'vpn_session_duration'] as const;
  const before = { fields: { default_client_mtu: 1280, vpn_session_duration: 0 } };
  const step = { type: 'configure', id: 'a', change: 0, fields, before, desired: { fields: {} } } as unknown as Step;

  it.each([
    ['all where nobody knows', { outcome: 'unknown', status: null }, fields],
    ['those that were sent beside a pinned one', { outcome: 'failed', status: 200, fields: [fields[1]] }, [fields[1]]],
    ['those that went before a refused provider', { outcome: 'failed', status: 422, fields: [fields[0]] }, [fields[0]]],
    ['none where none was taken', { outcome: 'failed', status: 422, fields: [] }, []],
  ] as const)('names %s', (_, ended, expected) => {
    const apply = { end: 'not-converged', outcomes: [{ step, ...ended }] } as unknown as ApplyReport;
    const plan = { steps: [step], changes: [] } as unknown as Plan;
    expect(makeRecord(origin, plan, apply, { lookUp: () => undefined, ends: new Map() }).fields).toEqual(expected);
  });
});

describe('several applies, taken back together', () => {
  const keys = (rules: readonly Rule[]): readonly string[] => rules.map(formatRuleKey).sort();

  it('come to the state before the first, whatever lay between', () => {
    fc.assert(
      fc.property(fc.array(anyRules, { minLength: 2, maxLength: 5 }), (states) => {
        const records = states.slice(1).map((after, index) => recordOf(states[index] ?? [], after));
        const joined = joinApplyRecords(records);
        expect(joined).not.toBeNull();
        if (joined !== null) expect(planned(joined, states.at(-1) ?? [])).toEqual(keys(states[0] ?? []));
      }),
      { numRuns: runs(300) },
    );
    expect(joinApplyRecords([])).toBeNull();
  });

  it('come to the state before the first, however far each came before its process was killed, and have no word for what is so already', () => {
    const applies = fc.array(fc.record({ after: anyRules, done: fc.option(fc.nat({ max: 9 })) }), {
      minLength: 1,
      maxLength: 5,
    });
    fc.assert(
      fc.property(anyRules, applies, (before, all) => {
        let now = before;
        const records = all.map(({ after, done }) => {
          const record = recordOf(now, after);
          const gone = now.filter((one) => !after.includes(one));
          const made = after.filter((one) => !now.includes(one));
          const writes = [...gone, ...made].slice(0, done ?? universe.length);
          now = [...now.filter((one) => !writes.includes(one)), ...made.filter((one) => writes.includes(one))];
          return { ...record, end: done === null ? ('converged' as const) : ('started' as const) };
        });
        const joined = joinApplyRecords(records);
        if (joined === null) throw new Error('there are some');
        expect(planned(joined, now)).toEqual(keys(before));
        expect(stateBefore(joined, { rules: live(now), configuration: null }, 0, true).problems).toEqual([]);
      }),
      { numRuns: runs(300) },
    );
  });

  it('put back the first of two rules that the server never held side by side, and name the other', () => {
    const [mine, others] = [rule('drop 10.1.0.0/16'), rule('drop 10.1.1.0/24')];
    const joined = joinApplyRecords([recordOf([mine], []), recordOf([others], [])]);
    if (joined === null) throw new Error('there are two');
    const back = stateBefore(joined, { rules: [], configuration: null });
    expect([keys(rulesIn(back)), back.problems.map(({ summary }) => summary)]).toEqual([
      [formatRuleKey(mine)],
      [`Not undone: the rule drop 10.1.1.0/24 cannot come back beside drop 10.1.0.0/16.`],
    ]);
  });

  it('put a field back to what it was before the first apply that wrote it', () => {
    const configuration = (mtu: number, dns: string) =>
      ({ fields: { default_client_mtu: mtu, default_client_dns: [dns] } }) as unknown as ApplyRecord['before'];
    const joined = joinApplyRecords([
      {
        ...recordOf([], []),
        fields: ['default_client_mtu'],
        before: configuration(1300, 'a'),
        after: configuration(1400, 'a'),
      },
      {
        ...recordOf([], []),
        fields: ['default_client_dns', 'default_client_mtu'],
        before: configuration(1400, 'b'),
        after: configuration(1420, 'c'),
      },
      recordOf([], []),
    ]);
    expect(joined?.fields).toEqual(['default_client_mtu', 'default_client_dns']);
    expect([joined?.before, joined?.after]).toEqual([configuration(1300, 'b'), configuration(1420, 'c')]);
  });
});
