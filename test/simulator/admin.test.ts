import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Client, startClient } from './client.ts';

const ALICE = 'a1520c4b-adc3-4574-932a-94461cf85c07';

let client: Client;
beforeEach(async () => {
  client = await startClient({ admin: true, users: [{ name: 'alice', id: ALICE }] });
});
afterEach(() => client.simulator.close());

test('the verdict page tells what the filter does to a packet', async () => {
  await client.call('POST', '/v0/rules', { rule: { destination: '10.0.0.0/8', user_id: ALICE } });
  const verdict = async (query: string): Promise<unknown> => (await client.call('GET', `/admin/verdict?${query}`)).body;
  expect(await verdict('destination=10.1.1.1&protocol=tcp&port=80&user=alice')).toMatchObject({ verdict: 'drop' });
  expect(await verdict('destination=10.1.1.1&protocol=icmp&user=alice@example.test')).toMatchObject({
    verdict: 'drop',
  });
  expect(await verdict('destination=10.1.1.1&protocol=icmp')).toMatchObject({ user: null, verdict: 'accept' });
  expect(await verdict('destination=nowhere')).toEqual({ error: 'destination must be an address' });
  expect(await verdict('destination=10.1.1.1&user=mallory')).toEqual({ error: 'no user mallory' });
});

test('the filter page lists what the filter holds, which an update does not change', async () => {
  const seeds = [{ destination: '10.1.2.3/8', port_type: 'tcp' as const, port_range: '80-90' }];
  const [id] = client.simulator.seed(seeds);
  await client.call('PATCH', `/v0/rules/${id}`, { rule: { destination: '11.0.0.0/8' } });
  expect((await client.call('GET', '/admin/filter')).body).toEqual({
    state: { pending: 0, rebuilding: false, crashes: 0, lost: [] },
    elements: [
      { rule: id, user: null, action: 'drop', destination: '10.0.0.0/8', port_type: 'tcp', port_range: '80 - 90' },
    ],
  });
});

test('faults are set, listed and taken away over HTTP', async () => {
  const fault = { match: { method: 'GET', path: '/v0/*' }, fault: { kind: 'status', status: 503 } };
  expect(await client.call('POST', '/admin/faults', fault)).toEqual({ status: 201, body: { number: 1 } });
  expect((await client.call('GET', '/v0/configuration')).status).toBe(503);
  expect((await client.call('GET', '/admin/faults')).body).toMatchObject([{ ...fault, number: 1, applied: 1 }]);
  expect((await client.call('DELETE', '/admin/faults/1')).status).toBe(204);
  expect((await client.call('GET', '/v0/configuration')).status).toBe(200);
});

test('a fault that makes no sense is refused with its reason', async () => {
  const { status, body } = await client.call('POST', '/admin/faults', { fault: { kind: 'status' }, macth: {} });
  expect(status).toBe(422);
  expect(JSON.stringify(body)).toContain('macth');
});

test('without --admin the pages are an unknown path like any other', async () => {
  await client.simulator.close();
  client = await startClient();
  expect(await client.call('GET', '/admin/filter')).toEqual({ status: 404, body: { error: 'not_found' } });
});

test.each([{ 'a b': 'x' }, { a: 'x\ny' }, { '': 'x' }])(
  'a fault whose headers HTTP cannot carry, %j, is refused and does not end the simulator',
  async (headers) => {
    const fault = { fault: { kind: 'status', status: 429, headers } };
    const { status, body } = await client.call('POST', '/admin/faults', fault);
    expect({ status, body }).toMatchObject({
      status: 422,
      body: { error: expect.stringContaining('no such headers') },
    });
    expect((await client.call('GET', '/v0/rules')).status).toBe(200);
  },
);
