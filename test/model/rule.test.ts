import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Network, parseNetwork } from '../../src/model/address.ts';
import { formatPortRange, type PortFault, parsePortRange } from '../../src/model/port-range.ts';
import { collides, compareRules, formatRuleKey, type Rule, toWire } from '../../src/model/rule.ts';

const bounds = { low: 1, high: 65534 };
const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';

function rule(destination: string, rest: Partial<Rule> = {}): Rule {
  const parsed = parseNetwork(destination);
  if (!parsed.ok) throw new Error(parsed.error);
  return { action: 'drop', destination: parsed.value.network, ports: null, userId: null, ...rest };
}

const tcp = (low: number, high = low) => ({ ports: { type: 'tcp', low, high } }) as const;
const udp = (low: number, high = low) => ({ ports: { type: 'udp', low, high } }) as const;

describe('parsePortRange', () => {
  it.each([
    [443, '443'],
    ['443', '443'],
    ['80-443', '80 - 443'],
    [' 80 - 443 ', '80 - 443'],
    ['80-80', '80'],
    ['1-65534', '1 - 65534'],
  ])('brings %j to the canonical text %j', (input, text) => {
    const parsed = parsePortRange(input, bounds);
    expect(parsed.ok && formatPortRange(parsed.value)).toBe(text);
  });

  it.each<[string | number, PortFault]>([
    ['', 'empty'],
    ['80,443', 'list'],
    ['80-90,443', 'list'],
    ['90-80', 'reversed'],
    [0, 'bounds'],
    [65535, 'bounds'],
    ['1 - 65535', 'bounds'],
    ['80:90', 'not-a-range'],
    ['80/tcp', 'not-a-range'],
    ['80.5', 'not-a-range'],
    [80.5, 'not-a-range'],
    ['1e2', 'not-a-range'],
    ['-80', 'not-a-range'],
    ['80-', 'not-a-range'],
    ['80-90-100', 'not-a-range'],
    ['[80,90)', 'not-a-range'],
  ])('refuses %j, which the server would truncate or refuse, as %s', (input, fault) => {
    expect(parsePortRange(input, bounds)).toEqual({ ok: false, error: fault });
  });
});

describe('collides', () => {
  it.each<[string, Rule, Rule, boolean]>([
    ['equal networks', rule('10.0.0.0/8'), rule('10.0.0.0/8'), true],
    ['nested networks', rule('10.0.0.0/8'), rule('10.1.0.0/16'), true],
    ['a host inside a network', rule('10.0.0.0/8'), rule('10.1.2.3'), true],
    ['different actions', rule('10.0.0.0/8'), rule('10.0.0.0/8', { action: 'accept' }), false],
    ['a global and a user rule', rule('10.0.0.0/8'), rule('10.0.0.0/8', { userId: alice }), false],
    ['one user', rule('10.0.0.0/8', { userId: alice }), rule('10.1.0.0/16', { userId: alice }), true],
    ['a port and a portless rule', rule('10.0.0.0/8'), rule('10.0.0.0/8', tcp(80)), false],
    ['tcp and udp', rule('10.0.0.0/8', tcp(80)), rule('10.0.0.0/8', udp(80)), false],
    ['a shared endpoint', rule('10.0.0.0/8', tcp(80, 90)), rule('10.1.0.0/16', tcp(90, 99)), true],
    ['adjacent ports', rule('10.0.0.0/8', tcp(80, 90)), rule('10.1.0.0/16', tcp(91, 99)), false],
    ['two families', rule('0.0.0.0/0'), rule('::/0'), false],
    ['an address and its IPv4-mapped form', rule('1.2.3.4'), rule('::ffff:1.2.3.4'), false],
  ])('for %s is as the server does it', (_name, a, b, expected) => {
    expect([collides(a, b), collides(b, a)]).toEqual([expected, expected]);
  });
});

describe('a rule', () => {
  const arbitrary = fc
    .record({
      action: fc.constantFrom('accept' as const, 'drop' as const),
      address: fc.nat(15),
      prefix: fc.integer({ min: 28, max: 32 }),
      low: fc.integer({ min: 1, max: 4 }),
      ports: fc.constantFrom(null, 'tcp' as const, 'udp' as const),
      userId: fc.constantFrom(null, alice),
    })
    .map(({ action, address, prefix, low, ports, userId }): Rule => {
      const destination = new Network(4, BigInt(address), prefix);
      return { action, destination, ports: ports === null ? null : { type: ports, low, high: 4 }, userId };
    });

  it('has the key of another exactly when they compare equal', () => {
    fc.assert(
      fc.property(arbitrary, arbitrary, (a, b) => {
        expect(formatRuleKey(a) === formatRuleKey(b)).toBe(compareRules(a, b) === 0);
        expect(Math.sign(compareRules(a, b)) + Math.sign(compareRules(b, a))).toBe(0);
      }),
    );
  });

  it('is sent with host bits cleared and ports as text', () => {
    expect(toWire(rule('10.1.2.3/8', tcp(80)))).toEqual({
      action: 'drop',
      destination: '10.0.0.0/8',
      port_range: '80',
      port_type: 'tcp',
      user_id: null,
    });
  });
});
