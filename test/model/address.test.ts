import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Address4, Address6 } from 'ip-address';
import { describe, expect, it } from 'vitest';
import {
  type AddressFault,
  compareNetworks,
  contains,
  formatAddress,
  intersects,
  Network,
  parseNetwork,
} from '../../src/model/address.ts';

const faults: readonly [string, AddressFault][] = [
  ['', 'empty'],
  ['  ', 'empty'],
  ['010.0.0.1', 'octal'],
  ['1.2.3.08', 'octal'],
  ['10/8', 'short'],
  ['1.2.3', 'short'],
  ['127.1', 'short'],
  ['0x7f.0.0.1', 'short'],
  ['2130706433', 'short'],
  ['fe80::1%eth0', 'zone'],
  ['1.2.3.4/33', 'mask'],
  ['1.2.3.4/-1', 'mask'],
  ['1.2.3.4/', 'mask'],
  ['1.2.3.4/024', 'mask'],
  ['2001:db8::1/129', 'mask'],
  ['2001:db8::1/256', 'mask'],
  ['1.2.3.0/255.255.255.0', 'dotted-mask'],
  ['[::1]', 'brackets'],
  ['1.2.3.4:80', 'port'],
  ['1.2.3.4-1.2.3.9', 'range'],
  ['1.2.3.4, 1.2.3.5', 'list'],
  ['db.example.com', 'hostname'],
  ['any', 'hostname'],
  ['*', 'not-an-address'],
  ['1.2.3.256', 'not-an-address'],
  ['1:2:3', 'not-an-address'],
  ['1::2::3', 'not-an-address'],
  ['1:2:3:4:5:6:7:8:9', 'not-an-address'],
];

describe('parseNetwork', () => {
  it.each(faults)('refuses %j as %s', (text, fault) => {
    expect(parseNetwork(text)).toEqual({ ok: false, error: fault });
  });

  it.each([
    ['1.2.3.4/32', '1.2.3.4', false],
    [' 1.2.3.4 ', '1.2.3.4', false],
    ['1.1.1.1/24', '1.1.1.0/24', true],
    ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1', false],
    ['1:2:3:4:5:6:7:0', '1:2:3:4:5:6:7:0', false],
    ['1:0:0:2:0:0:3:4', '1::2:0:0:3:4', false],
    ['::ffff:0102:0304', '::ffff:1.2.3.4', false],
    ['::ffff:0:0/96', '::ffff:0.0.0.0/96', false],
    ['64:ff9b::1.2.3.4', '64:ff9b::102:304', false],
    ['::2', '::0.0.0.2', false],
    ['::1:2', '::0.1.0.2', false],
    ['::ffff:0:1.2.3.4', '::ffff:0:102:304', false],
    ['::', '::', false],
    ['::1/128', '::1', false],
    ['::/0', '::/0', false],
    ['2001:db8::1/64', '2001:db8::/64', true],
  ])('brings %j to the server’s canonical form %j', (text, canonical, hostBits) => {
    const parsed = parseNetwork(text);
    expect(parsed.ok && [parsed.value.network.text, parsed.value.hostBits]).toEqual([canonical, hostBits]);
  });

  it('agrees with the addresses that the real server stored', () => {
    for (const { sent, stored } of storedDestinations()) {
      const parsed = parseNetwork(sent);
      if (!parsed.ok) continue;
      const live = parseNetwork(stored);
      expect(live.ok && live.value.network, `${sent} stored as ${stored}`).toEqual(parsed.value.network);
      if (!parsed.value.hostBits) expect(stored, sent).toBe(parsed.value.network.text);
    }
  });
});

describe('formatAddress', () => {
  it('is idempotent through parseNetwork for every address', () => {
    fc.assert(
      fc.property(fc.bigInt(0n, (1n << 128n) - 1n), fc.nat(112), (value, shift) => {
        const address = value >> BigInt(shift);
        const parsed = parseNetwork(formatAddress(6, address));
        expect(parsed.ok && parsed.value.network.first).toBe(address);
        expect(parsed.ok && parsed.value.network.text).toBe(formatAddress(6, address));
      }),
    );
  });

  it('means the same number as an independent library reads', () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.ipV6(), (v4, v6) => {
        const four = parseNetwork(v4);
        const six = parseNetwork(v6);
        expect(four.ok && four.value.network.first).toBe(new Address4(v4).bigInt());
        expect(six.ok && six.value.network.first).toBe(new Address6(v6).bigInt());
      }),
    );
  });
});

describe('networks', () => {
  it('nest or are disjoint, and the order puts a parent right before what it holds', () => {
    const network = fc
      .tuple(fc.bigInt(0n, (1n << 32n) - 1n), fc.nat(32))
      .map(([address, prefix]) => new Network(4, address, prefix));
    fc.assert(
      fc.property(network, network, (a, b) => {
        expect(intersects(a, b)).toBe(contains(a, b) || contains(b, a));
        if (contains(a, b) && a.prefix !== b.prefix) expect(compareNetworks(a, b)).toBeLessThan(0);
      }),
    );
  });
});

function storedDestinations(): { sent: string; stored: string }[] {
  const file = new URL('../contract/recordings/rule_create_destination.json', import.meta.url);
  const items = JSON.parse(readFileSync(file, 'utf8')) as {
    request: { body?: { rule?: { destination?: unknown } } };
    readback?: { destination: string };
  }[];
  return items.flatMap(({ request, readback }) => {
    const sent = request.body?.rule?.destination;
    return typeof sent === 'string' && readback !== undefined ? [{ sent, stored: readback.destination }] : [];
  });
}
