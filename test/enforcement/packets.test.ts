import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseNetwork } from '../../src/model/address.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { kernelUnavailable } from './support/namespace.ts';
import { layNetwork, type Probe, sendAll, type TestNetwork } from './support/network.ts';
import { alice, bob, type KernelServer, startKernelServer } from './support/server.ts';

const sources = new Map<string | null, readonly [string, string]>([
  [alice, ['10.66.0.11', 'fd66::11']],
  [bob, ['10.66.0.12', 'fd66::12']],
  [null, ['10.66.0.13', 'fd66::13']],
]);
const hosts = [0, 1, 2, 3, 4, 5, 6, 7];
const v4 = hosts.map((host) => `192.0.2.${host + 8}`);
const v6 = hosts.map((host) => `2001:db8:f::${host + 8}`);

/** Few addresses, few ports, so that rules meet packets and one another. */
const rule = fc.record({
  action: fc.constantFrom('accept', 'drop', 'drop', 'drop'),
  destination: fc.oneof(
    fc.record({ host: fc.constantFrom(...v4), prefix: fc.constantFrom(29, 29, 30, 31, 32) }),
    fc.record({ host: fc.constantFrom(...v6), prefix: fc.constantFrom(125, 125, 126, 127, 128) }),
  ),
  user: fc.constantFrom(null, null, alice, bob),
  ports: fc.option(
    fc.record({ type: fc.constantFrom('tcp', 'udp'), low: fc.integer({ min: 1, max: 6 }), more: fc.nat(4) }),
  ),
});

const packet = fc.record({
  user: fc.constantFrom(null, alice, bob),
  host: fc.constantFrom(...hosts),
  six: fc.boolean(),
  protocol: fc.constantFrom('tcp' as const, 'udp' as const, 'other' as const),
  port: fc.integer({ min: 1, max: 10 }),
});

type RandomRule = typeof rule extends fc.Arbitrary<infer T> ? T : never;
type RandomPacket = typeof packet extends fc.Arbitrary<infer T> ? T : never;

const title = `real packets through three namespaces${kernelUnavailable === null ? '' : ` (skipped: ${kernelUnavailable})`}`;
const policies = 5;
const packetsEach = 48;

describe.skipIf(kernelUnavailable !== null)(title, () => {
  let network: TestNetwork;
  let server: KernelServer;

  beforeAll(async () => {
    const all = [...sources.values()].flat();
    network = layNetwork(all, [...v4, ...v6]);
    const devices = new Map([...sources].flatMap(([user, addresses]) => (user === null ? [] : [[user, addresses]])));
    server = await startKernelServer(network.server, { devices });
    await server.settled();
  });

  afterAll(async () => {
    await server?.simulator.close();
    network?.close();
  });

  async function replacePolicy(rules: readonly RandomRule[]): Promise<void> {
    for (const { id } of await server.live()) await server.call('DELETE', `/v0/rules/${id}`);
    for (const { action, destination, user, ports } of rules) {
      await server.call('POST', '/v0/rules', {
        rule: {
          action,
          destination: `${destination.host}/${destination.prefix}`,
          user_id: user,
          port_type: ports?.type ?? null,
          port_range: ports === null ? null : `${ports.low} - ${ports.low + ports.more}`,
        },
      });
    }
    await server.settled();
  }

  it(`get the verdict that the policy foretells, in ${policies * packetsEach} random cases (long)`, async () => {
    const seed = Number(process.env['RECONCILE_SEED'] ?? 20_261_121);
    const cases = fc.sample(
      fc.tuple(
        fc.array(rule, { minLength: 10, maxLength: 40 }),
        fc.array(packet, { minLength: packetsEach, maxLength: packetsEach }),
      ),
      { numRuns: policies, seed },
    );
    let dropped = 0;
    for (const [rules, packets] of cases) {
      await replacePolicy(rules);
      expect((await server.check()).state).toBe('enforced');
      const index = indexRules(await server.live());
      const probes = packets.map(probeOf);
      const passed = await sendAll(network, probes);
      for (const [i, { user, protocol, port }] of packets.entries()) {
        const address = parseNetwork(probes[i]?.destination ?? '');
        if (!address.ok) throw new Error('not an address');
        const foretold = decide(index, { user, protocol, port, address: address.value.network }).verdict;
        if (foretold === 'drop') dropped++;
        expect({ packet: probes[i], verdict: passed[i] === true ? 'accept' : 'drop', seed }).toEqual({
          packet: probes[i],
          verdict: foretold,
          seed,
        });
      }
    }
    expect(dropped).toBeGreaterThan(40);
    expect(dropped).toBeLessThan(policies * packetsEach - 40);
  }, 120_000);
});

function probeOf({ user, host, six, protocol, port }: RandomPacket): Probe {
  const source = sources.get(user)?.[six ? 1 : 0] ?? '';
  return { protocol, source, destination: (six ? v6 : v4)[host] ?? '', port };
}
