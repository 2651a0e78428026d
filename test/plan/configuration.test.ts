import { describe, expect, it } from 'vitest';
import type { ConfigurationFields, OidcProvider, SamlProvider } from '../../src/model/configuration.ts';
import { type FingerprintKey, Secret } from '../../src/model/secret.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import type { ConfigurationChange, Plan } from '../../src/plan/plan.ts';
import { planInput } from './support.ts';

type Fields = Partial<ConfigurationFields>;

function planOf(fields: Fields, liveFields: Fields = {}, base?: Fields): Plan {
  const input = planInput({ fields, liveFields, options: { fingerprintKey: new Uint8Array([1]) as FingerprintKey } });
  if (base === undefined || input.desired.configuration === null) return makePlan(input);
  const configuration = { ...input.desired.configuration, fields: base };
  return makePlan({ ...input, base: { ...input.desired, configuration } });
}

function changeOf(plan: Plan): ConfigurationChange {
  const change = plan.changes.find(({ kind }) => kind === 'Configuration');
  if (change?.kind !== 'Configuration') throw new Error('no change of the configuration');
  return change;
}

/** The fields that the plan sends. */
function sent(plan: Plan): readonly string[] {
  return plan.steps.flatMap((step) => (step.type === 'configure' ? step.fields : []));
}

function oidc(id: string, secret: Secret, more: Partial<OidcProvider> = {}): OidcProvider {
  return {
    id,
    label: id,
    scope: 'openid email profile',
    response_type: 'code',
    client_id: 'client',
    client_secret: secret,
    discovery_document_uri: 'https://sso.example/.well-known/openid-configuration',
    redirect_uri: null,
    auto_create_users: false,
    ...more,
  };
}

function saml(more: Partial<SamlProvider> = {}): SamlProvider {
  return {
    id: 'okta',
    label: 'Okta',
    base_url: 'https://vpn.example/auth/saml',
    metadata: Secret.of('<xml/>'),
    sign_requests: true,
    sign_metadata: true,
    signed_assertion_in_resp: true,
    signed_envelopes_in_resp: true,
    auto_create_users: true,
    ...more,
  };
}

describe('the plan of the configuration', () => {
  it('sends the managed fields that differ, and no others', () => {
    const plan = planOf({ default_client_mtu: 1300, vpn_session_duration: 0, local_auth_enabled: true });
    expect(sent(plan)).toEqual(['default_client_mtu']);
    expect(changeOf(plan)).toMatchObject({
      action: 'update',
      via: 'patch',
      reason: 'differs',
      fields: { default_client_mtu: { before: 1280, after: 1300 } },
    });
  });

  it('keeps it when every managed field agrees, and has no change where nothing is managed', () => {
    expect(changeOf(planOf({ default_client_mtu: 1280 }))).toMatchObject({ action: 'keep', reason: 'in-sync' });
    expect(makePlan(planInput({})).changes).toEqual([]);
  });

  it.each<readonly [string, Fields, Fields, boolean]>([
    ['allowed addresses in another order', { default_client_allowed_ips: ['::/0', '0.0.0.0/0'] }, {}, false],
    ['name servers in another order', { default_client_dns: ['1.0.0.1', '1.1.1.1'] }, {}, true],
    ['null for a field that is set', { default_client_mtu: null }, {}, true],
    ['a logo of nulls for no logo', { logo: { url: null, data: null, type: null } }, {}, false],
    ['no logo for a logo of nulls', { logo: null }, { logo: { url: null, data: null, type: null } }, false],
    ['another logo', { logo: { url: 'https://a', data: null, type: null } }, {}, true],
    [
      'a base URL left to the server',
      { saml_identity_providers: [saml({ base_url: null })] },
      { saml_identity_providers: [saml()] },
      false,
    ],
    [
      'another base URL',
      { saml_identity_providers: [saml({ base_url: 'https://b' })] },
      { saml_identity_providers: [saml()] },
      true,
    ],
    [
      'a flag that is null on the server',
      { saml_identity_providers: [saml()] },
      { saml_identity_providers: [saml({ sign_requests: null })] },
      true,
    ],
    ['one provider fewer', { saml_identity_providers: [] }, { saml_identity_providers: [saml()] }, true],
  ])('%s', (_, fields, liveFields, differs) => {
    expect(sent(planOf(fields, liveFields))).toEqual(differs ? Object.keys(fields) : []);
  });

  it('compares providers by position: their order is the order on the sign-in page', () => {
    const [a, b] = [oidc('a', Secret.of('x')), oidc('b', Secret.of('x'))];
    const live = { openid_connect_providers: [a, b] };
    expect(sent(planOf({ openid_connect_providers: [a, b] }, live))).toEqual([]);
    expect(sent(planOf({ openid_connect_providers: [b, a] }, live))).toEqual(['openid_connect_providers']);
  });
});

describe('going back to another configuration', () => {
  const okta = oidc('okta', Secret.of('x'));
  const off = { local_auth_enabled: false };
  it.each<readonly [string, Fields, Fields, readonly string[], readonly string[]]>([
    [
      'no provider, where local sign-in is off',
      { openid_connect_providers: [] },
      { ...off, openid_connect_providers: [okta] },
      [],
      ['openid_connect_providers'],
    ],
    ['local sign-in off, where no provider is left', off, {}, [], ['local_auth_enabled']],
    [
      'local sign-in off, with a secret that is not available',
      { ...off, openid_connect_providers: [oidc('okta', Secret.unknown())] },
      {},
      [],
      ['local_auth_enabled'],
    ],
    [
      'nothing of both',
      { ...off, saml_identity_providers: [] },
      { saml_identity_providers: [saml()] },
      [],
      ['local_auth_enabled', 'saml_identity_providers'],
    ],
    [
      'a provider instead of local sign-in',
      { ...off, openid_connect_providers: [okta] },
      {},
      ['local_auth_enabled', 'openid_connect_providers'],
      [],
    ],
    ['nothing, where nobody can sign in', { openid_connect_providers: [] }, off, [], []],
  ])('%s', (_, fields, liveFields, written, kept) => {
    const input = planInput({
      fields: { ...fields, default_client_mtu: 1300 },
      liveFields,
      options: { goesBack: true },
    });
    const plan = makePlan(input);
    expect([sent(plan), plan.refusals]).toEqual([[...written, 'default_client_mtu'], []]);
    const named = plan.problems.filter(({ code }) => code === 'locks-out').map(({ summary }) => summary.split('`')[1]);
    expect(named).toEqual(kept);
  });
});

describe('secrets in the plan of the configuration', () => {
  const live = { openid_connect_providers: [oidc('sso', Secret.of('canary-live'))] };

  it('are compared by value and shown by fingerprint, never as text', () => {
    const plan = planOf({ openid_connect_providers: [oidc('sso', Secret.of('canary-new'))] }, live);
    expect(sent(plan)).toEqual(['openid_connect_providers']);
    const shown = JSON.stringify(changeOf(plan).fields);
    expect(shown).not.toContain('canary');
    expect(shown.match(/"secret":"changed","fingerprint":"[0-9a-f]{12}"/g)).toHaveLength(2);
    expect(JSON.stringify(plan, (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value))).not.toContain(
      'canary',
    );
    const same = planOf({ openid_connect_providers: [oidc('sso', Secret.of('canary-live'), { label: 'New' })] }, live);
    expect(JSON.stringify(changeOf(same).fields)).toContain('"secret":"same"');
  });

  it('never cause a write when they are not available, and are said to be unknown', () => {
    const plan = planOf({ openid_connect_providers: [oidc('sso', Secret.unknown())] }, live);
    expect(plan.steps).toEqual([]);
    expect(changeOf(plan)).toMatchObject({ action: 'skip', reason: 'unknown-secret' });
    expect(JSON.stringify(changeOf(plan).fields)).toContain('"secret":"unknown","fingerprint":null');
    expect(plan.problems).toEqual([]);
  });

  it('keep a field from being sent that differs otherwise, with a warning, while others are sent', () => {
    const fields = {
      openid_connect_providers: [oidc('sso', Secret.unknown(), { label: 'New' })],
      default_client_mtu: 1300,
    };
    const plan = planOf(fields, live);
    expect(sent(plan)).toEqual(['default_client_mtu']);
    expect(plan.problems.map(({ code, severity }) => [code, severity])).toEqual([['unsent-field', 'warning']]);
    const added = planOf({ openid_connect_providers: [oidc('sso', Secret.unknown())] });
    expect(added.steps).toEqual([]);
    expect(changeOf(added)).toMatchObject({ action: 'skip', reason: 'unsent' });
  });
});

describe('the origin of a change of the configuration', () => {
  it('is this revision when it changes a field against the base, else drift', () => {
    expect(changeOf(planOf({ default_client_mtu: 1300 }, {}, { default_client_mtu: 1280 })).origin).toBe(
      'this-revision',
    );
    expect(changeOf(planOf({ default_client_mtu: 1300 }, {}, {})).origin).toBe('this-revision');
    expect(changeOf(planOf({ default_client_mtu: 1300 }, {}, { default_client_mtu: 1300 })).origin).toBe('drift');
  });

  it('names a field that drifted beside one that this revision changes, and --fail-on drift sees it', () => {
    const fields = { default_client_mtu: 1300, vpn_session_duration: 5 };
    const plan = planOf(fields, {}, { default_client_mtu: 1280, vpn_session_duration: 5 });
    expect(changeOf(plan).origin).toBe('this-revision');
    expect(plan.problems).toMatchObject([
      { code: 'drifted-field', summary: expect.stringContaining('vpn_session_duration') },
    ]);
    const input = planInput({ fields, options: { failOn: ['drift'] } });
    const { configuration } = input.desired;
    if (configuration === null) throw new Error('no configuration');
    const asBefore = {
      ...input.desired,
      configuration: { ...configuration, fields: { ...fields, default_client_mtu: 1280 } },
    };
    expect(makePlan({ ...input, base: asBefore }).refusals).toMatchObject([{ code: 'fail-on-drift' }]);
    const notThere = { ...input.desired, configuration: { ...configuration, fields: {} } };
    expect(makePlan({ ...input, base: notThere }).refusals).toEqual([]);
  });

  it('is known of what waits for a secret, too', () => {
    const wanted = { openid_connect_providers: [oidc('sso', Secret.unknown())] };
    const plan = planOf(wanted, { openid_connect_providers: [] }, wanted);
    expect(changeOf(plan)).toMatchObject({ action: 'skip', reason: 'unsent', origin: 'drift' });
  });
});
