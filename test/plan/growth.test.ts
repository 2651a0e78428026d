import { describe, expect, it } from 'vitest';
import {
  flippedForUsers,
  gapsForUsers,
  movedRanges,
  nestedFlip,
  redrawnPorts,
  type World,
} from '../../bench/worlds.ts';
import type { Network } from '../../src/model/address.ts';
import type { Rule } from '../../src/model/rule.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import { planInput } from './support.ts';

/** How often planning looks at a rule's destination: for pairing, ordering, effect and exposure alike. */
function looksOf({ before, after }: World): number {
  let looks = 0;
  const counted = (rule: Rule): Rule => ({
    ...rule,
    get destination(): Network {
      looks++;
      return rule.destination;
    },
  });
  const at = '2024-01-01T00:00:00.000000Z';
  const live = before.map((rule, n) => ({
    id: `l${n}`,
    rule: counted(rule),
    destinationText: rule.destination.text,
    insertedAt: at,
    updatedAt: at,
  }));
  const place = { file: 'rules.yaml', line: 1, column: 1 };
  makePlan(planInput({ desired: after.map((rule, n) => ({ name: `r${n}`, rule: counted(rule), place })), live }));
  return looks;
}

describe('twice the rules take at most 2.3 times the looks at a rule', () => {
  it.each<readonly [string, (n: number) => World]>([
    ['users whose port rules are all re-drawn', (n) => redrawnPorts(2, 100 * n)],
    ['more such users', (n) => redrawnPorts(5 * n, 40)],
    ['users whose ranges all move', (n) => movedRanges(20 * n, 7)],
    ['nested networks that all flip', (n) => nestedFlip(160 * n)],
    ['users whose rules flip beside global ones', (n) => flippedForUsers(10 * n, 20, 20)],
    ['gaps on everything', (n) => gapsForUsers(50 * n, 10)],
    ['users beside gaps on everything', (n) => gapsForUsers(20, 20 * n)],
  ])('%s', (_, world) => {
    expect(looksOf(world(2)) / looksOf(world(1))).toBeLessThanOrEqual(2.3);
  });
});
