import { afterEach, describe, expect, test } from 'vitest';
import { findOpenGaps } from '../../src/apply/open-gaps.ts';
import { findProfile } from '../../src/model/profile.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import type { JournalEntry, LiveApi } from '../../src/ports.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';
import { createFakeClock } from './fake-clock.ts';
import { desiredState, quiet, rule, testRun, token } from './support.ts';

/** What all writes share, shown for each of them: they once had a loop each, and the copies had drifted. */

let simulator: Simulator;

afterEach(() => simulator.close());

interface Sent {
  readonly method: string;
  readonly at: number;
}

/** A server and a plan whose first write is of that kind, and which has one more create to send after it. */
interface World {
  readonly kind: string;
  readonly server: Partial<SimulatorOptions>;
  readonly live: readonly { readonly action: 'accept' | 'drop'; readonly destination: string }[];
  readonly wanted: readonly string[];
  readonly mtu?: number;
  /** The request that is tampered with. */
  readonly method: string;
  readonly nth: number;
}

const later = 'accept 11.0.0.0/8';
const live = [{ action: 'drop', destination: '10.0.0.0/24' }] as const;
const patched = { overlapConstraints: false };
const worlds: readonly World[] = [
  { kind: 'a create', server: {}, live: [], wanted: ['drop 10.0.0.0/8', later], method: 'POST', nth: 1 },
  { kind: 'an update', server: patched, live, wanted: ['drop 10.0.0.0/16', later], method: 'PATCH', nth: 1 },
  {
    kind: 'a set-back',
    server: { ...patched, portRules: false },
    live: [...live, { action: 'accept', destination: '10.9.0.0/24' }],
    wanted: ['drop 10.0.0.0/16 tcp 80'],
    method: 'PATCH',
    nth: 2,
  },
  {
    kind: 'a delete',
    server: {},
    live: [...live, { ...live[0], destination: '10.0.1.0/24' }],
    wanted: [],
    method: 'DELETE',
    nth: 1,
  },
  { kind: 'the Configuration', server: {}, live: [], wanted: [later], mtu: 1300, method: 'PATCH', nth: 1 },
];

async function run(world: World, fault: { readonly status: number; readonly headers?: Record<string, string> }) {
  simulator = await startSimulator({ token, users: [], ...world.server });
  simulator.seed(world.live);
  const clock = createFakeClock();
  const sent: Sent[] = [];
  const note = (method: string): void => void sent.push({ method, at: clock.now() });
  const wrap = (api: LiveApi): LiveApi => ({
    ...api,
    createRule: (wire, signal) => {
      note('POST');
      return api.createRule(wire, signal);
    },
    updateRule: (id, fields, signal) => {
      note('PATCH');
      return api.updateRule(id, fields, signal);
    },
    deleteRule: (id, signal) => {
      note('DELETE');
      return api.deleteRule(id, signal);
    },
    updateConfiguration: (body, signal) => {
      note('PATCH');
      return api.updateConfiguration(body, signal);
    },
  });
  const fields = world.mtu === undefined ? null : { default_client_mtu: world.mtu };
  const profile = findProfile(world.server.overlapConstraints === false ? 'generic' : 'firezone-0.7');
  const one = testRun(simulator.url, desiredState(world.wanted.map(rule), fields), {
    clock,
    wrap,
    profile,
    limits: { concurrency: 1 },
  });
  const plan = await one.plan();
  const { method, nth } = world;
  simulator.faults.inject({ match: { method, nth, times: 1 }, fault: { kind: 'status', ...fault } });
  const report = await one.apply(plan);
  await one.close();
  const hit = sent.filter((each) => each.method === method)[nth - 1];
  const after = sent.slice(hit === undefined ? 0 : sent.indexOf(hit) + 1);
  return { report, hit, after };
}

describe.each(worlds)('$kind', (world) => {
  test('that the server limits makes all other writes wait as long as it asked', async () => {
    const { hit, after } = await run(world, { status: 429, headers: { 'retry-after': '30' } });
    // A write that closes a gap or sets something back is repeated sooner; nothing else is.
    const others = world.kind === 'a set-back' ? after.slice(1) : after;
    expect(others.length).toBeGreaterThan(0);
    for (const { at } of others) expect(at - (hit?.at ?? 0)).toBeGreaterThanOrEqual(30_000);
  });

  test('whose token is refused ends the apply: nothing else is sent', async () => {
    const { report, after } = await run(world, { status: 401 });
    expect(after.filter(({ method }) => method !== world.method || world.kind !== 'a set-back')).toEqual([]);
    expect(report.end).toBe('failed');
    expect(report.problems.map(({ code }) => code)).toContain('unauthorized');
  });
});

describe('the journal of a gap that is undone', () => {
  test('holds each write that undoes a step, so that a kill in the middle leaves the right rules owed', async () => {
    simulator = await startSimulator({ token, users: [] });
    simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
    simulator.faults.inject({
      match: { method: 'POST', nth: 2, times: 1 },
      fault: { kind: 'status', status: 422, body: '{"errors":{"destination":["is invalid"]}}' },
    });
    const entries: JournalEntry[] = [];
    const journal = { path: '', write: async (entry: JournalEntry) => void entries.push(entry) };
    const wanted = ['drop 192.0.2.0/26', 'drop 192.0.2.128/25'].map(rule);
    const one = testRun(simulator.url, desiredState(wanted), { journal, limits: { concurrency: 1 } });
    await one.apply(await one.plan());
    await one.close();
    const said = entries.flatMap(({ event, method, outcome }) =>
      event === 'step-ended' ? [`${method} ${outcome}`] : [],
    );
    expect(said.slice(0, 5)).toEqual(['DELETE done', 'POST done', 'POST failed', 'DELETE done', 'POST done']);
    const undoing = entries.findIndex(
      ({ event, owes, method }) => event === 'step-started' && method === 'DELETE' && owes?.length === 1,
    );
    const untilThere = entries.slice(0, undoing + 2).map((entry) => JSON.stringify(entry));
    expect(findOpenGaps(untilThere.join('\n'))).toEqual(new Set(wanted.map(formatRuleKey)));
  });
});

describe('the journal of a write outside gaps', () => {
  test('does not hold the write back', async () => {
    simulator = await startSimulator({ token, users: [] });
    let arrive = (): void => undefined;
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    simulator.onCall(({ method }) => {
      if (method === 'POST') arrive();
    });
    const write = ({ event }: JournalEntry) => (event === 'step-started' ? arrived : Promise.resolve());
    const journal = { path: '', write };
    const one = testRun(simulator.url, desiredState([rule('drop 10.0.0.0/8')]), { journal });
    const report = await one.apply(await one.plan());
    await one.close();
    expect(report.end).toBe('converged');
  });
});

describe('a journal that cannot be written', () => {
  test('is warned of once, with its path and what the system said', async () => {
    simulator = await startSimulator({ token, users: [] });
    const warnings: unknown[] = [];
    const write = () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
    const one = testRun(simulator.url, desiredState([rule('drop 10.0.0.0/8')]), {
      journal: { path: '/state/journal.jsonl', write },
      logger: { ...quiet, warn: (message, fields) => void warnings.push([message, fields]) },
    });
    const report = await one.apply(await one.plan());
    await one.close();
    expect(report.end).toBe('converged');
    expect(warnings).toEqual([
      [expect.stringContaining('the journal cannot be written'), { path: '/state/journal.jsonl', code: 'ENOSPC' }],
    ]);
  });
});
