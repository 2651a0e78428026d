import { describe, expect, it } from 'vitest';
import type { Rule } from '../../src/model/rule.ts';
import type { Protocol } from '../../src/model/state.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { getRank } from '../../src/policy/verdict.ts';
import { networkNamed, users } from './universe.ts';

const [alice] = users;

function rule(action: Rule['action'], destination: string, port: number | null, userId: string | null): { rule: Rule } {
  const ports = port === null ? null : ({ type: 'tcp', low: port, high: port } as const);
  return { rule: { action, destination: networkNamed(destination), ports, userId } };
}

const rules = [
  rule('drop', '10.0.0.0/8', null, null),
  rule('accept', '10.20.0.0/16', 443, null),
  rule('drop', '10.20.0.9', 443, null),
  rule('drop', '10.20.0.0/16', null, alice),
  rule('accept', '10.20.0.5', 443, alice),
];

describe('the example of docs/explanation/policy.md', () => {
  it.each<[string | null, string, Protocol, number, number | null, Rule['action']]>([
    [null, '10.20.0.9', 'tcp', 443, 4, 'accept'],
    [null, '10.20.0.9', 'tcp', 22, 7, 'drop'],
    [alice, '10.20.0.5', 'tcp', 443, 0, 'accept'],
    [alice, '10.20.0.5', 'other', 0, 3, 'drop'],
    [alice, '10.20.0.7', 'tcp', 443, 3, 'drop'],
    [alice, '2001:db8::1', 'tcp', 443, null, 'accept'],
  ])('from %s to %s %s %i is decided by rank %s: %s', (user, address, protocol, port, rank, verdict) => {
    const decision = decide(indexRules(rules), { user, address: networkNamed(address), protocol, port });
    expect([decision.rule === null ? null : getRank(decision.rule.rule), decision.verdict]).toEqual([rank, verdict]);
  });
});
