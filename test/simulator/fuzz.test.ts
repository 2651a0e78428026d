import { request as send } from 'node:http';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { startSimulator } from '../../src/simulator/server.ts';
import { runs } from '../property/runs.ts';

const ALICE = 'a1520c4b-adc3-4574-932a-94461cf85c07';

const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom(
    '',
    ' ',
    '10.0.0.0/8',
    '10.0.0.1/33',
    '::/0',
    '::1/256',
    'tcp',
    '80',
    '90 - 80',
    '80-',
    '[80,90)',
    ALICE,
  ),
  fc.string({ unit: 'binary', maxLength: 6 }),
);

function wrapped(name: string, fields: readonly string[]): fc.Arbitrary<unknown> {
  return fc.dictionary(fc.constantFrom(...fields), odd).map((values) => ({ [name]: values }));
}

const ruleFields = ['action', 'destination', 'port_range', 'port_type', 'user_id'];
const configurationFields = [
  'default_client_allowed_ips',
  'default_client_dns',
  'default_client_endpoint',
  'default_client_mtu',
  'local_auth_enabled',
  'logo',
  'openid_connect_providers',
  'saml_identity_providers',
  'vpn_session_duration',
];
const provider = fc.dictionary(
  fc.constantFrom(
    'id',
    'label',
    'metadata',
    'base_url',
    'scope',
    'redirect_uri',
    'auto_create_users',
    'discovery_document_uri',
  ),
  odd,
);
const providers = fc
  .array(provider, { maxLength: 2 })
  .map((items) => ({ configuration: { openid_connect_providers: items, saml_identity_providers: items } }));

const call = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS'),
  path: fc.oneof(
    fc.constantFrom(
      '/v0/rules',
      '/v0/configuration',
      '/v0/users',
      `/v0/rules/${ALICE}`,
      `/v0/users/${ALICE}`,
      '/v0/rules/x',
    ),
    fc.webPath().map((path) => `/v0${path}`),
    fc.webQueryParameters().map((query) => `/v0/rules?${query}`),
  ),
  accept: fc.oneof(
    { weight: 9, arbitrary: fc.constant('application/json') },
    fc.string({ unit: fc.constantFrom('a', '/', '*', ',', ';', 'q', '=') }),
  ),
  type: fc.constantFrom(
    'application/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'text/plain',
  ),
  body: fc.oneof(
    wrapped('rule', ruleFields).map((item) => JSON.stringify(item)),
    wrapped('configuration', configurationFields).map((item) => JSON.stringify(item)),
    providers.map((item) => JSON.stringify(item)),
    wrapped('user', ['email', 'password', 'role']).map((item) => JSON.stringify(item)),
    fc.string({ unit: 'binary' }),
  ),
});

interface Reply {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

function exchange(url: string, { method, path, accept, type, body }: Readonly<Record<string, string>>): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const length = { 'content-length': String(Buffer.byteLength(body ?? '')) };
    const headers = { authorization: 'Bearer secret', accept: accept ?? '', 'content-type': type ?? '', ...length };
    const sent = send(`${url}${path}`, { method: method ?? 'GET', headers }, (response) => {
      let text = '';
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, type: response.headers['content-type'] ?? '', text }),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

test('whatever is sent is answered in one of the server’s ways, and never by a mistake of the simulator', async () => {
  const mistakes: unknown[] = [];
  const options = {
    token: 'secret',
    users: [{ name: 'alice', id: ALICE }],
    onError: (error: unknown) => mistakes.push(error),
  };
  const simulator = await startSimulator(options);
  try {
    await fc.assert(
      fc.asyncProperty(call, async (item) => {
        const { status, type, text } = await exchange(simulator.url, item);
        expect(mistakes).toEqual([]);
        expect([200, 201, 204, 404, 422, 500]).toContain(status);
        if (status === 500) expect(text).toBe('');
        else if (text !== '')
          expect([type, typeof JSON.parse(text)]).toEqual(['application/json; charset=utf-8', 'object']);
        expect(
          JSON.parse((await exchange(simulator.url, { path: '/v0/rules', accept: 'application/json' })).text),
        ).toHaveProperty('data');
      }),
      { numRuns: runs(1_500) },
    );
  } finally {
    await simulator.close();
  }
});
