import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Client, startClient } from '../client.ts';

let client: Client;
beforeEach(async () => {
  client = await startClient();
});
afterEach(() => client.simulator.close());

test('the 1,000th answer of a connection closes it, and no answer before', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { authorization: 'Bearer secret', accept: 'application/json' };
  const connection = (): Promise<string | undefined> =>
    new Promise((resolve, reject) => {
      const call = request(`${client.simulator.url}/v0/rules`, { agent, headers }, (response) => {
        response.resume();
        response.on('end', () => resolve(response.headers.connection));
      });
      call.on('error', reject);
      call.end();
    });
  const seen = new Map<string | undefined, number>();
  for (let number = 1; number <= 1_000; number++) {
    const said = await connection();
    if (said !== undefined) seen.set(said, number);
  }
  agent.destroy();
  expect([...seen]).toEqual([['close', 1_000]]);
});

test('of twenty equal rules created at once one is stored and nineteen are refused', async () => {
  const calls = Array.from({ length: 20 }, () =>
    client.call('POST', '/v0/rules', { rule: { destination: '10.0.0.0/8' } }),
  );
  const statuses = (await Promise.all(calls)).map(({ status }) => status).sort();
  expect(statuses).toEqual([201, ...new Array<number>(19).fill(422)]);
});

test('a client that asks for a tunnel and resets the connection does not end the simulator', async () => {
  const { hostname, port } = new URL(client.simulator.url);
  const tunnels = Array.from({ length: 100 }, async () => {
    const socket = connect(Number(port), hostname).on('error', () => {});
    socket.write('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', () => socket.resetAndDestroy());
    await once(socket, 'close');
  });
  await Promise.all(tunnels);
  expect(await client.call('GET', '/v0/rules')).toMatchObject({ status: 200 });
});
