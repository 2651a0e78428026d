import { getOrMake } from '../../model/group-by.ts';
import { extendProfile, type Fold, makeFlatProfile, type PortProfile } from '../port-profile.ts';
import { getLaneRules, lanes, type Ruled, type RuleIndex } from '../rule-index.ts';
import { sweep } from '../sweep.ts';
import { getRank, getVerdict, noRank } from '../verdict.ts';
import type { Ranking } from './leaders.ts';

/** `never`: other rules decide every packet that it matches. `idle`: it changes no verdict. `matters`: it changes some. */
export type RuleReach = 'never' | 'idle' | 'matters';

/** The reach of every rule, exactly. A global rule is judged on nobody's packets, a user's rule on that user's. */
export function computeRuleReach<T extends Ruled>(
  index: RuleIndex<T>,
  { items, keys }: Ranking<T>,
): ReadonlyMap<T, RuleReach> {
  const reach = new Array<RuleReach>(items.length).fill('never');
  const fold = firstAndNext(items, keys);
  for (const [lane, { protocol }] of lanes.entries()) {
    const global = getLaneRules(index, null, lane);
    const empty: Place = { profile: makeFlatProfile(fold.nothing), changed: [], isJudged: true };
    const outermost = new Map<readonly T[], Place>();
    const extend = (outer: Place, added: readonly T[]): Place => {
      return outer === empty ? getOrMake(outermost, added, () => makeInner(outer, added)) : makeInner(outer, added);
    };
    const makeInner = (outer: Place, added: readonly T[]): Place => {
      const changed: number[] = [];
      const add: typeof fold.add = (before, some) => {
        const value = fold.add(before, some);
        if (value !== before) changed.push(value);
        return value;
      };
      const profile = extendProfile(outer.profile, added, { ...fold, add }, protocol);
      return { profile, changed: outer.isJudged ? changed : profile.values, isJudged: false };
    };
    for (const scope of [null, ...index.users]) {
      const own = getLaneRules(index, scope, lane);
      const visit = (_first: bigint, _last: bigint, place: Place): true => {
        if (!place.isJudged) for (const value of place.changed) judge(value, scope);
        place.isJudged = true;
        return true;
      };
      for (const area of own.named) sweep(scope === null ? [own] : [own, global], area, { empty, extend, visit });
    }
  }

  function judge(value: number, scope: string | null): void {
    const key = Math.floor(value / ranks);
    const item = items[key];
    if (item === undefined || item.rule.userId !== scope || reach[key] === 'matters') return;
    const rank = (value % ranks) as typeof noRank;
    reach[key] = getVerdict(rank) === item.rule.action ? 'idle' : 'matters';
  }

  return new Map(items.map((item, key) => [item, reach[key] ?? 'never']));
}

/** The rules at consecutive addresses. */
interface Place {
  readonly profile: PortProfile<number>;
  /** What is to be judged there: the values that differ from those around it, which were judged, or all of them. */
  readonly changed: readonly number[];
  isJudged: boolean;
}

const ranks = noRank + 1;

/** One small number for the key of the rule that decides and the rank of the next one: there are very many of them. */
function firstAndNext<T extends Ruled>(items: readonly T[], keys: ReadonlyMap<T, number>): Fold<T, number> {
  const none = items.length;
  const keyOf = (item: T | undefined): number => (item === undefined ? none : (keys.get(item) ?? none));
  const ranksByKey = [...items.map(({ rule }) => getRank(rule)), noRank];
  const pack = (key: number, next: number): number => key * ranks + next;
  return {
    nothing: pack(none, noRank),
    keyOf,
    add(outer, [first, second]) {
      const [key, next] = [Math.floor(outer / ranks), outer % ranks];
      const added = keyOf(first);
      if (added > key) return pack(key, Math.min(next, ranksByKey[added] ?? noRank));
      return pack(added, Math.min(ranksByKey[keyOf(second)] ?? noRank, ranksByKey[key] ?? noRank));
    },
  };
}
