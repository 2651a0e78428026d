import { afterEach, describe, expect, test } from 'vitest';
import type { FilterPacket } from '../../src/simulator/filter/filter.ts';
import type { RuleSeed } from '../../src/simulator/rules/rule.ts';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { isObject, USERS } from './mapping.ts';
import { load } from './recorded.ts';

let simulator: Simulator;
afterEach(() => simulator.close());

const SENDERS: Readonly<Record<string, { user: string | null; destination: string }>> = {
  alice_dev: { user: USERS.alice, destination: '192.0.2.2' },
  other_dev: { user: null, destination: '192.0.2.2' },
  v6: { user: null, destination: '2001:db8:f::2' },
};

/** The packet that a recorded column stands for: `tcp80`, `icmp`, `tcp80_198.51.100.1`. */
function packetOf(sender: string, column: string): FilterPacket {
  const { user, destination } = SENDERS[sender] ?? { user: null, destination: '' };
  const match = /^(tcp|udp|icmp)(\d*)(?:_(.+))?$/.exec(column);
  const port = match?.[2] ? { port: Number(match[2]) } : {};
  return {
    user,
    destination: match?.[3] ?? destination,
    protocol: (match?.[1] ?? 'other') as FilterPacket['protocol'],
    ...port,
  };
}

describe('packet_filter_verdicts: what happened to real packets', () => {
  for (const { step, observation } of load('packet_filter_verdicts')) {
    test(`${step} lets the same packets pass`, async () => {
      simulator = await startSimulator({ token: 'x', users: [{ name: 'alice', id: USERS.alice }] });
      const { rules, verdicts } = observation as {
        rules: RuleSeed[];
        verdicts: Record<string, Record<string, string>>;
      };
      simulator.seed(rules);
      const actual = Object.entries(verdicts).map(([sender, columns]) => {
        const seen = Object.keys(columns).map((column) => {
          const verdict = simulator.filter.verdict(packetOf(sender, column));
          return [column, verdict === 'accept' ? 'pass' : 'dropped'];
        });
        return [sender, Object.fromEntries(seen)];
      });
      expect(isObject(verdicts) && Object.keys(verdicts).length).toBeGreaterThan(0);
      expect(Object.fromEntries(actual)).toEqual(verdicts);
    });
  }
});
