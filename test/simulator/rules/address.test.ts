import fc from 'fast-check';
import { Address4, Address6 } from 'ip-address';
import { describe, expect, test } from 'vitest';
import { formatAddressBits, parseAddress, printAddress } from '../../../src/simulator/rules/address.ts';
import { runs } from '../../property/runs.ts';

const show = (text: string): string | undefined => {
  const address = parseAddress(text);
  return address && printAddress(address);
};

describe('parseAddress', () => {
  test('reads every IPv4 and IPv6 address as an independent library does', () => {
    const groups = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), {
      minLength: 8,
      maxLength: 8,
    });
    fc.assert(
      fc.property(groups, (parts) => {
        const text = parts.map((part) => part.toString(16)).join(':');
        const library = new Address6(text);
        const bits = (address: string): string | undefined => {
          const parsed = parseAddress(address);
          return parsed && formatAddressBits(parsed);
        };
        const expected = library.bigInt().toString(2).padStart(128, '0');
        expect([bits(text), bits(library.correctForm())]).toEqual([expected, expected]);
      }),
      { numRuns: runs(1_000) },
    );
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        const parsed = parseAddress(text);
        expect(parsed && formatAddressBits(parsed)).toBe(new Address4(text).bigInt().toString(2).padStart(32, '0'));
      }),
    );
  });

  test('what it prints is read as the same address again', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 }), (parts) => {
        const text = printAddress({ family: 6, parts });
        expect(parseAddress(text)?.parts).toEqual(parts);
      }),
    );
  });

  const forms: readonly (readonly [string, string | undefined])[] = [
    ['0', '0.0.0.0'],
    ['4294967295', '255.255.255.255'],
    ['4294967296', undefined],
    ['1.16777215', '1.255.255.255'],
    ['1.16777216', undefined],
    ['0377.0X1.1', '255.1.0.1'],
    ['00000000000000010.1.1.1', '8.1.1.1'],
    ['0x', undefined],
    ['0x100.1.1.1', undefined],
    ['1.2.3.', undefined],
    ['+1.2.3.4', '1.2.3.4'],
    ['-1.2.3.4', undefined],
    ['', undefined],
    [':::', undefined],
    ['1::2::3', undefined],
    ['::1.2.3', undefined],
    ['::1.2.3.04', undefined],
    ['1:2:3:4:5:6:1.2.3.4', '1:2:3:4:5:6:102:304'],
    ['1:2:3:4:5:6:7:1.2.3.4', undefined],
    ['fe80::1%07', 'fe80::1%07'],
    ['fe80::1%7', 'fe80::1'],
    ['2001:db8::1%eth0', undefined],
    ['::1:2', '::0.1.0.2'],
    ['::ffff:0:1.2.3.4', '::ffff:0:102:304'],
    ['1:0:0:2:0:0:3:4', '1::2:0:0:3:4'],
  ];
  for (const [text, expected] of forms) {
    test(`${JSON.stringify(text)} is ${expected ?? 'no address'}`, () => {
      expect(show(text)).toBe(expected);
    });
  }
});
