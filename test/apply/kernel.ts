import type { Enforcement } from '../../src/enforcement/report.ts';
import { reportUnreadable } from '../../src/enforcement/report.ts';
import type { Simulator } from '../../src/simulator/server.ts';

/** What `--enforcement` sees of the simulator's filter, where rules change in action only: a table made anew at each crash. */
export function kernelOf(simulator: Simulator): Enforcement {
  return {
    check: async (live) => {
      const held = simulator.filter.elements().map((element) => `${element.rule} ${element.action}`);
      const asked = live.map(({ id, rule: { action } }) => `${id} ${action}`);
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
