import { afterEach, describe, expect, test } from 'vitest';
import { findProfile } from '../../src/model/profile.ts';
import { formatRuleKey, type Rule } from '../../src/model/rule.ts';
import type { ApiResult, LiveApi } from '../../src/ports.ts';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { filterVerdicts, seedOf } from '../property/apply-universe.ts';
import { desiredState, rule, type TestOptions, testRun, token, user, writes } from './support.ts';

let simulator: Simulator;

afterEach(() => simulator.close());

const lostAnswer: ApiResult = {
  kind: 'no-answer',
  sent: 'maybe',
  code: 'torn-body',
  message: 'the answer ended in the middle',
  status: 200,
};

const users = [{ name: 'alice', id: user, email: 'alice@example.test' }];

/** A server that drops one host; the desired state widens that to its network, which needs a gap. */
async function widening(): Promise<Simulator> {
  simulator = await startSimulator({ token, users });
  simulator.seed([{ action: 'drop', destination: '192.0.2.2' }]);
  return simulator;
}

async function run(lines: readonly string[], options: TestOptions = {}) {
  const one = testRun(simulator.url, desiredState(lines.map(rule)), options);
  const plan = await one.plan();
  const report = await one.apply(plan);
  await one.close();
  return { plan, report, clock: one.clock };
}

const destinations = (): readonly string[] =>
  simulator
    .rules()
    .map(({ destination }) => destination)
    .sort();

describe('a gap that was opened is closed before anything else', () => {
  test('a stop that arrives with the delete still lets the create through, and nothing else', async () => {
    await widening();
    const stop = new AbortController();
    simulator.onCall(({ method }) => {
      if (method === 'DELETE') stop.abort();
    });
    const { report } = await run(['drop 192.0.2.0/24', 'accept 10.0.0.0/24', 'accept 10.0.1.0/24'], {
      stop: stop.signal,
      limits: { concurrency: 1, pace: 1 },
    });
    const sent = writes(simulator.requests());
    expect(sent.at(-1)).toBe('POST /v0/rules 201');
    expect(sent.at(-2)).toMatch(/^DELETE/);
    expect(destinations()).toContain('192.0.2.0/24');
    expect(report.end).toBe('stopped');
  });

  test('a stop before the gap leaves it unopened', async () => {
    await widening();
    const stop = new AbortController();
    stop.abort();
    const one = testRun(simulator.url, desiredState([rule('drop 192.0.2.0/24')]), { stop: stop.signal });
    const plan = await testRun(simulator.url, desiredState([rule('drop 192.0.2.0/24')])).plan();
    const report = await one.apply(plan);
    await one.close();
    expect(writes(simulator.requests())).toEqual([]);
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual(['dropped', 'dropped']);
    expect(report.wrote).toBe(false);
  });

  test('a rate limit met inside the gap does not hold its create back for long', async () => {
    await widening();
    simulator.faults.inject({
      match: { method: 'POST', times: 2 },
      fault: { kind: 'status', status: 429, headers: { 'retry-after': '600' } },
    });
    const { report, clock } = await run(['drop 192.0.2.0/24']);
    expect(report.end).toBe('converged');
    expect(clock.now()).toBeLessThan(20_000);
  });

  test('a create that fails for good brings the deleted rule back, as it was spelled, and says so', async () => {
    simulator = await startSimulator({ token, users });
    simulator.seed([{ action: 'drop', destination: '192.0.2.2/25' }]);
    simulator.faults.inject({
      match: { method: 'POST', times: 1 },
      fault: { kind: 'status', status: 403, body: '{"error":"forbidden"}' },
    });
    const { report } = await run(['drop 192.0.2.0/24']);
    expect(destinations()).toEqual(['192.0.2.2/25']);
    const restored = report.outcomes.find(({ step }) => step.type === 'delete');
    expect(restored).toMatchObject({ outcome: 'failed', restored: true });
    expect(report.outcomes.find(({ step }) => step.type === 'create' && step.gap !== null)).toMatchObject({
      outcome: 'failed',
      status: 403,
    });
    expect(report.end).toBe('not-converged');
    expect(report.leftOpen).toEqual([]);
  });

  test('when one of two creates fails, the other is undone where it stands in the way of the old rule', async () => {
    simulator = await startSimulator({ token, users });
    simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
    simulator.faults.inject({
      match: { method: 'POST', nth: 2, times: 1 },
      fault: { kind: 'status', status: 422, body: '{"errors":{"destination":["is invalid"]}}' },
    });
    const { report } = await run(['drop 192.0.2.0/26', 'drop 192.0.2.128/25'], { limits: { concurrency: 1 } });
    expect(destinations()).toEqual(['192.0.2.0/24']);
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual(['failed', 'failed', 'failed']);
  });

  test('when the old rule cannot come back either, the report names the traffic left open', async () => {
    await widening();
    simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 403 } });
    const { report } = await run(['drop 192.0.2.0/24']);
    expect(report.leftOpen.some(({ destinations: names }) => names.includes('192.0.2.2'))).toBe(true);
    expect(report.outcomes.map(({ outcome }) => outcome).sort()).toEqual(['done', 'failed']);
    expect(report.end).toBe('not-converged');
  });

  test('a user unknown to the server is noticed before the delete, with one question for all', async () => {
    const stranger = '99999999-9999-4999-8999-999999999999';
    simulator = await startSimulator({ token, users });
    const moved = rule('drop 192.0.2.0/24 user');
    const live = rule('drop 192.0.2.2');
    simulator.seed([{ action: 'drop', destination: '192.0.2.2' }]);
    // A gap whose create names a stranger: not what a planner makes of these two, so put together by hand.
    const one = testRun(simulator.url, desiredState([{ ...moved, userId: stranger }]));
    const plan = await one.plan();
    const joined = { ...plan, steps: plan.steps.map((step) => ({ ...step, gap: 'g1' })) };
    const report = await one.apply(joined);
    await one.close();
    expect(live).toBeDefined();
    expect(simulator.requests().filter(({ path }) => path === '/v0/users')).toHaveLength(1);
    expect(writes(simulator.requests())).toEqual([]);
    expect(report.outcomes.find(({ step }) => step.type === 'create')?.message).toContain(stranger);
  });

  test('a gap waits for the backlog of the packet filter, and its steps follow each other', async () => {
    await widening();
    const at: { readonly call: string; readonly now: number }[] = [];
    const lines = Array.from({ length: 300 }, (_, index) => `accept 10.${index >> 4}.${(index & 15) * 16}.0/24`);
    const noted =
      (clock: { now(): number }) =>
      (api: LiveApi): LiveApi => ({
        ...api,
        createRule: (wire, signal) => {
          at.push({ call: `create ${wire.destination}`, now: clock.now() });
          return api.createRule(wire, signal);
        },
        deleteRule: (id, signal) => {
          at.push({ call: 'delete', now: clock.now() });
          return api.deleteRule(id, signal);
        },
      });
    const clockRef: { now(): number } = { now: () => current() };
    let current = (): number => 0;
    const one = testRun(simulator.url, desiredState([rule('drop 192.0.2.0/24'), ...lines.map(rule)]), {
      wrap: noted(clockRef),
    });
    current = () => one.clock.now();
    const report = await one.apply(await one.plan());
    await one.close();
    expect(report.end).toBe('converged');
    const opened = at.findIndex(({ call }) => call === 'delete');
    expect(at[opened + 1]?.call).toBe('create 192.0.2.0/24');
    // The filter follows at 100 a second: at most a second's worth stood before the gap.
    const before = opened;
    const seconds = ((at[opened]?.now ?? 0) - (at[0]?.now ?? 0)) / 1000;
    expect(before - seconds * 100).toBeLessThanOrEqual(101);
    expect(report.enforcedInMs).toBeGreaterThan(1000);
  });
});

describe('rules that were modified in place', () => {
  test('are deleted last, and all writes wait for the one rebuild that mends what they left', async () => {
    simulator = await startSimulator({ token, users });
    const ids = simulator.seed([
      { action: 'drop', destination: '10.0.0.1' },
      { action: 'drop', destination: '10.0.0.2' },
    ]);
    for (const id of ids) {
      await fetch(`${simulator.url}/v0/rules/${id}`, {
        method: 'PATCH',
        headers: { accept: 'application/json', 'content-type': 'application/json', authorization: `Bearer ${token}` },
        body: JSON.stringify({ rule: { action: 'accept' } }),
      });
    }
    const begun = simulator.requests().length;
    const { plan, report, clock } = await run(['accept 10.1.0.0/16']);
    expect(plan.steps.filter((step) => step.type === 'delete' && step.mayRebuild)).toHaveLength(2);
    expect(report.end).toBe('converged');
    expect(writes(simulator.requests().slice(begun))[0]).toMatch(/^POST/);
    expect(clock.now()).toBeGreaterThanOrEqual(1000 + 3000);
    expect(clock.now()).toBeLessThan(1000 + 3000 + 3000);
    // Which of the two deletes the filter rebuilds at is not known: the second may be it.
    expect(report.enforcedInMs).toBeGreaterThanOrEqual(3000);
  });
});

describe('after a run that was killed', () => {
  test('the rules that its journal says are owed are created before any other', async () => {
    simulator = await startSimulator({ token, users });
    const owed = rule('drop 10.0.9.0/24');
    const others = Array.from({ length: 9 }, (_, index) => `accept 10.0.${index}.0/24`);
    await run([...others, 'drop 10.0.9.0/24'], {
      closeFirst: new Set([formatRuleKey(owed)]),
      limits: { concurrency: 1 },
    });
    const first = simulator.requests().find(({ method }) => method === 'POST');
    expect(first?.body).toContain('10.0.9.0/24');
  });
});

describe('traffic that the best order cuts off before the gap', () => {
  /** The drop for all comes first, so that nothing opens; until the accept at the end nobody's traffic is cut off. */
  const lines = ['drop 10.0.0.0/29', 'drop 10.0.0.0/30 user', 'accept 10.0.0.0/29'];

  test('is part of the gap: when that fails, the first step is undone too', async () => {
    simulator = await startSimulator({ token, users });
    simulator.seed([{ action: 'drop', destination: '10.0.0.0/29', user_id: user }]);
    const fault = { kind: 'status', status: 403 } as const;
    simulator.faults.inject({ match: { method: 'POST', nth: 2, times: 1 }, fault });
    const { plan, report } = await run(lines, { limits: { concurrency: 1 } });
    expect(plan.exposure.map(({ direction, fromStep }) => `${direction} ${fromStep}`)).toEqual(['cut_off s1']);
    expect(simulator.rules()).toMatchObject([{ destination: '10.0.0.0/29', user_id: user }]);
    expect(report.outcomes.every(({ outcome }) => outcome === 'failed' || outcome === 'dropped')).toBe(true);
  });

  test('ends before a stop takes effect', async () => {
    simulator = await startSimulator({ token, users });
    simulator.seed([{ action: 'drop', destination: '10.0.0.0/29', user_id: user }]);
    const stop = new AbortController();
    simulator.onCall(({ method }) => {
      if (method === 'POST') stop.abort();
    });
    const { report } = await run(lines, { stop: stop.signal });
    expect(destinations()).toEqual(['10.0.0.0/29', '10.0.0.0/29', '10.0.0.0/30']);
    expect(report.end).toBe('stopped');
  });
});

describe('a gap whose exposure ends in another gap', () => {
  const bob = '22222222-2222-4222-8222-222222222222';
  // Found by the soak of the property test (seed 424242, path 8588).
  const live: readonly Rule[] = [
    { ...rule('accept 10.0.0.0/31 tcp 80'), userId: bob },
    rule('accept 10.0.0.1 udp 82-84'),
    { ...rule('accept 10.0.0.4/30 tcp 80'), userId: user },
    rule('drop 10.0.0.5'),
    { ...rule('drop 10.0.0.0/29'), userId: user },
  ];
  const desired: readonly Rule[] = [
    { ...rule('drop 10.0.0.4/30'), userId: user },
    rule('drop 10.0.0.0/29'),
    rule('accept 10.0.0.4/31'),
    rule('accept 10.0.0.6/31'),
    { ...rule('accept 10.0.0.0/29'), userId: bob },
  ];

  test('is opened after what the other gap waits for, not around it', async () => {
    simulator = await startSimulator({ token, users: [...users, { name: 'bob', id: bob, email: 'bob@example.test' }] });
    simulator.seed(live.map(seedOf));
    const one = testRun(simulator.url, desiredState(desired), { limits: { concurrency: 7 } });
    const plan = await one.plan();
    const opener = plan.steps.find(({ gap, type }) => gap === 'g1' && type === 'delete');
    const closer = plan.steps.find(({ gap, type }) => gap === 'g1' && type === 'create');
    if (opener?.type !== 'delete' || closer?.type !== 'create') throw new Error('there is no such gap');
    const report = await one.apply(plan);
    await one.close();
    expect(report.end).toBe('converged');
    const sent = report.outcomes.map(({ step }) => step.id);
    const writesSent = writes(simulator.requests());
    const opened = writesSent.findIndex((text) => text.startsWith(`DELETE /v0/rules/${opener.live.id} `));
    expect(writesSent[opened + 1]).toBe('POST /v0/rules 201');
    expect(sent.indexOf(closer.id) - sent.indexOf(opener.id)).toBe(1);
  });
});

describe('a gap of which two steps are under way when one of them fails', () => {
  // Found by the property test of refused writes (seed 515151, path 5872:…).
  test('is undone only when the other has ended, with what that did', async () => {
    const bob = '22222222-2222-4222-8222-222222222222';
    const ofBob = (line: string): Rule => ({ ...rule(line), userId: bob });
    const live = [rule('drop 10.0.0.0/30'), ofBob('drop 10.0.0.0/30'), rule('accept 10.0.0.0/29')];
    const desired = [
      rule('accept 10.0.0.0/29 tcp 80'),
      rule('accept 10.0.0.0/29 udp 80'),
      ofBob('drop 10.0.0.0/29'),
      rule('drop 10.0.0.0/29'),
    ];
    simulator = await startSimulator({ token, users: [...users, { name: 'bob', id: bob, email: 'bob@example.test' }] });
    simulator.seed(live.map(seedOf));
    const before = filterVerdicts(simulator);
    const one = testRun(simulator.url, desiredState(desired), {
      limits: { concurrency: 2, replans: 0 },
      wrap: (api) => ({
        ...api,
        createRule: async (wire, signal) => {
          if (wire.port_type === 'tcp') return { kind: 'answer', status: 403, body: undefined, retryAfterMs: null };
          const answer = await api.createRule(wire, signal);
          if (wire.port_type === 'udp') for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate);
          return answer;
        },
      }),
    });
    const plan = await one.plan();
    const report = await one.apply(plan);
    await one.close();
    expect(report.outcomes.map(({ step }) => step.id).sort()).toEqual(plan.steps.map(({ id }) => id).sort());
    expect(report.leftOpen).toEqual([]);
    expect(filterVerdicts(simulator)).toEqual(before);
  });
});

describe('a gap with a step of which nobody knows whether it was carried out', () => {
  const before = ['drop 10.0.0.0/29', 'accept 10.0.0.0/29 tcp 80'];
  const after = ['drop 10.0.0.0/29', 'drop 10.0.0.0/29 udp 80-81', 'accept 10.0.0.0/30'];
  /** The names of the base make one update of the second rule. */
  const options = { profile: findProfile('generic'), base: desiredState(before.map(rule)) };

  /** In place: the port rule becomes the drop, and only then may the accept come. */
  async function narrowing(): Promise<void> {
    simulator = await startSimulator({ token, users, overlapConstraints: false });
    for (const { destination, action, ports } of before.map(rule)) {
      const port_range = ports === null ? null : `${ports.low}`;
      const port_type = ports === null || ports.type === null ? null : ports.type;
      simulator.seed([{ action, destination: destination.text, port_range, port_type }]);
    }
  }

  test('is closed when the rules could at last be read', async () => {
    await narrowing();
    simulator.faults.inject({ fault: { kind: 'torn' }, match: { nth: 3, times: 6 } });
    const { plan, report } = await run(after, options);
    expect(plan.steps.map(({ type }) => type)).toEqual(['update', 'create']);
    expect(report.end).toBe('converged');
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual(['done', 'done']);
    expect(writes(simulator.requests()).map((line) => line.split(' ')[0])).toEqual(['PATCH', 'POST']);
  });

  test('is not undone by half: what the step had waited for stays, so that nothing opens', async () => {
    await narrowing();
    simulator.faults.inject({ fault: { kind: 'torn' }, match: { nth: 3 } });
    const { report } = await run(after, options);
    expect(writes(simulator.requests()).map((line) => line.split(' ')[0])).toEqual(['PATCH', 'POST']);
    expect(simulator.rules().map(({ action, destination, port_type }) => [action, destination, port_type])).toEqual([
      ['drop', '10.0.0.0/29', null],
      ['drop', '10.0.0.0/29', 'udp'],
      ['accept', '10.0.0.0/30', null],
    ]);
    expect(report.outcomes.map(({ step, outcome }) => [step.type, outcome])).toEqual([
      ['update', 'done'],
      ['create', 'unknown'],
    ]);
    expect(report.end).not.toBe('converged');
  });

  test.each(['drop', 'accept'] as const)(
    'has its deleted %s rule back where the server itself refuses to hold both',
    async (action) => {
      simulator = await startSimulator({ token, users });
      simulator.seed([{ action, destination: '192.0.2.2' }]);
      let reads = 0;
      const wrap = (api: LiveApi): LiveApi => ({
        ...api,
        listRules: (signal) => (reads++ === 0 ? api.listRules(signal) : Promise.resolve(lostAnswer)),
        createRule: (wire, signal) =>
          wire.destination === '192.0.2.0/24' ? Promise.resolve(lostAnswer) : api.createRule(wire, signal),
      });
      const { report } = await run([`${action} 192.0.2.0/24`], { wrap });
      expect(destinations()).toEqual(['192.0.2.2']);
      expect(report.outcomes.map(({ step, outcome, restored }) => [step.type, outcome, restored])).toEqual([
        ['delete', 'failed', true],
        ['create', 'unknown', undefined],
      ]);
      expect(report.leftOpen).toEqual([]);
    },
  );
});

describe('a gap whose delete nobody knows the fate of', () => {
  const lostDelete = (api: LiveApi): LiveApi => {
    let lost = false;
    return {
      ...api,
      listRules: (signal) => (lost ? Promise.resolve(lostAnswer) : api.listRules(signal)),
      deleteRule: async (id, signal) => {
        await api.deleteRule(id, signal);
        lost = true;
        return lostAnswer;
      },
    };
  };

  test('has the rule back where the server would refuse a copy of it', async () => {
    await widening();
    const { report } = await run(['drop 192.0.2.0/24'], { wrap: lostDelete });
    expect(destinations()).toEqual(['192.0.2.2']);
    expect(report.outcomes.map(({ step, outcome, restored }) => [step.type, outcome, restored]).sort()).toEqual([
      ['create', 'dropped', undefined],
      ['delete', 'failed', true],
    ]);
    expect(report.leftOpen).toEqual([]);
  });

  test('names its traffic as left open where the rule cannot come back', async () => {
    await widening();
    simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 403 } });
    const { report } = await run(['drop 192.0.2.0/24'], { wrap: lostDelete });
    expect(report.outcomes.map(({ step, outcome }) => [step.type, outcome]).sort()).toEqual([
      ['create', 'dropped'],
      ['delete', 'unknown'],
    ]);
    expect(report.leftOpen.some(({ destinations: names }) => names.includes('192.0.2.2'))).toBe(true);
  });
});

test('what waited for a step of a gap is not done once the gap was undone', async () => {
  simulator = await startSimulator({ token, users });
  simulator.seed([
    { action: 'drop', destination: '10.0.0.0/29' },
    { action: 'accept', destination: '10.0.0.0/29', port_range: '80 - 81', port_type: 'tcp' },
    { action: 'drop', destination: '10.0.0.0/29', port_range: '80', port_type: 'tcp', user_id: user },
  ]);
  const wrap = (api: LiveApi): LiveApi => ({
    ...api,
    createRule: (wire, signal) =>
      wire.port_range === '81'
        ? Promise.resolve({ kind: 'answer', status: 403, body: undefined, retryAfterMs: null })
        : api.createRule(wire, signal),
  });
  const desired = ['drop 10.0.0.0/29', 'accept 10.0.0.0/30', 'accept 10.0.0.0/29 tcp 81'];
  const { report } = await run(desired, { wrap, limits: { concurrency: 1 } });
  // The accept below this drop is back, so without the drop the user's port 80 would be open.
  expect(simulator.rules().filter(({ user_id }) => user_id !== null)).toHaveLength(1);
  expect(report.outcomes.map(({ step, outcome, message }) => [step.id, outcome, message?.slice(0, 13)])).toEqual([
    ['s1', 'done', undefined],
    ['s2', 'failed', 'deleted, and '],
    ['s4', 'dropped', 'not attempted'],
    ['s3', 'failed', 'POST /v0/rule'],
  ]);
});
