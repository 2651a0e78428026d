import { compareNetworks, contains } from '../model/address.ts';
import { findFirstPosition, getOrMake } from '../model/group-by.ts';
import type { Ports } from '../model/port-range.ts';
import { makeError, type Problem, relateTo } from '../model/problem.ts';
import { type DesiredRule, formatRuleKey } from '../model/rule.ts';

/**
 * Finds rules that are written twice (a problem anywhere), and, where the server refuses collisions, pairs that it cannot
 * hold at once; each such rule is named with one partner. n log n: networks nest or are disjoint, so a stack of the
 * networks around the present one is enough.
 */
export function findCollisions(rules: readonly DesiredRule[], refusesCollisions: boolean): readonly Problem[] {
  const problems: Problem[] = [];
  const first = new Map<string, DesiredRule>();
  const classes = new Map<string, DesiredRule[]>();
  for (const rule of rules) {
    const key = formatRuleKey(rule.rule);
    const other = first.get(key);
    if (other !== undefined) {
      problems.push(duplicateRule(rule, other));
      continue;
    }
    first.set(key, rule);
    const { action, userId, ports } = rule.rule;
    getOrMake(classes, `${action} ${userId ?? '*'} ${ports?.type ?? ''}`, () => []).push(rule);
  }
  if (refusesCollisions) for (const members of classes.values()) sweep(members, problems);
  return problems;
}

/** Visits one class from wide to narrow; `around` are the rules whose networks contain the present one. */
function sweep(members: DesiredRule[], problems: Problem[]): void {
  members.sort((a, b) => compareNetworks(a.rule.destination, b.rule.destination));
  const around: DesiredRule[] = [];
  const active = new ActivePorts();
  for (const rule of members) {
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
class ActivePorts {
  readonly #lows: number[] = [];
  readonly #rules: DesiredRule[] = [];

  overlapping(ports: Ports): DesiredRule | undefined {
    // Ranges are disjoint: only the last one that starts at or below `high` can overlap.
    const rule = this.#rules[this.#position(ports.high + 1) - 1];
    return rule !== undefined && (rule.rule.ports?.high ?? -1) >= ports.low ? rule : undefined;
  }

  add(ports: Ports, rule: DesiredRule): void {
    const position = this.#position(ports.low);
    this.#lows.splice(position, 0, ports.low);
    this.#rules.splice(position, 0, rule);
  }

  remove(ports: Ports): void {
    const position = this.#position(ports.low);
    this.#lows.splice(position, 1);
    this.#rules.splice(position, 1);
  }

  /** Index of the first range that starts at or above `low`. */
  #position(low: number): number {
    return findFirstPosition(this.#lows.length, (at) => (this.#lows[at] ?? 0) >= low);
  }
}

function duplicateRule(rule: DesiredRule, first: DesiredRule): Problem {
  const summary = `\`${rule.name}\` asks for the same rule as \`${first.name}\`.`;
  const hint = 'Keep one of the two. Networks that differ only in host bits are the same.';
  return relateTo(makeError('duplicate-rule', summary, hint, rule.place), first.place, `\`${first.name}\``);
}

function collision(rule: DesiredRule, partner: DesiredRule): Problem {
  const { destination, ports, action } = rule.rule;
  const withPorts = ports === null ? '' : ' and shares ports with it';
  const beside = `\`${partner.name}\` (${action} ${partner.rule.destination.text})`;
  const summary = `The server cannot hold \`${rule.name}\` (${action} ${destination.text}) beside ${beside}: it lies inside the other${withPorts}.`;
  const hint = 'The wider rule already covers what both share: remove the narrower one, or narrow the wider one.';
  return relateTo(makeError('collision', summary, hint, rule.place), partner.place, `\`${partner.name}\``);
}
