import { describe, expect, test } from 'vitest';
import { checkEndpoint, nameServerProblems } from '../../../src/simulator/configuration/fields.ts';

const MUST_IP = 'must be one of: Elixir.FzHttp.Types.IP, string';
const MUST_IP_PORT = 'must be one of: Elixir.FzHttp.Types.IPPort, string';
const TWICE = 'should not contain duplicates';

describe('nameServerProblems', () => {
  const lists: readonly (readonly [readonly string[], readonly string[]])[] = [
    [['1.1.1.1', 'dns.example', '::1'], []],
    [['1.1.1.1', '01.1.1.1'], [TWICE]],
    [['a', 'A'], []],
    [
      ['bad host', '1.1.1.1', 'also bad'],
      ['bad host is not a valid FQDN', 'also bad is not a valid FQDN', MUST_IP],
    ],
    [
      ['bad host', '1.1.1.1', '1.1.1.1'],
      ['bad host is not a valid FQDN', MUST_IP, TWICE],
    ],
    [
      ['1.1.1.1', '1.1.1.1', 'bad host'],
      [TWICE, 'bad host is not a valid FQDN', MUST_IP],
    ],
    [['a b:53'], ['a b is not a valid FQDN', 'setting port is not allowed', MUST_IP]],
  ];
  for (const [items, expected] of lists) {
    test(`${items.join(', ')}: ${expected.length} messages, in the server's order`, () => {
      expect(nameServerProblems(items)).toEqual(expected);
    });
  }
});

describe('checkEndpoint', () => {
  const endpoints: readonly (readonly [string, readonly string[]])[] = [
    ['[::1]:51820', []],
    ['+1.2.3.4:80', []],
    ['a.b:+80', []],
    ['[::1]:0', ['[::1]:0 is not a valid FQDN', MUST_IP_PORT]],
    ['a b:0', ['a b is not a valid FQDN', 'port is not a number between 0 and 65535', MUST_IP_PORT]],
    [':80', [' is not a valid FQDN', MUST_IP_PORT]],
  ];
  for (const [text, expected] of endpoints) {
    test(`${text}: ${expected[0] ?? 'fine'}`, () => expect(checkEndpoint(text)).toEqual(expected));
  }
});
