import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse, parseDocument } from 'yaml';
import { exportRules, findNameableEmails } from '../../src/desired/export.ts';
import { exportConfiguration } from '../../src/desired/export-configuration.ts';
import { quoteYaml } from '../../src/manifest/write.ts';
import { parseNetwork } from '../../src/model/address.ts';
import type { ConfigurationFields } from '../../src/model/configuration.ts';
import { findProfile } from '../../src/model/profile.ts';
import { ok } from '../../src/model/result.ts';
import { collides, formatRuleKey, type LiveRule, type Rule } from '../../src/model/rule.ts';
import { reveal, Secret } from '../../src/model/secret.ts';
import { runs } from '../property/runs.ts';
import { build, codes, usersNamed } from './helpers.ts';

const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
const bob = 'b9692cfa-f429-4ea6-947f-ad22d40fd18b';
const emails = new Map([[alice, "al'ice+1@example.com"]]);
const users = usersNamed({ "al'ice+1@example.com": alice });

function network(text: string): Rule['destination'] {
  const parsed = parseNetwork(text);
  if (!parsed.ok) throw new Error(text);
  return parsed.value.network;
}

function live(rules: readonly Rule[]): readonly LiveRule[] {
  const insertedAt = '2026-11-20T18:34:33.730779Z';
  return rules.map((rule, index) => ({
    id: `id-${index}`,
    rule,
    destinationText: rule.destination.text,
    insertedAt,
    updatedAt: insertedAt,
  }));
}

const rules = fc.array(
  fc.record({
    action: fc.constantFrom('accept', 'drop'),
    destination: fc.oneof(
      fc.tuple(fc.nat(4), fc.nat(4), fc.constantFrom(8, 16, 24, 32)).map(([a, b, p]) => network(`10.${a}.${b}.0/${p}`)),
      fc.constantFrom('::/0', '2001:db8::/32', '1:2:3:4:5:6:7:8', 'fe80::1').map(network),
    ),
    ports: fc.option(
      fc
        .tuple(fc.constantFrom('tcp', 'udp'), fc.integer({ min: 1, max: 40 }), fc.nat(20))
        .map(([type, low, width]) => ({ type, low, high: low + width })),
    ),
    userId: fc.constantFrom(null, alice, bob),
  }),
  { maxLength: 40 },
) as fc.Arbitrary<Rule[]>;

/** What the server could hold: no two that collide. */
function holdable(all: readonly Rule[]): readonly Rule[] {
  return all.filter((rule, index) => !all.slice(0, index).some((other) => collides(rule, other)));
}

function rebuild(files: ReturnType<typeof exportRules>, changes: Parameters<typeof build>[1] = {}) {
  return build(Object.fromEntries(files.map(({ path, text }) => [path, text])), { users, ...changes });
}

describe('exported rules', () => {
  it('come back as the same rules, without a problem, and export to the same bytes', () => {
    fc.assert(
      fc.property(rules, (all) => {
        const held = holdable(all);
        const files = exportRules(live(held), { emails, mayCollide: false });
        const desired = rebuild(files);
        expect(codes(desired)).toEqual([]);
        expect(desired.state?.rules.map(({ rule }) => formatRuleKey(rule)).sort()).toEqual(
          held.map(formatRuleKey).sort(),
        );
        const again = live([...(desired.state?.rules ?? [])].reverse().map(({ rule }) => rule));
        expect(exportRules(again, { emails, mayCollide: false })).toEqual(files);
      }),
      { numRuns: runs(1000) },
    );
  });

  it('come back from a server without constraints too, where rules nest', () => {
    fc.assert(
      fc.property(rules, (all) => {
        const distinct = [...new Map(all.map((rule) => [formatRuleKey(rule), rule])).values()];
        const files = exportRules(live(distinct), { emails: new Map(), mayCollide: true });
        const desired = rebuild(files, { profile: findProfile('generic'), users: null });
        expect(codes(desired)).toEqual([]);
        expect(desired.state?.rules.map(({ rule }) => formatRuleKey(rule)).sort()).toEqual(
          distinct.map(formatRuleKey).sort(),
        );
      }),
      { numRuns: runs(500) },
    );
  });

  it('read as if a person had written them', () => {
    const tcp = { type: 'tcp', low: 443, high: 443 } as const;
    const files = exportRules(
      live([
        { action: 'accept', destination: network('10.1.0.0/16'), ports: tcp, userId: alice },
        { action: 'accept', destination: network('10.2.0.1'), ports: tcp, userId: alice },
        {
          action: 'accept',
          destination: network('10.1.0.0/16'),
          ports: { type: 'tcp', low: 8000, high: 8010 },
          userId: alice,
        },
        {
          action: 'accept',
          destination: network('10.2.0.1'),
          ports: { type: 'tcp', low: 8000, high: 8010 },
          userId: alice,
        },
        { action: 'drop', destination: network('0.0.0.0/0'), ports: null, userId: null },
        { action: 'drop', destination: network('::/0'), ports: null, userId: null },
      ]),
      { emails: new Map([[alice, 'alice@example.com']]), mayCollide: false },
    );
    expect(files).toEqual([
      {
        path: 'rules/alice@example.com.yaml',
        text: `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: alice@example.com-accept}
spec:
  defaults: {action: accept, user: alice@example.com}
  rules:
    - name: tcp-443-8000-8010
      destinations:
        - 10.1.0.0/16
        - 10.2.0.1
      port_type: tcp
      port_range: [443, 8000-8010]
`,
      },
      {
        path: 'rules/everyone.yaml',
        text: `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: everyone-drop}
spec:
  defaults: {action: drop}
  rules:
    - name: any
      destinations:
        - 0.0.0.0/0
        - "::/0"
`,
      },
    ]);
  });

  it('say that there are none', () => {
    expect(rebuild(exportRules([], { emails, mayCollide: false })).state?.rules).toEqual([]);
  });
});

describe('texts in exported files', () => {
  const numberOf: ReadonlySet<string> = new Set(['number', 'boolean', 'object']);

  it('are the same text to YAML 1.1 and YAML 1.2 readers', () => {
    const risky = fc.constantFrom(
      'yes',
      'no',
      'on',
      'OFF',
      'y',
      '12:30',
      '1:2:3:4:5:6:7:8',
      '010',
      '1e3',
      '0x1f',
      '1_000',
      '2026-11-20',
      'null',
      '~',
      '',
      ' a',
      'a: b',
      'a #b',
      '- a',
      '!x',
      '&x',
      '=',
      '<<',
      '.inf',
      '%',
      '@',
      '`',
      'a\nb',
      '\u0085',
      '\u2028',
      '\ufeff',
      "it's",
      '"',
    );
    fc.assert(
      fc.property(fc.oneof(risky, fc.string({ unit: 'grapheme' }), fc.string()), (text) => {
        for (const version of ['1.1', '1.2'] as const) {
          const value: unknown = parse(`a: ${quoteYaml(text)}\nb: [${quoteYaml(text)}]\n`, { version });
          expect(value).toEqual({ a: text, b: [text] });
          expect(numberOf.has(typeof (value as { a: unknown }).a)).toBe(false);
        }
      }),
      { numRuns: runs(2000) },
    );
  });
});

describe('quoteYaml', () => {
  it('spells control characters as `fmt` does', () => {
    for (let code = 0; code < 0x20; code++) {
      const text = `\\u0007${String.fromCharCode(code)}b\\`;
      const written = quoteYaml(text);
      expect(parse(written)).toBe(text);
      expect(parseDocument(written).toString().trim()).toBe(written);
    }
  });
});

const metadata = '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="CANARY-saml"/>\n';
const fields: ConfigurationFields = {
  allow_unprivileged_device_configuration: true,
  allow_unprivileged_device_management: null,
  default_client_allowed_ips: ['0.0.0.0/0', '::/0', '10.0.0.1/8'],
  default_client_dns: ['1.1.1.1', 'DNS.example.com'],
  default_client_endpoint: '[2001:db8::1]:51820',
  default_client_mtu: 1280,
  default_client_persistent_keepalive: null,
  disable_vpn_on_oidc_error: false,
  local_auth_enabled: true,
  logo: null,
  openid_connect_providers: ['google', 'goo-gle', 'goo gle'].map((id) => ({
    id,
    label: 'yes',
    scope: 'openid email profile',
    response_type: 'code',
    client_id: '0123',
    client_secret: Secret.of('CANARY-oidc'),
    discovery_document_uri: 'https://idp.example/.well-known/openid-configuration',
    redirect_uri: null,
    auto_create_users: false,
  })),
  saml_identity_providers: ['okta', 'Okta', '../x'].map((id) => ({
    id,
    label: 'Okta',
    base_url: 'https://vpn.example/auth/saml',
    metadata: Secret.of(metadata),
    sign_requests: null,
    sign_metadata: true,
    signed_assertion_in_resp: false,
    signed_envelopes_in_resp: true,
    auto_create_users: true,
  })),
  vpn_session_duration: 0,
};

describe('an exported Configuration', () => {
  it('comes back as the same fields, its secrets by reference, SAML metadata byte for byte', () => {
    const { files, problems, secrets } = exportConfiguration(fields, findProfile('firezone-0.7'));
    expect(problems).toEqual([]);
    expect(secrets).toEqual([
      'RECONCILE_SECRET_OIDC_GOOGLE',
      'RECONCILE_SECRET_OIDC_GOO_GLE',
      'RECONCILE_SECRET_OIDC_GOO_GLE_2',
    ]);
    expect(files.map(({ path }) => path)).toEqual([
      'configuration.yaml',
      'saml/okta.xml',
      'saml/okta-2.xml',
      'saml/x.xml',
    ]);
    expect(files[0]?.text).not.toContain('CANARY');
    expect(files[1]?.text).toBe(metadata);
    const desired = rebuild(files.slice(0, 1), {
      scope: { rules: false, configuration: true },
      resolveSecret: (reference) =>
        ok(
          Secret.of(
            'env' in reference ? 'CANARY-oidc' : (files.find(({ path }) => path === reference.file)?.text ?? ''),
          ),
        ),
    });
    expect(codes(desired)).toEqual(['69:7 host-bits']);
    const { logo, ...written } = fields;
    expect(logo).toBeNull();
    const built = desired.state?.configuration?.fields ?? {};
    expect({ ...built, openid_connect_providers: 0, saml_identity_providers: 0 }).toEqual({
      ...written,
      openid_connect_providers: 0,
      saml_identity_providers: 0,
    });
    for (const list of ['openid_connect_providers', 'saml_identity_providers'] as const) {
      expect(built[list]?.map(shown)).toEqual(fields[list].map(shown));
    }
  });

  it('leaves out what no manifest may have, and says so', () => {
    const { files, problems } = exportConfiguration(
      { ...fields, default_client_allowed_ips: ['10.0.0.1', '10.0.0.1'], default_client_endpoint: '256.1.1.1' },
      findProfile('firezone-0.7'),
    );
    expect(problems.map(({ code, summary }) => [code, summary.split('`')[1]])).toEqual([
      ['not-exported', 'default_client_allowed_ips'],
      ['not-exported', 'default_client_endpoint'],
    ]);
    expect(files[0]?.text).not.toContain('default_client_endpoint');
  });
});

function shown(
  provider:
    | ConfigurationFields['openid_connect_providers'][number]
    | ConfigurationFields['saml_identity_providers'][number],
) {
  return Object.fromEntries(
    Object.entries(provider).map(([key, value]) => [key, value instanceof Secret ? reveal(value) : value]),
  );
}

describe('findNameableEmails', () => {
  it('leaves out addresses that a manifest could not name, or that two users have', () => {
    const users = ['a@x.y', 'yes', ' b@x.y', 'c@x.y\n', 'D@x.y', 'd@X.y', 'e f@x.y'].map((email, i) => ({
      id: `${i}`,
      email,
    }));
    expect([...findNameableEmails(users)]).toEqual([
      ['0', 'a@x.y'],
      ['6', 'e f@x.y'],
    ]);
  });
});
