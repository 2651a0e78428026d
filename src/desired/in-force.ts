import { compareNetworks, contains } from '../model/address.ts';
import { findFirstPosition, groupBy, keepFirst } from '../model/group-by.ts';
import { formatInstant } from '../model/instant.ts';
import { createTouches } from '../model/intervals.ts';
import type { Ports } from '../model/port-range.ts';
import { formatCount } from '../model/printable.ts';
import { makeError, makeNote, makeWarning, type Problem, relateTo } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { type DesiredRule, findDifferences, formatRuleKey, hasTimes, selectRulesAt } from '../model/rule.ts';
import { type DesiredState, listBoundaries } from '../model/state.ts';
import type { DesiredContext } from './context.ts';

/** Rules looked at for all times at which one begins, at most. */
const mostLooks = 5_000_000;

/** Collisions at `now` and later: new ones come about only when a rule begins, among rules whose times overlap. */
function findCollisionsFrom(rules: readonly DesiredRule[], { now, profile }: DesiredContext): readonly Problem[] {
  const times = new Set(rules.map(({ notBefore = now }) => Math.max(notBefore, now)));
  if (times.size * rules.length > mostLooks) {
    const many = `The rules begin at ${formatCount(times.size)} different times`;
    const hint = 'Let rules begin on the same day, or remove `notBefore` where it has passed.';
    return [makeError('too-many-times', `${many}: too many to check them all for collisions.`, hint)];
  }
  const found = new Map<string, Problem>();
  for (const time of [...times].sort((a, b) => a - b)) {
    for (const problem of findCollisions(selectRulesAt(rules, time), profile.refusesCollisions)) {
      const key = JSON.stringify([problem.code, problem.summary, problem.place]);
      if (found.has(key)) continue;
      const summary = time === now ? problem.summary : `From ${formatInstant(time)}: ${problem.summary}`;
      found.set(key, { ...problem, summary });
    }
  }
  return [...found.values()];
}

/** The rules last found to be without collisions, by what they were checked for. */
const sound = new WeakMap<Profile, readonly DesiredRule[]>();

/** The same of a next revision: most of its rules are those of the one before, and were compared with each other for that. */
export function findCollisionsAgain(rules: readonly DesiredRule[], context: DesiredContext): readonly Problem[] {
  const suspects = suspectsAmong(rules, sound.get(context.profile));
  const found = findCollisionsFrom(suspects, context);
  if (found.length === 0 && !rules.some(hasTimes)) sound.set(context.profile, rules);
  // Which of several rules a problem names depends on all of them.
  return found.length === 0 || suspects === rules ? found : findCollisionsFrom(rules, context);
}

/** The rules that may collide where those before did not: those that are new by name or content, and those that touch one of these. */
function suspectsAmong(rules: readonly DesiredRule[], before: readonly DesiredRule[] | undefined) {
  if (before === undefined || rules.some(hasTimes)) return rules;
  const { left, changed: anew } = findDifferences(before, rules);
  if (anew.length * 4 > rules.length) return rules;
  // What only has another name was compared with the others.
  const renamed = new Set(left.map(({ rule }) => formatRuleKey(rule)));
  const other = anew.filter(({ rule }) => !renamed.has(formatRuleKey(rule)));
  const touches = createTouches(other.map(({ rule }) => rule.destination));
  const suspects = new Set(anew);
  return rules.filter((one) => suspects.has(one) || touches(one.rule.destination));
}

/** What to know of the ends of rules: one has expired, the end of a drop opens something, access is given for longer than is allowed. */
export function findEndings(rules: readonly DesiredRule[], { now, maxExpiryMs }: DesiredContext): readonly Problem[] {
  const last = now + (maxExpiryMs ?? Number.POSITIVE_INFINITY);
  const found = rules.flatMap(({ name, place, expires, staysUntil, rule }): readonly Problem[] => {
    if (expires === undefined) return [];
    const when = formatInstant(expires);
    if (expires <= now) {
      const summary = `\`${name}\` expired at ${when}, and is not asked for any more.`;
      const hint = 'Remove it from the manifests, or give it a later `expires`.';
      return [makeNote('expired', summary, hint, place)];
    }
    if (rule.action === 'drop') {
      // The last of those that follow each other without a gap opens.
      if (staysUntil !== undefined) return [];
      const summary = `\`${name}\` drops traffic until ${when}; when it ends, what it closed may be open.`;
      const hint = 'Leave `expires` out, or write `# reconcile-ignore: expiry-opens REASON` above it if that is meant.';
      return [makeWarning('expiry-opens', summary, hint, place)];
    }
    if (expires <= last) return [];
    const summary = `\`${name}\` ends at ${when}, later than \`maxExpiry\` in the settings allows.`;
    const hint = `Write an \`expires\` of ${formatInstant(Math.floor(last / 1000) * 1000)} at the latest.`;
    return [makeError('expires-too-late', summary, hint, place)];
  });
  // Of rules that stand on one line, such as those of a set for several users, the first counts.
  return keepFirst(found, ({ code, place }) => `${code} ${place?.file}:${place?.line}`);
}

/** Rules that end within so many ms from now. */
export function findEndingSoon(state: DesiredState, withinMs: number): readonly Problem[] {
  const now = state.at ?? Number.POSITIVE_INFINITY;
  const ending = listBoundaries(state, now, now + withinMs).filter(({ what }) => what === 'ends');
  return ending.map(({ rule: { name, place }, at }) => {
    const summary = `\`${name}\` ends at ${formatInstant(at)}.`;
    const hint = `Let it end, or extend it: \`reconcile extend ${name} --until DATE\`.`;
    return makeNote('expires-soon', summary, hint, place);
  });
}

/**
 * Finds rules that are written twice (a problem anywhere), and, where the server refuses collisions, pairs that it cannot
 * hold at once; each such rule is named with one partner. n log n: networks nest or are disjoint, so a stack of the
 * networks around the present one is enough.
 */
function findCollisions(rules: readonly DesiredRule[], refusesCollisions: boolean): readonly Problem[] {
  const problems: Problem[] = [];
  const distinct = keepFirst(
    rules,
    ({ rule }) => formatRuleKey(rule),
    ({ name, place }, first) => {
      const summary = `\`${name}\` asks for the same rule as \`${first.name}\`.`;
      const hint = 'Keep one of the two. Networks that differ only in host bits are the same.';
      problems.push(relateTo(makeError('duplicate-rule', summary, hint, place), first.place, `\`${first.name}\``));
    },
  );
  if (!refusesCollisions) return problems;
  const classOf = ({ rule: { action, userId, ports } }: DesiredRule) =>
    `${action} ${userId ?? '*'} ${ports?.type ?? ''}`;
  for (const members of groupBy(distinct, classOf).values()) sweep(members, problems);
  return problems;
}

/** Visits one class from wide to narrow; `around` are the rules whose networks contain the present one. */
function sweep(members: readonly DesiredRule[], problems: Problem[]): void {
  const around: DesiredRule[] = [];
  const active = createActivePorts();
  for (const rule of members.toSorted((a, b) => compareNetworks(a.rule.destination, b.rule.destination))) {
    for (let outer = around.at(-1); outer !== undefined; outer = around.at(-1)) {
      if (contains(outer.rule.destination, rule.rule.destination)) break;
      around.pop();
      if (outer.rule.ports !== null) active.remove(outer.rule.ports);
    }
    const { ports } = rule.rule;
    const partner = ports === null ? around[0] : active.overlapping(ports);
    if (partner !== undefined) problems.push(collision(rule, partner));
    else {
      around.push(rule);
      if (ports !== null) active.add(ports, rule);
    }
  }
}

/** Disjoint port ranges of the rules around the present one, sorted by their lowest port. */
function createActivePorts() {
  const rules: DesiredRule[] = [];
  /** Index of the first range that starts at or above `low`. */
  const findPosition = (low: number): number =>
    findFirstPosition(rules.length, (at) => (rules[at]?.rule.ports?.low ?? 0) >= low);
  return {
    add: (ports: Ports, rule: DesiredRule): void => void rules.splice(findPosition(ports.low), 0, rule),
    remove: (ports: Ports): void => void rules.splice(findPosition(ports.low), 1),
    overlapping(ports: Ports): DesiredRule | undefined {
      // Ranges are disjoint: only the last one that starts at or below `high` can overlap.
      const rule = rules[findPosition(ports.high + 1) - 1];
      return rule !== undefined && (rule.rule.ports?.high ?? -1) >= ports.low ? rule : undefined;
    },
  };
}

function collision(rule: DesiredRule, partner: DesiredRule): Problem {
  const { destination, ports, action } = rule.rule;
  const withPorts = ports === null ? '' : ' and shares ports with it';
  const beside = `\`${partner.name}\` (${action} ${partner.rule.destination.text})`;
  const summary = `The server cannot hold \`${rule.name}\` (${action} ${destination.text}) beside ${beside}: it lies inside the other${withPorts}.`;
  const hint = 'The wider rule already covers what both share: remove the narrower one, or narrow the wider one.';
  return relateTo(makeError('collision', summary, hint, rule.place), partner.place, `\`${partner.name}\``);
}
