import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareNetworks, type Network, parseNetwork } from '../../src/model/address.ts';
import { formatPortRange, parsePortRange } from '../../src/model/port-range.ts';
import { collides, type Rule, toWire } from '../../src/model/rule.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { startSimulator } from '../../src/simulator/server.ts';
import { runs } from '../property/runs.ts';

const USERS = ['a1520c4b-adc3-4574-932a-94461cf85c07', 'b9692cfa-f429-4ea6-947f-ad22d40fd18b'] as const;

/** Starts a server, lets the callback use it, and stops it. */
async function withSimulator(
  overlapConstraints: boolean,
  use: (post: Post, verdict: Verdict) => Promise<void>,
): Promise<void> {
  const users = USERS.map((id, index) => ({ name: `user${index}`, id }));
  const simulator = await startSimulator({ token: 'secret', users, overlapConstraints });
  const headers = { authorization: 'Bearer secret', accept: 'application/json', 'content-type': 'application/json' };
  const post: Post = async (rule) => {
    const answer = await fetch(`${simulator.url}/v0/rules`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ rule }),
    });
    await answer.text();
    const stored = simulator.rules().at(-1);
    return { status: answer.status, stored: answer.status === 201 ? stored : undefined };
  };
  try {
    await use(post, simulator.filter.verdict);
  } finally {
    await simulator.close();
  }
}

type Simulated = Awaited<ReturnType<typeof startSimulator>>;
type Verdict = Simulated['filter']['verdict'];
type Post = (rule: object) => Promise<{ status: number; stored: ReturnType<Simulated['rules']>[number] | undefined }>;

const group = fc.oneof(fc.constantFrom(0, 1, 0xffff), fc.integer({ min: 0, max: 0xffff }));
const hex = fc
  .array(group, { minLength: 8, maxLength: 8 })
  .map((groups) => groups.map((part) => part.toString(16)).join(':'));

/** Texts that people write, and near misses: short, octal, masks out of bounds, zones, ports. */
const addressText = fc
  .tuple(
    fc.oneof(
      fc.ipV4(),
      fc.ipV4Extended(),
      fc.ipV6(),
      hex,
      hex.map((text) => text.toUpperCase()),
      fc.ipV4().map((text) => `::ffff:${text}`),
      fc.constantFrom(
        '10.0.0.01',
        '1.2.3',
        '10',
        'fe80::1%eth0',
        '[::1]',
        '1.2.3.4:80',
        'example.com',
        '10.0.0.0-10.0.0.9',
      ),
    ),
    fc.oneof(
      fc.constant(''),
      fc.integer({ min: 0, max: 260 }).map((mask) => `/${mask}`),
      fc.constantFrom('/024', '/+8', '/', '/x'),
    ),
    fc.constantFrom('', ' '),
  )
  // The server prints a zone when the second group of fe80 or ff02 is not 0; nobody routes such addresses.
  .map(([address, mask, space]) => `${space}${address}${mask}${space}`)
  .filter((text) => !/^\s*(fe80|ff02):(?!0*:)/i.test(text));

/** Few networks, ports and users, so that most pairs meet. */
const rule: fc.Arbitrary<Rule> = fc.record({
  userId: fc.constantFrom(null, ...USERS),
  action: fc.constantFrom('accept', 'drop'),
  destination: fc
    .constantFrom(
      '10.0.0.0/8',
      '10.1.0.0/16',
      '10.1.1.1',
      '10.2.0.0/15',
      '::/0',
      '2001:db8::/32',
      '::ffff:10.1.1.1',
      '0.0.0.0/0',
    )
    .map(networkOf),
  ports: fc.option(
    fc
      .tuple(
        fc.constantFrom('tcp' as const, 'udp' as const),
        fc.integer({ min: 79, max: 83 }),
        fc.integer({ min: 0, max: 3 }),
      )
      .map(([type, low, more]) => ({ type, low, high: low + more })),
  ),
});

function networkOf(text: string): Network {
  const parsed = parseNetwork(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.error}`);
  return parsed.value.network;
}

describe('the model and the simulator, written apart, agree', () => {
  test('what the model takes for a network is stored as that network, and no other text is stored as it was meant', async () => {
    await withSimulator(false, async (post) => {
      await fc.assert(
        fc.asyncProperty(addressText, async (destination) => {
          const parsed = parseNetwork(destination);
          const { status, stored } = await post({ destination });
          if (!parsed.ok) {
            // Refused by the server too, or changed by it in silence.
            const shown = stored?.destination;
            expect(shown === undefined || shown !== destination.trim()).toBe(true);
            return;
          }
          expect(status).toBe(201);
          expect(compareNetworks(networkOf(stored?.destination ?? ''), parsed.value.network)).toBe(0);
          const { stored: again } = await post({ destination: parsed.value.network.text });
          expect(again?.destination).toBe(parsed.value.network.text);
        }),
        { numRuns: runs(500) },
      );
    });
  });

  test('what the model takes for a port range is stored as that range', async () => {
    const text = fc.oneof(
      fc.integer({ min: 0, max: 65_536 }).map(String),
      fc
        .tuple(
          fc.integer({ min: 0, max: 65_536 }),
          fc.constantFrom('-', ' - ', ' -', ':', ','),
          fc.integer({ min: 0, max: 65_536 }),
        )
        .map((parts) => parts.join('')),
      fc.string({ unit: fc.constantFrom(...'0189- ,:abx+/'.split('')), maxLength: 8 }),
    );
    await withSimulator(false, async (post) => {
      await fc.assert(
        fc.asyncProperty(text, async (port_range) => {
          const parsed = parsePortRange(port_range, { low: 1, high: 65_534 });
          const { stored } = await post({ destination: '10.0.0.1', port_type: 'tcp', port_range });
          if (parsed.ok) expect(stored?.port_range).toBe(formatPortRange(parsed.value));
          else expect(stored === undefined || stored.port_range !== port_range).toBe(true);
        }),
        { numRuns: runs(500) },
      );
    });
  });

  test('the server refuses exactly the rules that the model says collide', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(rule, { maxLength: 12 }), async (rules) => {
        await withSimulator(true, async (post) => {
          const held: Rule[] = [];
          for (const item of rules) {
            const expected = held.some((other) => collides(item, other)) ? 422 : 201;
            expect((await post(toWire(item))).status).toBe(expected);
            if (expected === 201) held.push(item);
          }
        });
      }),
      { numRuns: runs(100) },
    );
  });

  test('the filter decides about each packet as the policy engine does', async () => {
    const packet = fc.record({
      user: fc.constantFrom(null, ...USERS, '11111111-2222-3333-4444-555555555555'),
      destination: fc.constantFrom(
        '10.1.1.1',
        '10.1.2.3',
        '10.3.0.1',
        '192.0.2.1',
        '2001:db8::1',
        '::ffff:10.1.1.1',
        '::1',
      ),
      protocol: fc.constantFrom('tcp' as const, 'udp' as const, 'other' as const),
      port: fc.integer({ min: 78, max: 87 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(rule, { maxLength: 10 }),
        fc.array(packet, { minLength: 20, maxLength: 20 }),
        async (rules, packets) => {
          await withSimulator(false, async (post, verdict) => {
            for (const item of rules) await post(toWire(item));
            const index = indexRules(rules.map((item) => ({ rule: item })));
            for (const { destination, ...rest } of packets) {
              const expected = decide(index, { ...rest, address: networkOf(destination) }).verdict;
              expect(verdict({ ...rest, destination })).toBe(expected);
            }
          });
        },
      ),
      { numRuns: runs(100) },
    );
  });
});
