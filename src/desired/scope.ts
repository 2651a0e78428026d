import { contains } from '../model/address.ts';
import type { Rule } from '../model/rule.ts';
import type { Scope } from '../model/state.ts';

/** Whether this repository is responsible for the rule; of a user who was not looked up yet, as far as can be told. */
export function inScope(rule: Rule, scope: Scope): boolean {
  if (!scope.rules) return false;
  const isUnresolved = rule.userId?.includes('@') === true;
  if (scope.users !== undefined && !isUnresolved && !scope.users.has(rule.userId)) return false;
  return scope.networks === undefined || scope.networks.some((network) => contains(network, rule.destination));
}
