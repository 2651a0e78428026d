import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Client, startClient } from './client.ts';

let client: Client;
beforeEach(async () => {
  client = await startClient();
});
afterEach(() => client.simulator.close());

const rule = { rule: { destination: '10.0.0.0/8' } };
const stored = (): number => client.simulator.rules().length;

test('a status fault answers without doing anything, as often as it was told to', async () => {
  const { faults } = client.simulator;
  faults.inject({
    match: { method: 'POST', path: '/v0/rules', times: 2 },
    fault: { kind: 'status', status: 429, headers: { 'retry-after': '3' }, body: '{"error":"slow down"}' },
  });
  expect(await client.call('POST', '/v0/rules', rule)).toEqual({ status: 429, body: { error: 'slow down' } });
  expect((await client.call('POST', '/v0/rules', rule)).status).toBe(429);
  expect(stored()).toBe(0);
  expect((await client.call('POST', '/v0/rules', rule)).status).toBe(201);
  expect(faults.list()).toMatchObject([{ seen: 3, applied: 2 }]);
});

test('a status fault with commit answers wrongly after the work was done', async () => {
  client.simulator.faults.inject({ fault: { kind: 'status', status: 500, commit: true } });
  expect((await client.call('POST', '/v0/rules', rule)).status).toBe(500);
  expect(stored()).toBe(1);
});

test('a reset before the commit leaves nothing behind, a reset after it leaves the rule', async () => {
  const { faults } = client.simulator;
  faults.inject({ match: { times: 1 }, fault: { kind: 'reset-before' } });
  await expect(client.call('POST', '/v0/rules', rule)).rejects.toThrow();
  expect(stored()).toBe(0);
  faults.inject({ match: { times: 1 }, fault: { kind: 'reset-after' } });
  await expect(client.call('POST', '/v0/rules', rule)).rejects.toThrow();
  expect(stored()).toBe(1);
});

test('a torn answer ends in the middle of its body', async () => {
  client.simulator.faults.inject({ match: { method: 'GET' }, fault: { kind: 'torn' } });
  await expect(client.call('GET', '/v0/configuration')).rejects.toThrow();
});

test('a lost answer never comes, though the request took effect', async () => {
  client.simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'lost-answer' } });
  const effect = new Promise<void>((resolve) => client.simulator.onCall(() => resolve()));
  const answer = client.call('POST', '/v0/rules', rule).then(
    () => 'answered',
    () => 'cut off',
  );
  await effect;
  expect(stored()).toBe(1);
  await client.simulator.close();
  expect(await answer).toBe('cut off');
});

test('a stale list shows the rules as they were when the fault was set', async () => {
  client.simulator.faults.inject({ fault: { kind: 'stale-list' } });
  await client.call('POST', '/v0/rules', rule);
  expect((await client.call('GET', '/v0/rules')).body).toEqual({ data: [] });
  client.simulator.faults.clear();
  expect((await client.call('GET', '/v0/rules')).body).toMatchObject({ data: [{ destination: '10.0.0.0/8' }] });
});

test('a delayed request takes effect later, and the ones after it do not wait', async () => {
  const { faults } = client.simulator;
  faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'delay', milliseconds: 50 } });
  const late = client.call('POST', '/v0/rules', rule);
  expect((await client.call('GET', '/v0/rules')).body).toEqual({ data: [] });
  expect((await late).status).toBe(201);
});

test('nth and probability choose among the matching requests', async () => {
  await client.simulator.close();
  const draws = [0.9, 0.1];
  client = await startClient({ random: () => draws.shift() ?? 1 });
  client.simulator.faults.inject({ match: { nth: 2, probability: 0.5 }, fault: { kind: 'status', status: 503 } });
  const statuses = [];
  for (const _ of [1, 2, 3, 4]) statuses.push((await client.call('GET', '/v0/rules')).status);
  expect(statuses).toEqual([200, 200, 503, 200]);
});
