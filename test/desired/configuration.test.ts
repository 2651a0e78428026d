import { describe, expect, it } from 'vitest';
import { checkSamlMetadata } from '../../src/desired/build-configuration.ts';
import { findProfile } from '../../src/model/profile.ts';
import { fail, ok } from '../../src/model/result.ts';
import { reveal, Secret, stillEncrypted } from '../../src/model/secret.ts';
import { build, codes, document } from './helpers.ts';

const rules = { 'rules.yaml': document('RuleSet', 'none', '{rules: []}') };

function configuration(spec: string, changes: Parameters<typeof build>[1] = {}): ReturnType<typeof build> {
  return build({ ...rules, 'c.yaml': document('Configuration', 'main', spec) }, changes);
}

const oidc =
  '{id: google, label: Google, client_id: cid, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/.well-known/openid-configuration", auto_create_users: false}';
const saml = '{id: okta, label: Okta, metadata: {file: okta.xml}, auto_create_users: true}';
const metadata =
  '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/x"/>';

describe('a Configuration', () => {
  it('manages only the fields that are written', () => {
    const desired = configuration('{local_auth_enabled: false, default_client_mtu: null}');
    expect(desired.problems).toEqual([]);
    expect(desired.state?.configuration).toMatchObject({
      name: 'main',
      fields: { local_auth_enabled: false, default_client_mtu: null },
      places: { local_auth_enabled: { file: 'c.yaml', line: 4, column: 28 } },
      references: [],
    });
    expect(Object.keys(desired.state?.configuration?.fields ?? {})).toHaveLength(2);
  });

  it('is not managed at all without a manifest', () => {
    expect(build(rules).state?.configuration).toBeNull();
  });

  it('can be written once only, whatever its name', () => {
    const two = {
      'a.yaml': document('Configuration', 'a', '{default_client_mtu: 1280}'),
      'b.yaml': document('Configuration', 'b', '{}'),
    };
    expect(codes(build({ ...rules, ...two }))).toEqual(['3:18 duplicate-name']);
  });

  it.each([
    [
      '{default_client_allowed_ips: [10.0.0.1/32, "2001:DB8::/32", 10.0.0.1/8]}',
      { default_client_allowed_ips: ['10.0.0.1', '2001:db8::/32', '10.0.0.1/8'] },
    ],
    [
      '{default_client_dns: [1.1.1.1, "2606:4700:0:0::1111", DNS.Example.com]}',
      { default_client_dns: ['1.1.1.1', '2606:4700::1111', 'DNS.Example.com'] },
    ],
    ['{default_client_endpoint: " vpn.example.com:51820 "}', { default_client_endpoint: 'vpn.example.com:51820' }],
    ['{default_client_endpoint: "[2001:db8::1]:51820"}', { default_client_endpoint: '[2001:db8::1]:51820' }],
    ['{default_client_endpoint: "2001:db8::1"}', { default_client_endpoint: '2001:db8::1' }],
    [
      '{vpn_session_duration: 0, default_client_persistent_keepalive: 120, default_client_mtu: 1500}',
      { vpn_session_duration: 0, default_client_persistent_keepalive: 120, default_client_mtu: 1500 },
    ],
    [
      '{logo: {url: "https://example.com/logo.png"}}',
      { logo: { url: 'https://example.com/logo.png', data: null, type: null } },
    ],
    [
      '{logo: null, openid_connect_providers: [], saml_identity_providers: []}',
      { logo: null, openid_connect_providers: [], saml_identity_providers: [] },
    ],
  ])('%s is brought to canonical form', (spec, fields) => {
    const desired = configuration(spec);
    expect(desired.problems.filter(({ code }) => code !== 'host-bits')).toEqual([]);
    expect(desired.state?.configuration?.fields).toEqual(fields);
  });

  it.each([
    ['{default_client_mtu: 575}', 'out-of-bounds'],
    ['{default_client_mtu: 1280.5}', 'wrong-type'],
    ['{default_client_mtu: "1280"}', 'wrong-type'],
    ['{default_client_persistent_keepalive: 121}', 'out-of-bounds'],
    ['{vpn_session_duration: 2147483648}', 'out-of-bounds'],
    ['{vpn_session_duration: null}', 'wrong-type'],
    ['{local_auth_enabled: "yes"}', 'wrong-type'],
    ['{local_auth_enabled: 1}', 'wrong-type'],
    ['{default_client_allowed_ips: [10.0.0.1, 10.0.0.1/32]}', 'duplicate-member'],
    ['{default_client_allowed_ips: ["2001:db8::1", "2001:DB8::1/128"]}', 'duplicate-member'],
    ['{default_client_allowed_ips: [10.0.0.0/33]}', 'address-mask'],
    ['{default_client_allowed_ips: [example.com]}', 'address-hostname'],
    ['{default_client_allowed_ips: [null]}', 'wrong-type'],
    ['{default_client_allowed_ips: 10.0.0.1}', 'wrong-type'],
    ['{default_client_dns: [1.1.1.1, 1.1.1.1]}', 'duplicate-member'],
    ['{default_client_dns: ["2606:4700::1111", "2606:4700:0:0:0:0:0:1111"]}', 'duplicate-member'],
    ['{default_client_dns: ["1.1.1.1:53"]}', 'invalid-resolver'],
    ['{default_client_dns: [10.0.0.0/8]}', 'invalid-resolver'],
    ['{default_client_dns: [01.1.1.1]}', 'address-octal'],
    ['{default_client_dns: [null]}', 'wrong-type'],
    [`{default_client_dns: [${'a'.repeat(256)}]}`, 'invalid-resolver'],
    ['{logo: {data: ""}}', 'blank-field'],
    ['{logo: {type: " "}}', 'blank-field'],
    ['{logo: {url: "https://vpn.example.com/l.png", data: ""}}', 'blank-field'],
    ['{default_client_endpoint: "vpn.example.com:0"}', 'invalid-endpoint'],
    ['{default_client_endpoint: "vpn.example.com:65536"}', 'invalid-endpoint'],
    ['{default_client_endpoint: "https://vpn.example.com"}', 'invalid-endpoint'],
    ['{default_client_endpoint: "[2001:db8::1]"}', 'invalid-endpoint'],
    ['{default_client_endpoint: "256.1.1.1"}', 'invalid-endpoint'],
    ['{default_client_endpoint: ""}', 'invalid-endpoint'],
    [`{default_client_endpoint: ${'a'.repeat(256)}}`, 'invalid-endpoint'],
    ['{logo: {file: /etc/passwd}}', 'unknown-field'],
    ['{logo: {url: "javascript:alert(1)"}}', 'invalid-url'],
    ['{openid_connect_providers: null}', 'wrong-type'],
    ['{id: 5}', 'unknown-field'],
  ])('%s is refused: %s', (spec, code) => {
    const desired = configuration(spec);
    expect(desired.state).toBeNull();
    expect(desired.problems.map((problem) => problem.code)).toEqual([code]);
  });

  it.each([
    ['{default_client_mtu: "1280"}', 'Write a whole number or `null`, without quotes.'],
    ['{vpn_session_duration: true}', 'Write the seconds as a number, such as `86400` for a day.'],
    ['{local_auth_enabled: "true"}', 'Write `true` or `false` or `null`, without quotes.'],
    ['{openid_connect_providers: {}}', 'Write a list.'],
    ['{openid_connect_providers: [5]}', 'Write a mapping.'],
  ])('says what %s should be: %s', (spec, hint) => {
    expect(configuration(spec).problems).toMatchObject([{ code: 'wrong-type', hint }]);
  });

  it('leaves what is only known of Firezone unchecked for another server', () => {
    const spec = `{default_client_mtu: 9000, openid_connect_providers: [${oidc.replace('google', 'saml')}]}`;
    const generic = configuration(spec, { profile: findProfile('generic'), resolveSecret: () => ok(Secret.of('s')) });
    expect(generic.problems).toEqual([]);
  });
});

describe('identity providers', () => {
  const withProvider = (text: string): string => `{openid_connect_providers: [${text}]}`;
  const known = { resolveSecret: () => ok(Secret.of('s3cret')) };

  it('get the server’s defaults for what is not written', () => {
    const desired = configuration(`{openid_connect_providers: [${oidc}], saml_identity_providers: [${saml}]}`, {
      resolveSecret: (reference) => ok(Secret.of('file' in reference ? metadata : 's3cret')),
    });
    expect(codes(desired)).toEqual([]);
    const fields = desired.state?.configuration?.fields;
    expect(fields?.openid_connect_providers).toMatchObject([
      {
        id: 'google',
        scope: 'openid email profile',
        response_type: 'code',
        redirect_uri: null,
        auto_create_users: false,
      },
    ]);
    expect(fields?.saml_identity_providers).toMatchObject([
      { id: 'okta', base_url: null, sign_requests: true, sign_metadata: true, auto_create_users: true },
    ]);
    const secret = fields?.openid_connect_providers?.[0]?.client_secret;
    expect(secret === undefined ? null : reveal(secret)).toBe('s3cret');
    expect(JSON.stringify(desired)).not.toContain('s3cret');
  });

  it.each([
    [oidc.replace('google', 'identity'), 'reserved-id'],
    [oidc.replace('google', 'magic_link'), 'reserved-id'],
    [`${oidc}, ${oidc}`, 'duplicate-provider'],
    [oidc.replace('{id', '{scope: openid, id'), 'invalid-scope'],
    [oidc.replace('{id', '{response_type: token, id'), 'invalid-response-type'],
    [oidc.replace('{id', '{redirect_uri: /cb, id'), 'invalid-url'],
    [oidc.replace('https://idp', 'ftp://idp'), 'invalid-url'],
    [oidc.replace('https://idp', ' https://idp'), 'invalid-url'],
    [oidc.replace('label: Google, ', ''), 'missing-field'],
    [oidc.replace('Google', '" "'), 'blank-field'],
    [oidc.replace(', auto_create_users: false', ''), 'missing-field'],
    [oidc.replace('auto_create', 'autocreate'), 'unknown-field'],
    [oidc.replace('{env: RECONCILE_SECRET_G}', '{env: A, file: b}'), 'wrong-type'],
    [oidc.replace('cid', '{env: A}'), 'wrong-type'],
  ])('%s is refused: %s', (text, code) => {
    const desired = configuration(withProvider(text), known);
    expect([...new Set(desired.problems.map((problem) => problem.code))]).toEqual([code]);
    expect(desired.state).toBeNull();
  });

  it('may have a literal secret, with a warning', () => {
    const desired = configuration(withProvider(oidc.replace('{env: RECONCILE_SECRET_G}', 'hunter2')));
    expect(desired.problems).toMatchObject([{ code: 'literal-secret', severity: 'warning' }]);
    expect(JSON.stringify(desired)).not.toContain('hunter2');
  });

  it('whose secret is not available are planned with an unknown secret, and a note', () => {
    const desired = configuration(withProvider(oidc));
    expect(desired.problems).toMatchObject([{ code: 'unknown-secret', severity: 'note' }]);
    expect(desired.state?.configuration?.fields.openid_connect_providers?.[0]?.client_secret.known).toBe(false);
  });

  it('whose secret may not be read are a problem', () => {
    const desired = configuration(withProvider(oidc), { resolveSecret: () => fail('Not that one.') });
    expect(desired.problems).toMatchObject([{ code: 'secret-not-allowed', severity: 'error', place: { line: 4 } }]);
  });

  it('with a blank secret are a problem', () => {
    expect(codes(configuration(withProvider(oidc), { resolveSecret: () => ok(Secret.of('\n')) }))).toEqual([
      '4:94 blank-field',
    ]);
  });
});

describe('files of the source beside the manifests', () => {
  const text = document('Configuration', 'c', `{saml_identity_providers: [${saml}]}`);

  it.each(['\r\n', '\r', '\n'])('SAML metadata whose lines end with %j is that of its commit, as XML has it', (end) => {
    const lines = metadata.replaceAll(' ', '\n');
    const desired = build(
      { ...rules, 'c.yaml': text, 'okta.xml': lines.replaceAll('\n', end) },
      { resolveSecret: () => fail('no directory') },
    );
    const secret = desired.state?.configuration?.fields.saml_identity_providers?.[0]?.metadata;
    expect(secret === undefined ? null : reveal(secret)).toBe(lines);
  });

  it('are what a reference relative to the manifest names first: a Git repository has no directory to read from', () => {
    const never = { resolveSecret: () => fail('no directory') };
    const desired = build({ ...rules, 'idp/c.YAML': text, 'idp/okta.xml': metadata }, never);
    expect(codes(desired)).toEqual([]);
    const secret = desired.state?.configuration?.fields.saml_identity_providers?.[0]?.metadata;
    expect(secret === undefined ? null : reveal(secret)).toBe(metadata);
    expect(codes(build({ ...rules, 'c.yaml': text, 'idp/okta.xml': metadata }, never))).toEqual([
      '4:68 secret-not-allowed',
    ]);
    const locked = { ...rules, 'c.yaml': text, 'okta.xml': 'U2FsdGVkX1+vupppZksv\n' };
    expect(codes(build(locked, never))).toEqual(['4:68 secret-not-allowed']);
    // What is only compared, as by `diff`, has no secret there.
    expect(codes(build(locked))).toEqual(['4:68 unknown-secret']);
    const { problems } = build(locked, { resolveSecret: () => fail(stillEncrypted) });
    expect(problems).toMatchObject([{ code: 'secret-not-allowed', hint: expect.stringMatching(/unlock/) }]);
    const outside = text.replace('okta.xml', '../../okta.xml');
    expect(codes(build({ ...rules, 'idp/c.yaml': outside, 'okta.xml': metadata }, never))).toEqual([
      '4:68 secret-not-allowed',
    ]);
  });
});

describe('SAML metadata', () => {
  it.each([
    ['garbage', 'not well-formed XML'],
    ['', 'not well-formed XML'],
    ['<a>', 'not well-formed XML'],
    ['<a></b>', 'not well-formed XML'],
    ['<a/><b/>', 'not well-formed XML'],
    [`${metadata.replace('/>', '>')}<md:Extensions>`, 'not well-formed XML'],
    [`${metadata.replace('/>', '>')}<a><b></a></b></md:EntityDescriptor>`, 'not well-formed XML'],
    [`<!-- <a> of <b@example.com> -->${metadata}`, null],
    ['<a b=c/>', 'not well-formed XML'],
    [`\n<?xml version="1.0"?>${metadata}`, 'not well-formed XML'],
    ['<a/>', 'no SAML metadata'],
    [metadata.replace(/entityID="[^"]*"/, ''), 'names no entity'],
    [metadata.replace('/>', '><md:X509Certificate>!!</md:X509Certificate></md:EntityDescriptor>'), 'A certificate'],
    [
      metadata.replace('/>', '><ds:X509Certificate>\nMAIF\nAAA=\n</ds:X509Certificate></md:EntityDescriptor>'),
      'A certificate',
    ],
    // One that says that more bytes of its length follow than there are.
    [metadata.replace('/>', '><md:X509Certificate>MIIB</md:X509Certificate></md:EntityDescriptor>'), 'A certificate'],
    [metadata.replace('/>', '><ds:X509Certificate>\nMAMC\nAQE=\n</ds:X509Certificate></md:EntityDescriptor>'), null],
    [metadata, null],
    [`<?xml version="1.0" encoding="UTF-8"?>\n<!-- c -->\n${metadata}\n`, null],
    [`<md:EntitiesDescriptor xmlns:md="x">${metadata}</md:EntitiesDescriptor>`, null],
  ])('%j: %s', (text, fault) => {
    expect(checkSamlMetadata(text) ?? 'none').toContain(fault ?? 'none');
  });

  it('that the server could not read is a problem at its place', () => {
    const desired = configuration(`{saml_identity_providers: [${saml}]}`, {
      resolveSecret: () => ok(Secret.of('<a/>')),
    });
    expect(codes(desired)).toEqual(['4:68 invalid-saml-metadata']);
  });
});
