import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findProfile } from '../../src/model/profile.ts';
import type { RuleNotes } from '../../src/model/rule.ts';
import type { PlanInput } from '../../src/plan/input.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { liveOf, worldArbitrary } from '../property/order-world.ts';
import { runs } from '../property/runs.ts';
import { desiredRules, type InputParts, liveRules, planInput, rule, user } from './support.ts';

/** Every rule change as `action reason`, in the plan's order. */
function decisions(parts: InputParts, more: Partial<PlanInput> = {}): readonly string[] {
  return makePlan(planInput(parts, more))
    .changes.filter(({ kind }) => kind === 'Rule')
    .map(({ action, reason, via }) => [action, reason, via].filter(Boolean).join(' '));
}

function origins(parts: InputParts, more: Partial<PlanInput> = {}): readonly (string | undefined)[] {
  return makePlan(planInput(parts, more)).changes.map(({ action, origin }) => `${action} ${origin}`);
}

describe('an action and a reason', () => {
  const desired = desiredRules('drop 10.0.0.0/8');

  it('create: nothing live matches', () => {
    expect(decisions({ desired })).toEqual(['create desired-only']);
  });
  it('keep: equal', () => {
    expect(decisions({ desired, live: liveRules('drop 10.0.0.0/8') })).toEqual(['keep in-sync']);
  });
  it('keep, adopted: equal, and the base does not know it', () => {
    expect(decisions({ desired, live: liveRules('drop 10.0.0.0/8'), base: [] })).toEqual(['keep adopted']);
  });
  it('keep: modified in place, and no replacement asked for; reported', () => {
    const input = planInput({ desired, live: liveRules('*drop 10.0.0.0/8') });
    expect(makePlan(input).problems.map(({ code, place }) => [code, place?.line])).toEqual([['modified-in-place', 1]]);
    expect(makePlan(input).steps).toEqual([]);
    expect(makePlan({ ...input, profile: findProfile('generic') }).problems).toEqual([]);
  });
  it('update: modified in place, and replacement asked for', () => {
    const parts = { desired, live: liveRules('*drop 10.0.0.0/8'), options: { replaceModified: true } };
    expect(decisions(parts)).toEqual(['update modified-in-place replace']);
    expect(makePlan(planInput(parts)).steps.map(({ type }) => type)).toEqual(['delete', 'create']);
  });
  it('update: related, and different', () => {
    const live = liveRules('accept 10.0.0.0/8');
    expect(decisions({ desired, live })).toEqual(['update differs replace']);
    expect(decisions({ desired, live }, { profile: findProfile('generic') })).toEqual(['update differs patch']);
  });
  it('delete, expired: the end of a rule is told as such though another one begins beside it', () => {
    const [ended] = desiredRules('accept 10.1.0.0/16').map((one) => ({ ...one, name: 'ended', expires: 1 }));
    const parts = { desired: desiredRules('accept 10.1.5.0/24'), live: liveRules('accept 10.1.0.0/16') };
    const input = planInput(parts);
    const desiredNow = { ...input.desired, expired: ended === undefined ? [] : [ended] };
    const { changes } = makePlan({ ...input, desired: desiredNow });
    expect(changes.map(({ action, name, origin }) => [action, name, origin])).toEqual([
      ['delete', 'ended', 'expired'],
      ['create', 'r1', undefined],
    ]);
  });
  it('delete, told by its name: a manifest says that it begins later, and not of a second copy', () => {
    const timed = (name: string, times: RuleNotes) =>
      desiredRules(`${name}=drop 10.0.0.0/8`).map((one) => ({ ...one, ...times }));
    const upcoming = [...timed('web2', { notBefore: 9 }), ...timed('web', { notBefore: 7, expires: 8 })];
    const input = (parts: InputParts, more: Partial<PlanInput['desired']>) => {
      const made = planInput({ live: liveRules('drop 10.0.0.0/8'), options: { prune: 'none' }, ...parts });
      const { changes } = makePlan({ ...made, desired: { ...made.desired, at: 5, ...more } });
      return changes.map((one) => [one.action, one.name, one.origin, one.kind === 'Rule' && one.expires]);
    };
    expect(input({}, { upcoming })).toEqual([['delete', 'web', undefined, undefined]]);
    expect(input({ base: [] }, { upcoming })).toEqual([['delete', 'web', 'drift', undefined]]);
    expect(input({ base: desiredRules('former=drop 10.0.0.0/8') }, { upcoming })).toEqual([
      ['delete', 'web', 'this-revision', undefined],
    ]);
    const expired = timed('over', { expires: 4 });
    expect(input({}, { upcoming, expired })).toEqual([['delete', 'over', 'expired', 4]]);
    // What the base asks for still is ended by this revision; what ended by the base too is not.
    const base = desiredRules('over=drop 10.0.0.0/8');
    expect(input({ base }, { expired })).toEqual([['delete', 'over', 'this-revision', 4]]);
    const lasting = timed('over', { expires: 6 });
    expect(input({ base: lasting }, { expired })).toEqual([['delete', 'over', 'this-revision', 4]]);
    expect(input({ base: expired }, { expired })).toEqual([['delete', 'over', 'expired', 4]]);
    const live = liveRules('drop 10.0.0.0/8', 'drop 10.0.0.0/8');
    expect(input({ live, desired }, { upcoming })).toEqual([
      ['keep', 'r1', undefined, undefined],
      ['skip', null, undefined, undefined],
    ]);
  });
  it('update: a live rule that is to begin later becomes the narrower one that is in force until then', () => {
    const input = planInput({ desired: desiredRules('web=accept 10.1.0.0/24'), live: liveRules('accept 10.1.0.0/16') });
    const upcoming = desiredRules('wide=accept 10.1.0.0/16').map((one) => ({ ...one, notBefore: 9 }));
    const { changes } = makePlan({ ...input, desired: { ...input.desired, at: 5, upcoming } });
    expect(changes.map(({ action, name }) => [action, name])).toEqual([['update', 'web']]);
  });
  it('delete: nothing desires it', () => {
    expect(decisions({ live: liveRules('drop 10.0.0.0/8') })).toEqual(['delete not-desired']);
  });
  it('delete: a second copy of a desired rule', () => {
    const live = liveRules('drop 10.0.0.0/8', 'drop 10.0.0.0/8');
    expect(decisions({ desired, live })).toEqual(['delete duplicate', 'keep in-sync']);
  });
  it('skip: pruning is off', () => {
    const parts = { desired, live: liveRules('drop 11.0.0.0/8'), options: { prune: 'none' } } as const;
    expect(decisions(parts)).toEqual(['create desired-only', 'skip prune-off']);
  });
  it('update without pruning: only an edit of a rule that the base knows by name', () => {
    const parts = { desired, live: liveRules('drop 11.0.0.0/8'), options: { prune: 'none' } } as const;
    expect(decisions({ ...parts, base: desiredRules('drop 11.0.0.0/8') })).toEqual(['update differs replace']);
  });
  it('skip: out of scope, by user and by network', () => {
    const live = liveRules('drop 10.0.0.0/8 @alice', 'drop 11.0.0.0/8');
    const scope = { rules: true, configuration: true };
    expect(decisions({ live }, { scope: { ...scope, users: new Set([user('alice')]) } })).toEqual([
      'skip out-of-scope',
      'delete not-desired',
    ]);
    const networks = [rule('drop 10.0.0.0/7').destination];
    expect(decisions({ live }, { scope: { ...scope, networks } })).toEqual([
      'delete not-desired',
      'delete not-desired',
    ]);
    expect(decisions({ live }, { scope: { ...scope, rules: false } })).toEqual([
      'skip out-of-scope',
      'skip out-of-scope',
    ]);
  });
  it('skip: a desired rule out of scope, should one come this far', () => {
    const scope = { rules: false, configuration: true };
    expect(decisions({ desired }, { scope })).toEqual(['skip out-of-scope']);
    expect(makePlan(planInput({ desired }, { scope })).steps).toEqual([]);
  });
  it('shows the fields that change, in the names of the API, the destination before as it is stored', () => {
    const live = liveRules('accept 10.0.0.0/8').map((item) => ({ ...item, destinationText: '10.1.2.3/8' }));
    const change = makePlan(planInput({ desired: desiredRules('accept 10.0.0.0/9 tcp/80-90'), live })).changes[0];
    expect(change?.fields).toEqual({
      destination: { before: '10.1.2.3/8', after: '10.0.0.0/9' },
      port_range: { before: null, after: '80 - 90' },
      port_type: { before: null, after: 'tcp' },
    });
  });
  it('names a deleted rule as the base does', () => {
    const parts = { live: liveRules('drop 10.0.0.0/8'), base: desiredRules('web=drop 10.0.0.0/8') };
    expect(makePlan(planInput(parts)).changes[0]).toMatchObject({
      name: 'web',
      source: { file: 'rules.yaml', line: 1 },
    });
  });
});

describe('the origin of a change, with a base', () => {
  const rules = desiredRules('drop 10.0.0.0/8');
  const live = liveRules('drop 10.0.0.0/8');

  it('is this revision when it asks for something that the base does not', () => {
    expect(origins({ desired: rules, base: [] })).toEqual(['create this-revision']);
    expect(origins({ desired: desiredRules('drop 10.0.0.0/9'), live, base: rules })).toEqual(['update this-revision']);
    expect(origins({ live, base: rules })).toEqual(['delete this-revision']);
  });
  it('is earlier and not applied when the base asks for it too and nothing like it is live', () => {
    expect(origins({ desired: rules, base: rules })).toEqual(['create earlier-not-applied']);
  });
  it('is drift when the base is known to have been applied', () => {
    expect(origins({ desired: rules, base: rules }, { baseApplied: true })).toEqual(['create drift']);
  });
  it('is drift when something is live that neither asks for', () => {
    expect(origins({ live, base: [] })).toEqual(['delete drift']);
    expect(origins({ desired: rules, live: liveRules('drop 10.0.0.0/9'), base: rules })).toEqual(['update drift']);
  });
  it('is absent without a base', () => {
    expect(origins({ desired: rules })).toEqual(['create undefined']);
  });
});

describe('a plan from shuffled inputs', () => {
  it('is the same, byte for byte', () => {
    const permutation = fc.array(fc.nat(), { minLength: 40, maxLength: 40 });
    const shuffle = <T>(items: readonly T[], keys: readonly number[]): readonly T[] =>
      items
        .map((item, n) => ({ item, key: keys[n] ?? 0 }))
        .sort((a, b) => a.key - b.key)
        .map(({ item }) => item);
    fc.assert(
      fc.property(worldArbitrary(10), permutation, permutation, fc.boolean(), (world, first, second, generic) => {
        const place = { file: 'f', line: 1, column: 1 };
        const desired = world.after.map((item, n) => ({ name: `r${n}`, rule: item, place }));
        const live = liveOf(world.before);
        const base = world.before.map((item, n) => ({ name: `r${n}`, rule: item, place }));
        const profile = findProfile(generic ? 'generic' : 'firezone-0.7');
        const plan = makePlan(planInput({ desired, live, base }, { profile }));
        const again = makePlan(
          planInput(
            { desired: shuffle(desired, first), live: shuffle(live, second), base: shuffle(base, first) },
            { profile },
          ),
        );
        const text = (value: unknown): string =>
          JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? `${member}` : member));
        expect(text(again)).toBe(text(plan));
      }),
      { numRuns: runs(1_000) },
    );
  });
});
