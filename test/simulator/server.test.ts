import { afterEach, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';

let simulator: Simulator | undefined;
afterEach(async () => {
  await simulator?.close();
  simulator = undefined;
});

async function call(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${simulator?.url ?? ''}${path}`, {
    method,
    headers: { authorization: 'Bearer secret', accept: 'application/json', 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? null : JSON.parse(text) };
}

test('a rule is created, listed, refused a second time, updated and deleted over real HTTP', async () => {
  simulator = await startSimulator({ token: 'secret' });
  const created = await call('POST', '/v0/rules', { rule: { destination: '10.0.0.0/8' } });
  expect(created).toMatchObject({ status: 201, body: { data: { action: 'drop', destination: '10.0.0.0/8' } } });
  expect(await call('POST', '/v0/rules', { rule: { destination: '10.1.0.0/16' } })).toEqual({
    status: 422,
    body: { errors: { destination: ['destination overlaps with an existing rule'] } },
  });
  const id = simulator.rules()[0]?.id ?? '';
  expect(simulator.filter.verdict({ user: null, destination: '10.2.3.4', protocol: 'icmp' })).toBe('drop');
  expect(await call('PATCH', `/v0/rules/${id}`, { rule: { action: 'accept' } })).toMatchObject({
    status: 200,
    body: { data: { action: 'accept' } },
  });
  expect(simulator.filter.verdict({ user: null, destination: '10.2.3.4', protocol: 'icmp' })).toBe('drop');
  expect(await call('DELETE', `/v0/rules/${id}`)).toEqual({ status: 204, body: null });
  expect(await call('GET', '/v0/rules')).toEqual({ status: 200, body: { data: [] } });
  expect(simulator.requests().map(({ method, status }) => `${method} ${status}`)).toEqual([
    'POST 201',
    'POST 422',
    'PATCH 200',
    'DELETE 204',
    'GET 200',
  ]);
});

test('a request without the token is refused', async () => {
  simulator = await startSimulator({ token: 'other' });
  expect(await call('GET', '/v0/rules')).toEqual({ status: 401, body: { errors: { auth: 'invalid_token' } } });
});
