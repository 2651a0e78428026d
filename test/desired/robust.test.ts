import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { kinds } from '../../src/manifest/manifest.ts';
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
  it('is answered with them, not with an internal error', () => {
    const destinations = Array(150_000).fill('10.0.0.1').join(',');
    const text = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec: {rules: [{name: a, action: drop, destinations: [${destinations}]}]}\n`;
    const { state, problems } = build({ 'a.yaml': text });
    expect(state?.rules).toHaveLength(1);
    expect(problems.filter(({ code }) => code === 'nested-destination').length).toBeGreaterThan(100_000);
  });
});
