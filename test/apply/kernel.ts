import { expect } from 'vitest';
import type { Enforcement } from '../../src/enforcement/report.ts';
import { reportUnreadable } from '../../src/enforcement/report.ts';
import type { Rule } from '../../src/model/rule.ts';
import { formatNetwork } from '../../src/simulator/rules/inet.ts';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { seedOf } from '../property/apply-universe.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { rule, token } from './support.ts';

/** What `--enforcement` sees of the simulator's filter, where rules have no ports: a table made anew at each crash. */
export function kernelOf(simulator: Simulator): Enforcement {
  return {
    check: async (live) => {
      const held = simulator.filter
        .elements()
        .map(({ id, action, network }) => `${id} ${action} ${formatNetwork(network)}`);
      const asked = live.map(({ id, rule: { action, destination } }) => `${id} ${action} ${destination.text}`);
      const state = held.sort().join() === asked.sort().join() ? 'enforced' : 'differs';
      return {
        ...reportUnreadable('', live.length),
        message: null,
        state,
        tableHandle: simulator.filter.state().crashes,
      };
    },
  };
}

/** A server whose packet filter follows at a rate, in time that costs none. */
export interface World {
  readonly simulator: Simulator;
  readonly clock: FakeClock;
  /** Changes the rules in place, which the filter does not see. */
  patch(lines: readonly string[], fields: object): Promise<void>;
}

/** A server whose packet filter follows so many rules a second, and holds all of them when the body starts. */
export async function withFilter(
  filterRate: number,
  live: readonly Rule[],
  body: (world: World) => Promise<void>,
): Promise<void> {
  const clock = createFakeClock();
  const simulator = await startSimulator({
    token,
    filterRate,
    filterTime: { now: () => clock.now(), schedule: () => () => {} },
  });
  try {
    simulator.seed(live.map(seedOf));
    await clock.sleep(60_000);
    const patch: World['patch'] = async (lines, fields) => {
      for (const line of lines) {
        const [action, destination] = line.split(' ');
        const found = simulator.rules().find((one) => one.action === action && one.destination === destination);
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
        const url = `${simulator.url}/v0/rules/${found?.id}`;
        const answer = await fetch(url, { method: 'PATCH', headers, body: JSON.stringify({ rule: fields }) });
        expect(answer.status).toBe(200);
      }
    };
    await body({ simulator, clock, patch });
  } finally {
    await simulator.close();
  }
}

/** Hosts that collide with nothing, in a network of their own. */
export function many(count: number, net: number): readonly Rule[] {
  return Array.from({ length: count }, (_, index) => rule(`drop 10.${net}.${index >> 8}.${index & 255}`));
}
