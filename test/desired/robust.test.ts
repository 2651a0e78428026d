import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kinds } from '../../src/manifest/manifest.ts';
import { groupBy } from '../../src/model/group-by.ts';
import { hasErrors } from '../../src/model/problem.ts';
import { runs } from '../property/runs.ts';
import { build } from './helpers.ts';

const scalar = fc.oneof(
  fc.constantFrom<unknown>(
    'accept',
    'drop',
    '10.0.0.0/8',
    '10.1.0.0/16',
    '::/0',
    443,
    '80-90',
    'tcp',
    'udp',
    'alice',
    'a@example.com',
    null,
    true,
    -1,
    1e21,
    '',
    [],
    {},
    'a1520c4b-adc3-4574-932a-94461cf85c07',
  ),
  fc.string(),
  fc.integer(),
  fc.double(),
);
const fields = [
  ...[
    'action',
    'destination',
    'destinations',
    'port_range',
    'port_type',
    'user',
    'user_id',
    'users',
    'group',
    'network',
  ],
  ...[
    'rules',
    'defaults',
    'name',
    'cidrs',
    'members',
    'cases',
    'expect',
    'protocol',
    'port',
    'bases',
    'remove',
    'alice',
  ],
  ...[
    'openid_connect_providers',
    'saml_identity_providers',
    'client_secret',
    'metadata',
    'env',
    'file',
    'id',
    'label',
    'logo',
  ],
  ...[
    'default_client_dns',
    'default_client_allowed_ips',
    'default_client_endpoint',
    'default_client_mtu',
    'toString',
    'constructor',
  ],
];
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...fields), tie('value'), { maxKeys: 6 }),
  ),
}));

describe('any document', () => {
  it('gives a state or an error, never an exception', () => {
    const manifest = fc.record({ kind: fc.constantFrom(...kinds), name: fc.constantFrom('a', 'b'), spec: value });
    fc.assert(
      fc.property(
        fc.array(manifest, { minLength: 1, maxLength: 4 }),
        fc.constantFrom(null, '.', 'x'),
        (manifests, overlay) => {
          const text = manifests
            .map(({ kind, name, spec }) =>
              JSON.stringify({ apiVersion: 'firezone/v0', kind, metadata: { name }, spec }),
            )
            .join('\n---\n');
          const desired = build({ 'a.yaml': text }, { overlay });
          expect(desired.state === null).toBe(hasErrors(desired.problems));
          for (const { place } of desired.problems) {
            if (place !== undefined) expect(Math.min(place.line, place.column)).toBeGreaterThan(0);
          }
        },
      ),
      { numRuns: runs(1000) },
    );
  });
});

describe('a manifest with hundreds of thousands of findings', () => {
  const head = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:';
  const many = (one: string): string => Array(150_000).fill(one).join(',');

  it('is answered with them, not with an internal error', () => {
    const text = `${head} {rules: [{name: a, action: drop, destination: 10.0.0.1, users: [${many('x')}]}]}\n`;
    const { problems } = build({ 'a.yaml': text });
    expect(problems.filter(({ code }) => code === 'unknown-user').length).toBeGreaterThan(100_000);
  });

  it('has a thousand notes of a file, and one that says that there are more', () => {
    const text = `${head} {rules: [{name: a, action: drop, destinations: [${many('10.0.0.1')}]}]}\n`;
    const { state, problems } = build({ 'a.yaml': text });
    expect(state?.rules).toHaveLength(1);
    const counts = groupBy(problems, ({ code }) => code);
    expect([...counts].map(([code, { length }]) => [code, length])).toEqual([
      ['nested-destination', 1000],
      ['too-many-problems', 1],
    ]);
  });
});

describe('groups and networks that many rules name', () => {
  const manifest = (kind: string, name: string, spec: string): string =>
    `apiVersion: firezone/v0\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n---\n`;
  const rulesOf = (count: number, fields: string): string => {
    const one = (n: number): string => `{name: r${n}, action: drop, port_type: tcp, port_range: ${n + 1}, ${fields}}`;
    return manifest('RuleSet', 's', `{rules: [${Array.from({ length: count }, (_, n) => one(n)).join(',\n  ')}]}`);
  };
  const listed = (count: number, one: (n: number) => string): string =>
    `[${Array.from({ length: count }, (_, n) => one(n)).join(', ')}]`;

  it('tell what is written twice once, where it is written', () => {
    const users = manifest('Users', 'people', '{alice: a1520c4b-adc3-4574-932a-94461cf85c07}');
    const group = manifest('Group', 'g', '{members: [alice, alice]}');
    const network = manifest('Network', 'n', '{cidrs: [10.0.0.0/8, 10.0.0.1]}');
    const rules = rulesOf(50, 'destination: {network: n}, users: [group: g]');
    const { state, problems } = build({ 'a.yaml': users + group + network + rules });
    expect(state?.rules).toHaveLength(50);
    expect(problems.map(({ code, place }) => [code, place?.line])).toEqual([
      ['user-twice', 9],
      ['nested-destination', 14],
    ]);
  });

  it.each([
    ['the other list is empty', 'users: [], destination: {network: n}'],
    ['the one contains the other', 'destinations: [10.0.0.0/8, network: n]'],
  ])('are refused where %s and members would be looked at millions of times', (_, fields) => {
    const network = manifest('Network', 'n', `{cidrs: ${listed(5000, (n) => `10.${n >> 8}.${n & 255}.1`)}}`);
    const { state, problems } = build({ 'a.yaml': network + rulesOf(450, fields) });
    expect(state).toBeNull();
    expect(problems.filter(({ severity }) => severity === 'error').map(({ code }) => code)).toEqual(['too-expensive']);
  });

  it('get a suggestion for the first twenty unknown names only, the same for the same name', () => {
    const users = manifest(
      'Users',
      'people',
      `{${listed(100, (n) => `user-name-${n}: 00000000-0000-4000-8000-${String(n).padStart(12, '0')}`).slice(1, -1)}}`,
    );
    const names = listed(60, (n) => `user-nome-${n % 30}`);
    const { problems } = build({ 'a.yaml': users + rulesOf(1, `destination: 10.0.0.1, users: ${names}`) });
    const hints = problems.map(({ hint }) => hint?.startsWith('Did you mean'));
    expect([hints.length, hints.filter(Boolean).length]).toEqual([60, 40]);
  });
});
