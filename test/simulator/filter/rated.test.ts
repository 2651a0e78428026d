import { afterEach, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../../../src/simulator/server.ts';

let simulator: Simulator | undefined;
afterEach(async () => {
  await simulator?.close();
  simulator = undefined;
});

const ALICE = 'a1520c4b-adc3-4574-932a-94461cf85c07';
const TIMERS = { now: () => time, schedule: () => () => {} };
let time = 0;

/** A server whose filter follows at a rate, by a clock that stands still until it is told to go on. */
async function begin(filterRate: number): Promise<Simulator> {
  time = 0;
  simulator = await startSimulator({
    token: 'secret',
    users: [{ name: 'alice', id: ALICE }],
    filterRate,
    filterTime: TIMERS,
  });
  return simulator;
}

async function call(method: string, path: string, rule?: object): Promise<string> {
  const response = await fetch(`${simulator?.url ?? ''}${path}`, {
    method,
    headers: { authorization: 'Bearer secret', accept: 'application/json', 'content-type': 'application/json' },
    ...(rule === undefined ? {} : { body: JSON.stringify({ rule }) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return response.status === 201 ? (JSON.parse(text) as { data: { id: string } }).data.id : '';
}

const drops = (destination: string): boolean =>
  simulator?.filter.verdict({ user: null, destination, protocol: 'other' }) === 'drop';
const held = (): number => simulator?.filter.elements().length ?? -1;

/** One POST, PATCH, DELETE of a rule: what makes the kernel refuse the deletion. */
async function crashOnce(number: number): Promise<void> {
  const id = await call('POST', '/v0/rules', { destination: `10.${number}.0.0/16` });
  time += 100;
  await call('PATCH', `/v0/rules/${id}`, { destination: `10.${100 + number}.0.0/16` });
  await call('DELETE', `/v0/rules/${id}`);
}

test('inserts reach the filter one after the other, at the rate', async () => {
  await begin(10);
  for (const third of [1, 2, 3]) await call('POST', '/v0/rules', { destination: `10.0.${third}.0/24` });
  expect(held()).toBe(0);
  time += 100;
  expect(held()).toBe(1);
  expect(drops('10.0.1.1')).toBe(true);
  expect(drops('10.0.2.1')).toBe(false);
  expect(simulator?.filter.state().pending).toBe(2);
  time += 200;
  expect(held()).toBe(3);
});

test('an update never reaches the filter, and deleting the updated rule makes it crash and rebuild from the database', async () => {
  await begin(10);
  const id = await call('POST', '/v0/rules', { destination: '10.1.0.0/16' });
  await call('POST', '/v0/rules', { destination: '10.9.0.0/16' });
  time += 200;
  await call('PATCH', `/v0/rules/${id}`, { destination: '10.2.0.0/16' });
  time += 1_000;
  expect([drops('10.1.0.1'), drops('10.2.0.1')]).toEqual([true, false]);
  await call('DELETE', `/v0/rules/${id}`);
  time += 200;
  expect(simulator?.filter.state()).toMatchObject({ crashes: 1, rebuilding: true });
  expect(drops('10.9.0.1')).toBe(false);
  time += 100;
  expect([drops('10.9.0.1'), drops('10.1.0.1'), held()]).toEqual([true, false, 1]);
});

test('an element like a stale one is taken, one that overlaps it crashes the filter', async () => {
  await begin(10);
  const id = await call('POST', '/v0/rules', { destination: '10.1.0.0/16' });
  time += 100;
  await call('PATCH', `/v0/rules/${id}`, { destination: '10.200.0.0/16' });
  await call('POST', '/v0/rules', { destination: '10.1.0.0/16' });
  time += 100;
  expect(simulator?.filter.state().crashes).toBe(0);
  const other = simulator?.rules().find((rule) => rule.destination === '10.1.0.0/16')?.id ?? '';
  await call('PATCH', `/v0/rules/${other}`, { destination: '10.201.0.0/16' });
  await call('POST', '/v0/rules', { destination: '10.0.0.0/12' });
  time += 100;
  expect(simulator?.filter.state().crashes).toBe(1);
  time += 300;
  expect(held()).toBe(3);
});

test('all but the first of what is inserted while a rebuild takes longer than 5 s never reach the filter', async () => {
  const server = await begin(100);
  server.seed(Array.from({ length: 1_000 }, (_, k) => ({ destination: `172.${16 + (k >> 8)}.${k & 255}.0/24` })));
  time += 10_000;
  expect(held()).toBe(1_000);
  const id = server.rules()[0]?.id ?? '';
  await call('PATCH', `/v0/rules/${id}`, { destination: '192.0.2.0/24' });
  await call('DELETE', `/v0/rules/${id}`);
  time += 20;
  expect(server.filter.state().rebuilding).toBe(true);
  for (const k of Array.from({ length: 50 }).keys()) await call('POST', '/v0/rules', { destination: `10.0.${k}.0/24` });
  time += 5_010;
  expect(server.filter.state().lost).toHaveLength(49);
  time += 10_000;
  expect(server.filter.state()).toMatchObject({ rebuilding: false, pending: 0 });
  expect([server.rules().length, held()]).toEqual([1_049, 1_000]);
  // Deleting one of the missing ones crashes the filter once, and that repairs everything.
  await call('DELETE', `/v0/rules/${server.rules().find((rule) => rule.destination === '10.0.7.0/24')?.id ?? ''}`);
  time += 20_000;
  expect([server.rules().length, held()]).toEqual([1_048, 1_048]);
});

test('three crashes within 5 s are survived, the fourth ends the server', async () => {
  const server = await begin(1_000);
  for (const number of [1, 2, 3]) await crashOnce(number);
  time += 100;
  expect(server.filter.state().crashes).toBe(3);
  await crashOnce(4);
  time += 100;
  expect(server.filter.state().crashes).toBe(4);
  expect(await server.exited).toContain('crashed 4 times within 5 s');
  await expect(fetch(server.url)).rejects.toThrow();
});

test('four crashes over more than 5 s do not end the server', async () => {
  const server = await begin(1_000);
  for (const number of [1, 2, 3, 4]) {
    await crashOnce(number);
    time += 2_000;
  }
  expect(server.filter.state().crashes).toBe(4);
  expect((await fetch(server.url)).status).toBe(500);
});

test('deleting a user who owns a rule crashes the filter once; a rule that only was the user’s loses its element', async () => {
  const server = await begin(100);
  await call('POST', '/v0/rules', { destination: '10.1.0.0/16', user_id: ALICE });
  const global = await call('POST', '/v0/rules', { destination: '10.2.0.0/16' });
  time += 100;
  await call('DELETE', `/v0/users/${ALICE}`);
  time += 100;
  expect(server.filter.state().crashes).toBe(1);
  expect(server.filter.elements().map(({ id }) => id)).toEqual([global]);
});
