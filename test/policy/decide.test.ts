import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePortRange } from '../../src/model/port-range.ts';
import type { Rule } from '../../src/model/rule.ts';
import type { Protocol } from '../../src/model/state.ts';
import { decide } from '../../src/policy/decide-packet.ts';
import { indexRules } from '../../src/policy/rule-index.ts';
import { getRank, matches } from '../../src/policy/verdict.ts';
import { load } from '../contract/recorded.ts';
import { runs } from '../property/runs.ts';
import {
  accepts,
  decidingRank,
  networkNamed,
  packetKey,
  packets,
  rulesArbitrary,
  stranger,
  users,
} from './universe.ts';

interface RecordedRule {
  readonly destination: string;
  readonly action?: 'accept' | 'drop';
  readonly port_type?: 'tcp' | 'udp';
  readonly port_range?: string;
  readonly user_id?: string;
}

interface Observation {
  readonly rules: readonly RecordedRule[];
  readonly verdicts: Readonly<Record<string, Readonly<Record<string, 'pass' | 'dropped'>>>>;
}

/** The user whose device `alice_dev` is; the other devices belong to nobody named in a rule. */
const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';

function ruleOf({ destination, action, port_type, port_range, user_id }: RecordedRule): Rule {
  const range = port_range === undefined ? null : parsePortRange(port_range, { low: 1, high: 65_534 });
  const ports = range?.ok === true && port_type !== undefined ? { type: port_type, ...range.value } : null;
  return { action: action ?? 'drop', destination: networkNamed(destination), ports, userId: user_id ?? null };
}

/** `tcp80_198.51.100.1` is tcp to port 80 of that address; without one, of the target of the recording. */
function packetOf(device: string, probe: string) {
  const parsed = /^(tcp|udp|icmp)([0-9]*)(?:_(.+))?$/.exec(probe);
  const target = parsed?.[3] ?? (device === 'v6' ? '2001:db8:f::2' : '192.0.2.2');
  const protocol: Protocol = parsed?.[1] === 'icmp' ? 'other' : (parsed?.[1] as 'tcp' | 'udp');
  const user = device === 'alice_dev' ? alice : null;
  return { user, address: networkNamed(target), protocol, port: Number(parsed?.[2] ?? 0) };
}

describe('decide', () => {
  for (const { step, observation } of load('packet_filter_verdicts')) {
    const { rules, verdicts } = observation as Observation;
    it(`gives every packet of the recording ${step} the verdict of the real packet filter`, () => {
      const index = indexRules(rules.map((rule) => ({ rule: ruleOf(rule) })));
      for (const [device, probes] of Object.entries(verdicts)) {
        for (const [probe, seen] of Object.entries(probes)) {
          const { verdict } = decide(index, packetOf(device, probe));
          expect([device, probe, verdict]).toEqual([device, probe, seen === 'pass' ? 'accept' : 'drop']);
        }
      }
    });
  }

  it('agrees with trying every rule, and names the deciding rule and all others that match', () => {
    fc.assert(
      fc.property(rulesArbitrary, (rules) => {
        const index = indexRules(rules.map((rule) => ({ rule })));
        const wrong: string[] = [];
        for (const packet of packets([null, ...users, stranger])) {
          const { verdict, rule, overridden } = decide(index, packet);
          const matching = rule === null ? [] : [rule, ...overridden];
          const complete =
            new Set(matching).size === matching.length &&
            matching.length === rules.filter((one) => matches(one, packet)).length &&
            matching.every((one) => matches(one.rule, packet));
          const right =
            verdict === (accepts(rules, packet) ? 'accept' : 'drop') &&
            (rule === null ? 8 : getRank(rule.rule)) === decidingRank(rules, packet);
          if (!complete || !right) wrong.push(packetKey(packet));
        }
        expect(wrong).toEqual([]);
      }),
      { numRuns: runs(5000) },
    );
  });
});
