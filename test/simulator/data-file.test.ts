import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Client, startClient } from './client.ts';

let directory: string;
let dataFile: string;
let client: Client | undefined;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'simulator-'));
  dataFile = join(directory, 'data');
});
afterEach(async () => {
  await client?.simulator.close();
  client = undefined;
  rmSync(directory, { recursive: true });
});

async function restart(options: Parameters<typeof startClient>[0] = {}): Promise<Client> {
  await client?.simulator.close();
  client = await startClient({ dataFile, ...options });
  return client;
}

const all = ({ simulator }: Client): unknown => [simulator.rules(), simulator.users(), simulator.configuration()];

test('rules, users and the configuration are the same after a restart', async () => {
  const first = await restart();
  await first.call('POST', '/v0/users', { user: { email: 'carol@example.test' } });
  const user_id = first.simulator.users().at(-1)?.id;
  await first.call('POST', '/v0/rules', { rule: { destination: '10.1.2.3/32', user_id } });
  await first.call('POST', '/v0/rules', {
    rule: { destination: '2001:db8::1/64', port_type: 'udp', port_range: '53' },
  });
  await first.call('POST', '/v0/rules', { rule: { destination: '11.0.0.0/8' } });
  const [patched, deleted] = first.simulator.rules().map(({ id }) => id);
  await first.call('PATCH', `/v0/rules/${patched}`, { rule: { action: 'accept' } });
  await first.call('DELETE', `/v0/rules/${deleted}`);
  const configuration = {
    default_client_allowed_ips: ['10.0.0.1/32', null],
    logo: { url: 'https://e.test/x.png' },
    default_client_mtu: null,
  };
  expect((await first.call('PATCH', '/v0/configuration', { configuration })).status).toBe(200);
  const before = all(first);
  expect(all(await restart())).toEqual(before);
  expect(all(await restart())).toEqual(before);
});

test('overlaps are still refused after a restart, and the filter holds the rules', async () => {
  await (await restart()).call('POST', '/v0/rules', { rule: { destination: '10.0.0.0/8' } });
  const { call, simulator } = await restart();
  expect((await call('POST', '/v0/rules', { rule: { destination: '10.1.0.0/16' } })).status).toBe(422);
  expect(simulator.filter.verdict({ user: null, destination: '10.1.1.1', protocol: 'icmp' })).toBe('drop');
});

test('a last line that was cut off is left out, other damage is refused with its place', async () => {
  const { call } = await restart();
  await call('POST', '/v0/rules', { rule: { destination: '10.0.0.0/8' } });
  await client?.simulator.close();
  appendFileSync(dataFile, '{"rule":{"action":"dr');
  expect((await restart()).simulator.rules()).toHaveLength(1);
  await client?.simulator.close();
  client = undefined;
  writeFileSync(dataFile, `{"rule":\n${readFileSync(dataFile, 'utf8')}`);
  await expect(restart()).rejects.toThrow(`${dataFile}:1: not a line`);
});

test('a rule whose ports are no ports is refused, not held as one for every port', async () => {
  const { call } = await restart();
  await call('POST', '/v0/rules', { rule: { destination: '10.0.0.0/8', port_type: 'tcp', port_range: '443' } });
  await client?.simulator.close();
  client = undefined;
  writeFileSync(dataFile, readFileSync(dataFile, 'utf8').replace('"443"', '"99999"'));
  await expect(restart()).rejects.toThrow(`${dataFile}:3: not a line`);
});

test('a file in which most lines are out of date is written anew (long)', async () => {
  const { call, simulator } = await restart();
  const [id] = simulator.seed([{ destination: '10.0.0.0/8' }]);
  for (let k = 0; k < 1_100; k++)
    await call('PATCH', `/v0/rules/${id}`, { rule: { destination: `10.0.0.${k % 250}` } });
  const lines = readFileSync(dataFile, 'utf8').split('\n').length;
  expect(lines).toBeLessThan(300);
  expect(statSync(dataFile).mode & 0o777).toBe(0o600);
});

test('a user to begin with who was deleted stays deleted, whatever restarts and compactions follow', async () => {
  const dave = { name: 'dave', id: '61144798-3070-4781-b8cc-48a3ca03472e' };
  const names = ({ simulator }: Client): unknown => simulator.users().map(({ email }) => email);
  const first = await restart({ users: [dave] });
  await first.call('POST', '/v0/users', { user: { email: 'carol@example.test' } });
  expect((await first.call('DELETE', `/v0/users/${dave.id}`)).status).toBe(204);
  const left = names(first);
  for (let count = 0; count < 3; count++) expect(names(await restart({ users: [dave] }))).toEqual(left);
});

test('a user is deleted also when the deletion is what makes the file be written anew', async () => {
  const first = await restart();
  await first.call('POST', '/v0/users', { user: { email: 'carol@example.test' } });
  const id = first.simulator.users().at(-1)?.id;
  const write = (): boolean => {
    const before = statSync(dataFile).size;
    first.simulator.seed([{ destination: '10.0.0.0/8', id: '61144798-3070-4781-b8cc-48a3ca03472e' }]);
    return statSync(dataFile).size > before;
  };
  const fill = (): number => (write() ? 1 + fill() : 0);
  fill();
  for (let left = fill(); left > 0; left--) write();
  await first.call('DELETE', `/v0/users/${id}`);
  expect(statSync(dataFile).size).toBeLessThan(5_000);
  expect((await restart()).simulator.users()).toHaveLength(1);
});
