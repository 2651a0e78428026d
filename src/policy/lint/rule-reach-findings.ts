import { contains, Network } from '../../model/address.ts';
import { getOrMake } from '../../model/group-by.ts';
import type { DesiredRule, Rule } from '../../model/rule.ts';
import { extendProfile, type Fold, makeFlatProfile, type PortProfile } from '../port-profile.ts';
import {
  findNodesCovering,
  getLane,
  getLaneRules,
  indexRules,
  type LaneNode,
  lanes,
  type Ruled,
  type RuleIndex,
} from '../rule-index.ts';
import { sweep } from '../sweep.ts';
import { compareDeciding, getRank, getVerdict, noRank, type Packet } from '../verdict.ts';
import { type Finding, type Linted, quoteName } from './finding.ts';
import { findLeaders, type Leaders } from './leaders.ts';

/** Rules that another one always forestalls, and rules that could go without a trace. */
export function lintRuleReach(linted: Linted): readonly Finding[] {
  const { rules } = linted;
  const open = nothingDropped(rules);
  const reach = computeRuleReach(linted.index, linted.leaders);
  const lasting = selectLasting(linted);
  const lastingReach = lasting === linted ? reach : computeRuleReach(lasting.index, lasting.leaders);
  const findings = rules.flatMap((rule) => {
    const found = [reach.get(rule), lastingReach.get(rule) ?? reach.get(rule)];
    const beside = lastingReach.has(rule) ? lasting : linted;
    if (found.every((one) => one === 'never')) return [neverDecides(rule, beside)];
    return open === null && !found.includes('matters') ? [changesNothing(rule, beside)] : [];
  });
  return open === null ? findings : [open, ...findings];
}

/** The rules that stay when all with an end have ended: nobody should delete one of them because of others that end. */
function selectLasting(linted: Linted): Linted {
  const { rules: present, upcoming = [], at } = linted.desired;
  if (at === undefined) return linted;
  const rules = [...present, ...upcoming].filter(({ expires }) => expires === undefined);
  const index = indexRules(rules);
  return { ...linted, rules, index, leaders: findLeaders(index) };
}

function nothingDropped(rules: readonly DesiredRule[]): Finding | null {
  const [first] = rules;
  if (first === undefined || rules.some(({ rule }) => rule.action === 'drop')) return null;
  const summary = 'No rule drops anything, and what no rule matches is accepted: all traffic passes.';
  const hint =
    'Close what should be closed, for example with `drop` rules for 0.0.0.0/0 and ::/0; accept rules then open parts of it.';
  return { code: 'nothing-dropped', place: first.place, summary, hint };
}

function neverDecides(rule: DesiredRule, linted: Linted): Finding {
  const single = forestalling(rule, linted);
  const some = listCorners(rule.rule).flatMap((packet) => linted.leaders.of(packet)[0] ?? []);
  const shadows = [...new Set(single === null ? some : [single])];
  const related = shadows.map((other) => ({ place: other.place, note: `${quoteName(other)} decides instead` }));
  const { place } = rule;
  if (single !== null && single.rule.action === 'accept' && getRank(single.rule) === getRank(rule.rule) - 1) {
    const summary = `${quoteName(rule)} drops nothing: ${quoteName(single)} accepts all of it, and accept beats drop however narrow the drop is.`;
    const byPorts = rule.rule.ports === null ? ', or drop it by ports' : '';
    const forUser = rule.rule.userId === null ? ', or drop it for a user' : '';
    const hint = `Take the address out of the accepting rule${byPorts}${forUser}.`;
    return { code: 'drop-under-accept', place, summary, hint, related };
  }
  const names = shadows.map(quoteName).join(' and ');
  const who = single === null ? `other rules, ${names} among them, always come` : `${names} always comes`;
  const summary = `${quoteName(rule)} never decides anything: ${who} first.`;
  const hint = 'Delete the rule, or narrow those before it; `reconcile explain --rule NAME` shows what it decides.';
  return { code: 'never-decides', place, summary, hint, related };
}

/** One rule that decides wherever the given one matches: same scope, covers it, and comes first. */
function forestalling(rule: DesiredRule, linted: Linted): DesiredRule | null {
  const { destination, ports, userId } = rule.rule;
  const lane = getLaneRules(linted.index, userId, getLane(destination.family, ports?.type ?? 'other'));
  const nodes = findNodesCovering(lane, destination.first);
  const covering = nodes.flatMap((node) => firstForestalling(rule, node, linted) ?? []);
  return first(covering, linted);
}

/** The first such rule of one network: nearly always one of its two leaders at the rule's lowest port, else any. */
function firstForestalling(rule: DesiredRule, node: LaneNode<DesiredRule>, linted: Linted): DesiredRule | null {
  for (const leader of linted.leaders.at(node, rule.rule.ports?.low ?? 0)) {
    if (leader === null || linted.leaders.keyOf(leader) >= linted.leaders.keyOf(rule)) return null;
    if (isForestalled(rule.rule, leader.rule)) return leader;
  }
  const others = node.items.filter((other) => isForestalled(rule.rule, other.rule));
  return first(others, linted);
}

function first(rules: readonly DesiredRule[], { leaders }: Linted): DesiredRule | null {
  return rules.toSorted((a, b) => leaders.keyOf(a) - leaders.keyOf(b))[0] ?? null;
}

function isForestalled(rule: Rule, by: Rule): boolean {
  if (rule === by || !contains(by.destination, rule.destination)) return false;
  if (by.ports !== null && (rule.ports === null || by.ports.low > rule.ports.low || by.ports.high < rule.ports.high))
    return false;
  return compareDeciding(by, rule) < 0;
}

/** The packets at the corners of what a rule matches. */
export function listCorners({ destination: { family, first, last }, ports, userId: user }: Rule): readonly Packet[] {
  return [first, last].flatMap((number) =>
    (ports === null ? [0] : [ports.low, ports.high]).map((port) => {
      return { user, address: new Network(family, number), protocol: ports?.type ?? 'other', port };
    }),
  );
}

function changesNothing(rule: DesiredRule, linted: Linted): Finding {
  const { action } = rule.rule;
  const sample = listCorners(rule.rule).find((packet) => linted.leaders.of(packet)[0] === rule);
  const next = sample === undefined ? null : linted.leaders.of(sample)[1];
  const what = next === null ? 'the default' : quoteName(next);
  const by = sample === undefined ? '' : `, by ${what} for example`;
  const done = action === 'accept' ? 'accepted' : 'dropped';
  const summary = `${quoteName(rule)} changes nothing: without it, the same traffic is ${done}${by}.`;
  const hint =
    action === 'accept' && next === null
      ? 'What no rule matches is accepted; delete the rule, or drop the network around it.'
      : 'Delete the rule; where several say the same, delete one and look again.';
  const related = next === null ? [] : [{ place: next.place, note: `${quoteName(next)} decides then` }];
  return { code: 'changes-nothing', place: rule.place, summary, hint, related };
}

/** `never`: other rules decide every packet that it matches. `idle`: it changes no verdict. `matters`: it changes some. */
export type RuleReach = 'never' | 'idle' | 'matters';

/** The reach of every rule, exactly. A global rule is judged on nobody's packets, a user's rule on that user's. */
export function computeRuleReach<T extends Ruled>(
  index: RuleIndex<T>,
  { items, keyOf }: Pick<Leaders<T>, 'items' | 'keyOf'>,
): ReadonlyMap<T, RuleReach> {
  const reach = new Array<RuleReach>(items.length).fill('never');
  const fold = firstAndNext(items, keyOf);
  const scopes = [null, ...index.users];
  // The same values come at very many places: for which scope each was last judged.
  const judgedFor = new Int32Array(ranks * (items.length + 1)).fill(-1);
  for (const [lane, { protocol }] of lanes.entries()) {
    const global = getLaneRules(index, null, lane);
    const empty: PortProfile<number> = makeFlatProfile(fold.nothing);
    const outermost = new Map<readonly T[], PortProfile<number>>();
    const makeInner = (outer: PortProfile<number>, added: readonly T[]) => extendProfile(outer, added, fold, protocol);
    const extend = (outer: PortProfile<number>, added: readonly T[]) =>
      outer === empty ? getOrMake(outermost, added, () => makeInner(outer, added)) : makeInner(outer, added);
    for (const [turn, scope] of scopes.entries()) {
      const own = getLaneRules(index, scope, lane);
      const visit = (_first: bigint, _last: bigint, { values }: PortProfile<number>): void => {
        for (const value of values) if (judgedFor[value] !== turn) judge(value, turn);
      };
      for (const area of own.named) sweep(scope === null ? [own] : [own, global], area, { empty, extend, visit });
    }
  }

  function judge(value: number, turn: number): void {
    judgedFor[value] = turn;
    const key = Math.floor(value / ranks);
    const item = items[key];
    if (item === undefined || item.rule.userId !== scopes[turn] || reach[key] === 'matters') return;
    const rank = (value % ranks) as typeof noRank;
    reach[key] = getVerdict(rank) === item.rule.action ? 'idle' : 'matters';
  }

  return new Map(items.map((item, key) => [item, reach[key] ?? 'never']));
}

const ranks = noRank + 1;

/** One small number for the key of the rule that decides and the rank of the next one: there are very many of them. */
function firstAndNext<T extends Ruled>(items: readonly T[], keyOf: Leaders<T>['keyOf']): Fold<T, number> {
  const none = items.length;
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
