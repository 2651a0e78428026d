import { contains, type Family, Network } from '../../model/address.ts';
import { getOrMake } from '../../model/group-by.ts';
import { type Intervals, toIntervals, unionIntervals } from '../../model/intervals.ts';
import { compareProblems, type Problem } from '../../model/problem.ts';
import type { Action, DesiredRule, Rule } from '../../model/rule.ts';
import type { DesiredState, Protocol } from '../../model/state.ts';
import { extendProfile, type Fold, makeFlatProfile, type PortProfile } from '../port-profile.ts';
import type { LaneNode, Ruled, RuleIndex } from '../rule-index.ts';
import { findNodesCovering, getLane, getLaneRules, indexRules, lanes } from '../rule-index.ts';
import { sweep } from '../sweep.ts';
import { compareDeciding, getRank, getVerdict, noRank, type Packet } from '../verdict.ts';
import { lintConfiguration } from './configuration-findings.ts';
import { type Finding, findLeaders, type Leaders, type Linted, lintUsers, quoteName, toProblems } from './finding.ts';

/** Findings about manifests without errors that mean something else than they seem to, sorted (docs/reference/lint.md). */
export function lint(desired: DesiredState): readonly Problem[] {
  const { rules } = desired;
  const index = indexRules(rules);
  const linted: Linted = { desired, rules, index, leaders: findLeaders(index) };
  const findings = [
    ...lintRuleReach(linted),
    ...[null, ...index.users].flatMap((user) => [...leftOpen(index, user, 4), ...leftOpen(index, user, 6)]),
    ...rules.flatMap(mapped),
    ...rules.flatMap((rule) => [
      ...icmpLeftOpen(rule, linted),
      ...transportLeftOpen(rule, linted),
      ...userExempt(rule),
    ]),
    ...lintUsers(linted),
    ...lintConfiguration(linted),
  ];
  return [...toProblems(findings)].sort(compareProblems);
}

/** One family closed by drop rules, at least one of which drops something, while the other stays open. */
function leftOpen(index: RuleIndex<DesiredRule>, user: string | null, closed: Family): readonly Finding[] {
  const open = closed === 4 ? 6 : 4;
  const own = getLaneRules(index, user, getLane(closed, 'other')).items;
  const areaOf = (action: Action) =>
    toIntervals(own.flatMap(({ rule }) => (rule.action === action ? rule.destination : [])));
  const widest = own
    .filter(({ rule }) => rule.action === 'drop')
    .sort((a, b) => a.rule.destination.prefix - b.rule.destination.prefix)[0];
  if (widest === undefined || !isWhole(areaOf('drop'), closed) || isWhole(areaOf('accept'), closed)) return [];
  const covered = [...new Set([user, null])]
    .map((scope) => getLaneRules(index, scope, getLane(open, 'other')).named)
    .reduce((a, b) => unionIntervals(a, b));
  if (isWhole(covered, open)) return [];
  const everything = open === 6 ? '::/0' : '0.0.0.0/0';
  const whose = user === null ? '' : ' for this user';
  const summary = `Drop rules such as ${quoteName(widest)} close all of IPv${closed}${whose} but what accept rules open, and IPv${open} stays open: rules never reach from one family into the other.`;
  const hint = `Add a drop rule for ${everything} in place of any for parts of it, and accept rules for what should pass.`;
  return [{ code: open === 6 ? 'ipv6-left-open' : 'ipv4-left-open', place: widest.place, summary, hint }];
}

function isWhole([covered]: Intervals, family: Family): boolean {
  return covered?.first === 0n && covered.last === new Network(family, 0n, 0).last;
}

const mappedRange = new Network(6, 0xffff_0000_0000n, 96);

/** IPv6 spellings of IPv4 addresses. */
function mapped(rule: DesiredRule): readonly Finding[] {
  const { destination } = rule.rule;
  if (!contains(mappedRange, destination)) return [];
  const summary = `${quoteName(rule)} names the IPv4-mapped IPv6 address ${destination.text}: it never matches IPv4 traffic.`;
  return [{ code: 'ipv4-mapped', place: rule.place, summary, hint: 'Write the IPv4 address.' }];
}

/** Whether there is another way to what the rule closes at one of its corners, on this port if one is given. */
function isOpen(rule: DesiredRule, { leaders }: Linted, protocol: Protocol, asked?: number): boolean {
  return listCorners(rule.rule).some((corner) => {
    const packet = { ...corner, port: asked ?? corner.port };
    return leaders.of(packet)[0] === rule && leaders.of({ ...packet, protocol })[0]?.rule.action !== 'drop';
  });
}

function icmpLeftOpen(rule: DesiredRule, linted: Linted): readonly Finding[] {
  if (rule.rule.action !== 'drop' || rule.rule.ports === null || !isOpen(rule, linted, 'other')) return [];
  const summary = `${quoteName(rule)} closes ports of ${rule.rule.destination.text}; ICMP and all protocols but tcp and udp still pass.`;
  const hint = 'To close the destination, drop it without ports and accept the ports that should pass.';
  return [{ code: 'icmp-left-open', place: rule.place, summary, hint }];
}

/** Services that are reached by tcp and udp alike, and those of the two that somebody closes who means the service. */
const twins = [
  { port: 443, of: 'tcp', what: 'HTTP/3 (QUIC) uses udp port 443 beside tcp' },
  { port: 53, of: 'tcp and udp', what: 'DNS uses port 53 of udp and tcp' },
] as const;

function transportLeftOpen(rule: DesiredRule, linted: Linted): readonly Finding[] {
  const { action, ports } = rule.rule;
  if (action !== 'drop' || ports === null) return [];
  const other = ports.type === 'tcp' ? 'udp' : 'tcp';
  const twin = twins.find(
    ({ port, of }) =>
      of.includes(ports.type) && ports.low <= port && port <= ports.high && isOpen(rule, linted, other, port),
  );
  if (twin === undefined) return [];
  const summary = `${quoteName(rule)} closes ${ports.type} port ${twin.port} and leaves ${other} port ${twin.port} open; ${twin.what}.`;
  const hint = `Drop ${other} port ${twin.port} for the same destination, and take it out of drop rules for parts of that.`;
  return [{ code: 'transport-left-open', place: rule.place, summary, hint }];
}

function userExempt(rule: DesiredRule): readonly Finding[] {
  const { action, destination, ports, userId } = rule.rule;
  if (action !== 'accept' || destination.prefix !== 0 || ports !== null || userId === null) return [];
  const summary = `${quoteName(rule)} exempts the user from every global rule for IPv${destination.family}: a user's own rules come first.`;
  const hint = 'If that is not meant, accept only the destinations that the user needs.';
  return [{ code: 'user-exempt', place: rule.place, summary, hint }];
}

/** Rules that another one always forestalls, and rules that could go without a trace. */
function lintRuleReach(linted: Linted): readonly Finding[] {
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
function listCorners({ destination: { family, first, last }, ports, userId: user }: Rule): readonly Packet[] {
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
