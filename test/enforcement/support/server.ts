import { setTimeout as wait } from 'node:timers/promises';
import { createNftEnforcement } from '../../../src/adapters/enforcement/nft.ts';
import { collectRuleNames, type EnforcementReport } from '../../../src/enforcement/report.ts';
import { decodeLiveRules } from '../../../src/live/live-rules.ts';
import type { DesiredRule, LiveRule } from '../../../src/model/rule.ts';
import { type Simulator, startSimulator } from '../../../src/simulator/server.ts';
import { pathOf } from './namespace.ts';

export const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
export const bob = 'b9692cfa-f429-4ea6-947f-ad22d40fd18b';
export const token = 'enforcement-test-token';

export interface KernelServerOptions {
  readonly rate?: number;
  readonly devices?: ReadonlyMap<string, readonly string[]>;
}

/** A simulator whose packet filter is the real table of a namespace, and the check of that table. */
export interface KernelServer {
  readonly simulator: Simulator;
  readonly live: () => Promise<readonly LiveRule[]>;
  readonly check: (desired?: readonly DesiredRule[]) => Promise<EnforcementReport>;
  readonly call: (method: string, path: string, body?: unknown) => Promise<Response>;
  /** Waits until the filter has carried out all that it was told. */
  readonly settled: () => Promise<void>;
}

/** Starts it, with the users alice and bob. */
export async function startKernelServer(
  netns: string,
  { rate, ...options }: KernelServerOptions = {},
): Promise<KernelServer> {
  const simulator = await startSimulator({
    token,
    users: [
      { name: 'alice', id: alice },
      { name: 'bob', id: bob },
    ],
    nft: { netns: pathOf(netns), ...options },
    ...(rate === undefined ? {} : { filterRate: rate }),
  });
  const enforcement = createNftEnforcement({ netns: pathOf(netns), timeoutMs: 10_000 });
  const call = (method: string, path: string, body?: unknown): Promise<Response> =>
    fetch(`${simulator.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, accept: 'application/json', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const live = async (): Promise<readonly LiveRule[]> => {
    const rules = decodeLiveRules(await (await call('GET', '/v0/rules')).json());
    if (!rules.ok) throw new Error(rules.error);
    return rules.value;
  };
  return {
    simulator,
    live,
    call,
    check: async (desired = []) =>
      enforcement.check(await live(), collectRuleNames(desired), new AbortController().signal),
    settled: () =>
      until(() => {
        const { pending, rebuilding } = simulator.filter.state();
        return pending === 0 && !rebuilding;
      }),
  };
}

/** Waits for a condition, at most 20 s. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 20_000;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error('the condition did not come true within 20 s');
    await wait(10);
  }
}
