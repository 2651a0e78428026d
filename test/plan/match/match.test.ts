import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { intersects } from '../../../src/model/address.ts';
import { type DesiredRule, type LiveRule, type Rule, toWire, wireFields } from '../../../src/model/rule.ts';
import { type Matching, matchRules } from '../../../src/plan/match/match.ts';
import { rulesArbitrary } from '../../policy/universe.ts';
import { liveOf } from '../../property/order-world.ts';
import { runs } from '../../property/runs.ts';
import { desiredRules, liveRules } from '../support.ts';

function match(
  desired: readonly DesiredRule[],
  live: readonly LiveRule[],
  base: readonly DesiredRule[] | null = null,
  pairByRelation = true,
): Matching {
  const state = { configuration: null, userNames: new Map<string, string>(), tests: [], digest: '' };
  return matchRules({
    desired,
    live,
    base: base === null ? null : { ...state, rules: base },
    mayPair: () => pairByRelation,
  });
}

function pairsOf(matching: Matching): readonly string[] {
  return matching.pairs.map(({ desired, live, equal }) => `${desired.name} ${equal ? '=' : '~'} ${live.id}`).sort();
}

describe('matching', () => {
  it('pairs equal rules first, as multisets, and calls what is left of them duplicates', () => {
    const live = liveRules('drop 10.0.0.0/8', 'drop 10.0.0.0/8', 'drop 10.0.0.0/8', 'accept 10.0.0.0/8');
    const matching = match(desiredRules('drop 10.0.0.0/8', 'drop 10.0.0.0/8'), live);
    expect(pairsOf(matching)).toEqual(['r1 = l1', 'r2 = l2']);
    expect(matching.liveOnly.map(({ id }) => id)).toEqual(['l3', 'l4']);
    expect([...matching.duplicates].map(({ id }) => id)).toEqual(['l3']);
  });

  it('keeps, of exact duplicates, one that was not modified in place', () => {
    const matching = match(desiredRules('drop 10.0.0.0/8'), liveRules('*drop 10.0.0.0/8', 'drop 10.0.0.0/8'));
    expect(pairsOf(matching)).toEqual(['r1 = l2']);
  });

  it('finds equal rules among many of one network', () => {
    const texts = Array.from({ length: 100 }, (_, n) => `accept 10.0.0.0/8 tcp/${n + 1}`);
    const matching = match(desiredRules(...texts), liveRules(...texts.toReversed()));
    expect(matching.pairs).toHaveLength(100);
    expect(matching.pairs.every(({ equal }) => equal)).toBe(true);
  });

  it('carries a live rule over an edit by its name in the base, even to an unrelated destination', () => {
    const matching = match(
      desiredRules('web=accept 192.168.0.1', 'other=accept 10.0.0.0/9'),
      liveRules('accept 10.0.0.0/8'),
      desiredRules('web=accept 10.0.0.0/8'),
    );
    expect(pairsOf(matching)).toEqual(['web ~ l1']);
    expect(matching.desiredOnly.map(({ name }) => name)).toEqual(['other']);
  });

  it('never pairs rules of different users or of destinations that share nothing', () => {
    const matching = match(
      desiredRules('accept 10.0.0.0/8 @alice', 'accept 172.16.0.0/12'),
      liveRules('accept 10.0.0.0/8 @bob', 'accept 192.168.0.0/16'),
    );
    expect(matching.pairs).toEqual([]);
  });

  it('prefers the pair with fewer changed fields', () => {
    const matching = match(
      desiredRules('accept 10.0.0.0/8 tcp/443', 'drop 10.1.0.0/16'),
      liveRules('accept 10.1.0.0/16', 'accept 10.0.0.0/8 tcp/80'),
    );
    expect(pairsOf(matching)).toEqual(['r1 ~ l2', 'r2 ~ l1']);
  });

  it('pairs by relation only where that is asked for', () => {
    const matching = match(desiredRules('drop 10.0.0.0/9'), liveRules('drop 10.0.0.0/8'), null, false);
    expect(matching.pairs).toEqual([]);
  });

  it('pairs across actions only where nothing else differs', () => {
    const matching = match(
      desiredRules('accept 10.0.0.0/24', 'drop 10.1.0.0/16', 'drop 10.2.0.0/16 tcp/53'),
      liveRules('drop 10.0.0.0/24', 'accept 10.1.0.0/16 tcp/53', 'accept 10.2.0.0/16 udp/53'),
    );
    expect(pairsOf(matching)).toEqual(['r1 ~ l1']);
  });

  it('pairs the narrowest networks first, so that as many as possible find a partner', () => {
    const matching = match(
      desiredRules('accept 10.0.0.0/16', 'accept 10.0.0.0/24'),
      liveRules('accept 10.0.0.0/8', 'accept 10.0.0.0/28'),
    );
    expect(pairsOf(matching)).toEqual(['r1 ~ l1', 'r2 ~ l2']);
  });

  it('leaves nothing out, pairs only what is related, and no two rules would do better as a pair', () => {
    fc.assert(
      fc.property(rulesArbitrary, rulesArbitrary, (after, before) => {
        const place = { file: 'f', line: 1, column: 1 };
        const desired = after.map((rule, n) => ({ name: `r${n}`, rule, place }));
        const live = liveOf(before);
        const matching = match(desired, live);
        expect(matching.pairs.length + matching.desiredOnly.length).toBe(desired.length);
        expect(matching.pairs.length + matching.liveOnly.length).toBe(live.length);
        const unequal = matching.pairs.filter(({ equal }) => !equal);
        const fieldsOf = new Map<DesiredRule | LiveRule, number>();
        for (const pair of unequal) {
          const fields = costOf(pair.desired.rule, pair.live.rule);
          expect(fields).toBeLessThan(Number.POSITIVE_INFINITY);
          fieldsOf.set(pair.desired, fields).set(pair.live, fields);
        }
        const now = (rule: DesiredRule | LiveRule): number => fieldsOf.get(rule) ?? Number.POSITIVE_INFINITY;
        const wanted = [...matching.desiredOnly, ...unequal.map((pair) => pair.desired)];
        const found = [...matching.liveOnly, ...unequal.map((pair) => pair.live)];
        for (const a of wanted) {
          for (const b of found) {
            if (matching.duplicates.has(b)) continue;
            expect(costOf(a.rule, b.rule)).toBeGreaterThanOrEqual(Math.min(now(a), now(b)));
          }
        }
      }),
      { numRuns: runs(2_000) },
    );
  });
});

/** How many of the API's fields an edit of one rule into the other would change; infinite where it would be no edit. */
function costOf(after: Rule, before: Rule): number {
  const [x, y] = [toWire(after), toWire(before)];
  const changed = wireFields.map(({ name }) => name).filter((name) => x[name] !== y[name]);
  const isEdit = x.user_id === y.user_id && intersects(after.destination, before.destination);
  return isEdit && (x.action === y.action || changed.length === 1) ? changed.length : Number.POSITIVE_INFINITY;
}
