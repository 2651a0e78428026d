import { readdirSync, readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { decodeLiveConfiguration } from '../../src/live/live-configuration.ts';
import { decodeLiveRule, decodeLiveRules, decodeLiveUsers } from '../../src/live/live-rules.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import { reveal } from '../../src/model/secret.ts';

const recordings = new URL('../contract/recordings/', import.meta.url);

interface Item {
  readonly request?: { readonly method: string; readonly path: string };
  readonly response?: { readonly status: number; readonly body?: unknown };
}

/** Every recorded answer with status 200 or 201 to that method and path. */
function recorded(method: string, path: RegExp): readonly unknown[] {
  return readdirSync(recordings)
    .filter((name) => name.endsWith('.json'))
    .flatMap((name) => JSON.parse(readFileSync(new URL(name, recordings), 'utf8')) as Item[])
    .filter(({ request, response }) => request?.method === method && path.test(request.path) && response !== undefined)
    .flatMap(({ response }) => (response?.status === 200 || response?.status === 201 ? [response.body] : []))
    .filter((body) => typeof body === 'object' && body !== null);
}

const wire = {
  action: 'drop',
  destination: '10.0.0.0/8',
  id: '11111111-1111-4111-8111-111111111111',
  inserted_at: '2026-01-01T00:00:00.000000Z',
  port_range: '80 - 90',
  port_type: 'tcp',
  updated_at: '2026-01-01T00:00:00.000000Z',
  user_id: null,
};

describe('rules', () => {
  test('a list beside errors is refused: it may be half of it', () => {
    expect(decodeLiveRules({ data: [], errors: { detail: 'time-out' } }).ok).toBe(false);
    expect(decodeLiveRules({ data: [], errors: null }).ok).toBe(true);
  });

  test('every recorded list is read in full', () => {
    const lists = recorded('GET', /^\/v0\/rules\/?$/);
    expect(lists.length).toBeGreaterThan(3);
    for (const body of lists) {
      const decoded = decodeLiveRules(body);
      expect(decoded.ok ? '' : decoded.error).toBe('');
      expect(decoded.ok ? decoded.value.length : -1).toBe((body as { data: unknown[] }).data.length);
    }
  });

  test('every recorded answer to a POST is read, /32 and upper case included', () => {
    const answers = recorded('POST', /^\/v0\/rules\/?$/);
    expect(answers.length).toBeGreaterThan(20);
    const unreadable = answers.flatMap((body) => {
      const decoded = decodeLiveRule(body);
      return decoded.ok ? [] : [decoded.error];
    });
    // `2001:db8::1/256` is echoed with its mask: what the server mangles is never sent by this program.
    expect(unreadable.filter((error) => !error.includes('(mask)'))).toEqual([]);
  });

  test('a member that may be null must be there: nothing is guessed', () => {
    for (const name of ['user_id', 'port_type', 'port_range'] as const) {
      const { [name]: _, ...rest } = { ...wire, port_type: null, port_range: null };
      expect(decodeLiveRules({ data: [rest] })).toMatchObject({
        ok: false,
        error: expect.stringContaining(`has no ${name}`),
      });
    }
  });

  test('a page of the list is not taken for the whole', () => {
    for (const more of [
      { next: '/v0/rules?page=2' },
      { meta: { next_page: 2 } },
      { links: { next: 'x', prev: null } },
      { has_more: true },
      { pagination: { total_count: 2 } },
    ]) {
      expect(decodeLiveRules({ data: [wire], ...more })).toMatchObject({
        ok: false,
        error: expect.stringContaining('part'),
      });
    }
    for (const whole of [{ next: null }, { meta: { has_more: false, total: 1 } }, { next_steps: 'x' }]) {
      expect(decodeLiveRules({ data: [wire], ...whole })).toMatchObject({ ok: true });
    }
  });

  test('the stored spelling is kept beside the canonical rule', () => {
    const decoded = decodeLiveRules({ data: [{ ...wire, destination: '10.1.2.3/8' }] });
    expect(decoded.ok && decoded.value[0]).toMatchObject({ destinationText: '10.1.2.3/8' });
    expect(decoded.ok && decoded.value[0] ? formatRuleKey(decoded.value[0].rule) : '').toBe(
      'drop 10.0.0.0/8 tcp 80-90 *',
    );
  });

  test('a rule that is listed as before is the same object, and no other is taken for it', () => {
    const read = (body: unknown, before?: Parameters<typeof decodeLiveRules>[1]) => {
      const decoded = decodeLiveRules(body, before);
      if (!decoded.ok) throw new Error(decoded.error);
      return decoded.value;
    };
    const zoned = { ...wire, id: '22222222-2222-4222-8222-222222222222', destination: 'fe80::1%1' };
    const before = read({ data: [wire, zoned] });
    const [first] = before;
    expect(read({ data: [zoned, wire] }, before)[1]).toBe(first);
    for (const change of [
      { id: '33333333-3333-4333-8333-333333333333' },
      { action: 'accept' },
      { destination: '10.1.2.3/8' },
      { port_range: '80 - 91' },
      { port_range: '81 - 90' },
      { port_type: 'udp' },
      { port_type: null, port_range: null },
      { user_id: '44444444-4444-4444-8444-444444444444' },
      { inserted_at: '2026-01-01T00:00:00.000001Z' },
      { updated_at: '2026-01-01T00:00:00.000001Z' },
      { priority: 1 },
    ]) {
      const body = { data: [{ ...wire, ...change }, zoned] };
      expect(read(body, before)).toEqual(read(body));
      expect(read(body, before)[0]).not.toBe(first);
    }
    for (const name of ['user_id', 'inserted_at'] as const) {
      const { [name]: _, ...rest } = wire;
      expect(decodeLiveRules({ data: [rest] }, before)).toMatchObject({ ok: false });
    }
    expect(decodeLiveRules({ data: [wire, wire] }, before)).toMatchObject({ ok: false });
  });

  test('a field of a newer server does not fail the list, and its name is kept', () => {
    const decoded = decodeLiveRules({ data: [{ ...wire, enabled: false, priority: 1 }], page: 2 });
    expect(decoded).toMatchObject({ ok: true, value: [{ unknownFields: ['enabled', 'priority'] }] });
    const [now] = recorded('GET', /^\/v0\/rules\/?$/).map((body) => decodeLiveRules(body));
    expect(now?.ok && now.value.flatMap(({ unknownFields }) => unknownFields ?? [])).toEqual([]);
  });

  for (const [name, change, because] of [
    ['id', { id: 'x' }, 'no id'],
    ['action', { action: 'reject' }, 'action'],
    ['destination', { destination: '10.0.0.0/33' }, 'destination'],
    ['port type', { port_type: 'sctp' }, 'port_type'],
    ['port range', { port_range: '80,90' }, 'port_range'],
    ['half a port', { port_range: null }, 'port_range'],
    ['user', { user_id: 'alice' }, 'user_id'],
    ['time', { updated_at: null }, 'updated_at'],
  ] as const) {
    test(`one rule with a bad ${name} fails the whole list and is named`, () => {
      const decoded = decodeLiveRules({
        data: [
          { ...wire, id: wire.id.replace(/^1/, '2') },
          { ...wire, ...change },
        ],
      });
      expect(decoded.ok).toBe(false);
      const message = decoded.ok ? '' : decoded.error;
      expect(message).toContain(name === 'id' ? 'number 2' : wire.id);
      expect(message).toContain(because);
    });
  }

  test.each([undefined, null, [], {}, { data: {} }, { data: [null] }, '{"data":[]}'])(
    '%j is no list of rules',
    (body) => {
      expect(decodeLiveRules(body).ok).toBe(false);
    },
  );

  test('an id that is listed twice is no list to plan from', () => {
    expect(decodeLiveRules({ data: [wire, wire] })).toMatchObject({ ok: false });
  });
});

describe('the Configuration', () => {
  test('every recorded answer is read', () => {
    const answers = [...recorded('GET', /^\/v0\/configuration$/), ...recorded('PATCH', /^\/v0\/configuration$/)];
    expect(answers.length).toBeGreaterThan(20);
    for (const body of answers) {
      const decoded = decodeLiveConfiguration(body);
      expect(decoded.ok ? decoded.value.unknownFields : decoded.error).toBeUndefined();
    }
  });

  const oidc = {
    id: 'okta',
    label: 'Okta',
    scope: 'openid email',
    response_type: 'code',
    client_id: 'c',
    discovery_document_uri: 'https://idp.example.com',
    redirect_uri: null,
    auto_create_users: true,
  };
  const recordedOne = recorded('GET', /^\/v0\/configuration$/)[0] as { data: Record<string, unknown> };

  const samlProvider = {
    id: 'okta',
    label: 'Okta',
    base_url: null,
    sign_requests: true,
    sign_metadata: true,
    signed_assertion_in_resp: true,
    signed_envelopes_in_resp: true,
    auto_create_users: true,
  };

  test('secrets are secrets from the first moment', () => {
    const provider = { ...oidc, client_secret: 'canary-5b1' };
    const decoded = decodeLiveConfiguration({ data: { ...recordedOne.data, openid_connect_providers: [provider] } });
    expect(inspect(decoded, { depth: 9 })).not.toContain('canary');
    const secret = decoded.ok ? decoded.value.fields.openid_connect_providers[0]?.client_secret : undefined;
    expect(secret === undefined ? undefined : reveal(secret)).toBe('canary-5b1');
  });

  test('SAML metadata has the line ends of a file in Git, though a form in a browser sends others', () => {
    const saml = { ...samlProvider, metadata: '<a>\r\n<b/>\r</a>' };
    const decoded = decodeLiveConfiguration({ data: { ...recordedOne.data, saml_identity_providers: [saml] } });
    const secret = decoded.ok ? decoded.value.fields.saml_identity_providers[0]?.metadata : undefined;
    expect(secret === undefined ? undefined : reveal(secret)).toBe('<a>\n<b/>\n</a>');
  });

  test('a field of another type is named without its value', () => {
    const providers = [{ id: 'okta', client_secret: ['canary-5b1'] }];
    const decoded = decodeLiveConfiguration({ data: { ...recordedOne.data, openid_connect_providers: providers } });
    expect(decoded).toEqual({ ok: false, error: 'the configuration: openid_connect_providers[0].label is not text' });
  });

  test('an optional text that another server leaves out is null', () => {
    const { redirect_uri: _, ...provider } = { ...oidc, client_secret: 's' };
    const decoded = decodeLiveConfiguration({ data: { ...recordedOne.data, openid_connect_providers: [provider] } });
    expect(decoded.ok && decoded.value.fields.openid_connect_providers[0]?.redirect_uri).toBeNull();
  });

  test('an empty optional text is null, as Firezone stores it', () => {
    const data = { ...recordedOne.data, default_client_endpoint: '' };
    const decoded = decodeLiveConfiguration({ data });
    expect(decoded.ok && decoded.value.fields.default_client_endpoint).toBeNull();
  });

  test('a missing managed field fails, an unknown one does not', () => {
    const { local_auth_enabled: _, ...rest } = recordedOne.data;
    expect(decodeLiveConfiguration({ data: rest })).toMatchObject({ ok: false });
    const provider = { ...oidc, client_secret: 's', pkce: true };
    const data = { ...recordedOne.data, new_field: 1, openid_connect_providers: [provider] };
    const unknownFields = ['openid_connect_providers.0.pkce', 'new_field'];
    expect(decodeLiveConfiguration({ data })).toMatchObject({ ok: true, value: { unknownFields } });
  });

  test.each([{}, null, { data: null, type: null, url: null }])('%j is no logo', (logo) => {
    const decoded = decodeLiveConfiguration({ data: { ...recordedOne.data, logo } });
    expect(decoded.ok && decoded.value.fields.logo).toBeNull();
  });
});

test.each([
  ['an object without words', { toString: 1 }],
  ['lists deeper than the stack', JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`) as unknown],
])('where a text belongs, %s is refused and throws nothing', (_, odd) => {
  expect(decodeLiveRules({ data: [{ ...wire, id: odd }] })).toEqual({
    ok: false,
    error: expect.stringContaining('no id'),
  });
  expect(decodeLiveConfiguration({ data: { logo: { url: odd } } })).toMatchObject({ ok: false });
});

test('users are read with lower-case e-mail addresses', () => {
  const user = { id: wire.id, email: 'Alice@Example.Test', role: 'admin', disabled_at: '2026-01-01T00:00:00Z' };
  expect(decodeLiveUsers({ data: [user] })).toEqual({
    ok: true,
    value: [{ id: wire.id, email: 'alice@example.test' }],
  });
  expect(decodeLiveUsers({ data: [{ id: 'x' }] })).toMatchObject({ ok: false });
  const twin = { ...user, id: '22222222-2222-4222-8222-222222222222', email: 'aLICE@example.test' };
  expect(decodeLiveUsers({ data: [user, twin] })).toMatchObject({
    ok: false,
    error: expect.stringContaining('another'),
  });
  expect(decodeLiveUsers({ data: [user], next_page: 2 })).toMatchObject({ ok: false });
});
