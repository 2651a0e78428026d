import { Network } from '../src/model/address.ts';
import type { DesiredRule, LiveRule, Rule } from '../src/model/rule.ts';

/** A deterministic stream of numbers in [0, 1): the same worlds in every run. */
export function randomStream(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const userCount = 200;

function userId(n: number): string | null {
  const user = n % (userCount + 1);
  return user === userCount ? null : `00000000-0000-4000-8000-${String(user).padStart(12, '0')}`;
}

/** The n-th of many rules that do not collide: a /28 each, for 200 users and everybody, every third with ports. */
export function ruleNumber(n: number): Rule {
  const port = 1 + (n % 60_000);
  return {
    action: n % 2 === 0 ? 'accept' : 'drop',
    destination: new Network(4, BigInt(0x0a000000 + n * 16), 28),
    ports: n % 3 === 0 ? { type: 'tcp', low: port, high: port + 10 } : null,
    userId: userId(n),
  };
}

/** The same rule after one of the edits that people make. Some collide with the rule before, some are unrelated to it. */
export function edited(rule: Rule, n: number): Rule {
  switch (n % 5) {
    case 0:
      return { ...rule, action: rule.action === 'accept' ? 'drop' : 'accept' };
    case 1:
      return { ...rule, destination: new Network(4, rule.destination.first, 29) };
    case 2:
      return { ...rule, ports: { type: 'udp', low: 53, high: 53 } };
    case 3:
      return { ...rule, destination: new Network(4, rule.destination.first + 8n, 30) };
    default:
      return { ...rule, destination: new Network(4, rule.destination.first + 0x10000000n, 28) };
  }
}

export function desiredOf(rules: readonly Rule[]): readonly DesiredRule[] {
  return rules.map((rule, n) => ({ name: `rule-${n}`, rule, place: { file: 'rules.yaml', line: n + 1, column: 1 } }));
}

/** Live rules in an order of the server's own. */
export function liveOf(rules: readonly Rule[]): readonly LiveRule[] {
  const random = randomStream(7);
  const at = '2024-01-01T00:00:00.000000Z';
  const live = rules.map((rule, n) => ({
    id: `00000000-0000-4000-9000-${String(n).padStart(12, '0')}`,
    rule,
    destinationText: rule.destination.text,
    insertedAt: at,
    updatedAt: at,
  }));
  return live
    .map((rule) => ({ rule, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ rule }) => rule);
}

/** `count` rules of which every 20th is edited. */
export function fivePercent(count: number): { readonly before: readonly Rule[]; readonly after: readonly Rule[] } {
  const before = Array.from({ length: count }, (_, n) => ruleNumber(n));
  return { before, after: before.map((rule, n) => (n % 20 === 0 ? edited(rule, n / 20) : rule)) };
}

/** `count` rules, all edited; the first `related` of them name one network, each with other ports. */
export function allChanged(
  count: number,
  related: number,
): { readonly before: readonly Rule[]; readonly after: readonly Rule[] } {
  const random = randomStream(11);
  const shared = new Network(4, 0xc0a80000n, 16);
  const order = Array.from({ length: related }, (_, n) => ({ n, key: random() })).sort((a, b) => a.key - b.key);
  const inGroup = (n: number, shift: number): Rule => {
    const low = 1 + n * 10 + shift;
    const destination = new Network(4, shared.first + BigInt((n % 7) * 4096), n % 7 === 0 ? 16 : 20);
    return {
      action: n % 2 === 0 ? 'accept' : 'drop',
      destination,
      ports: { type: 'tcp', low, high: low + 4 },
      userId: null,
    };
  };
  const before = order.map(({ n }) => inGroup(n, 0));
  const after = order.map(({ n }) => inGroup(n, n % 3 === 0 ? 2 : 5));
  for (let n = related; n < count; n++) {
    before.push(ruleNumber(n));
    after.push(edited(ruleNumber(n), n % 4));
  }
  return { before, after };
}

/** `count` port rules of one user on one address, of which every 20th names another port afterwards. */
export function oneAddress(count: number): { readonly before: readonly Rule[]; readonly after: readonly Rule[] } {
  const destination = new Network(4, 0x0a000001n, 32);
  const portRule = (n: number, port: number): Rule => ({
    action: n % 2 === 0 ? 'accept' : 'drop',
    destination,
    ports: { type: 'tcp', low: port, high: port },
    userId: userId(1),
  });
  const before = Array.from({ length: count }, (_, n) => portRule(n, 1 + 2 * n));
  return { before, after: before.map((rule, n) => (n % 20 === 0 ? portRule(n, 2 + 2 * n) : rule)) };
}
