import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { createApiClient } from '../../src/adapters/api/client.ts';
import { readLive } from '../../src/apply/read.ts';
import { findProfile } from '../../src/model/profile.ts';
import { toWire } from '../../src/model/rule.ts';
import { wholeScope } from '../../src/model/state.ts';
import type { LiveApi } from '../../src/ports.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';
import { createFakeClock, watched } from '../apply/fake-clock.ts';
import { desiredState, quiet, rule, type TestOptions, testRun, token, user, writes } from '../apply/support.ts';

const closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function simulate(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  const users = [{ name: 'alice', id: user, email: 'alice@example.test' }];
  const simulator = await startSimulator({ token, users, ...options });
  closers.push(() => simulator.close());
  return simulator;
}

/** A server that answers as the test says. */
async function serve(listener: RequestListener): Promise<string> {
  const server: Server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function run(simulator: Simulator, lines: readonly string[], options: TestOptions = {}) {
  const one = testRun(simulator.url, desiredState(lines.map(rule)), options);
  const plan = await one.plan();
  const begun = simulator.requests().length;
  const report = await one.apply(plan);
  await one.close();
  return { plan, report, clock: one.clock, requests: simulator.requests().slice(begun) };
}

/** One read of the live state, as a pass does it. */
async function read(url: string, known: number | null = null, timeoutMs = 2000) {
  const client = createApiClient({ baseUrl: url, token: () => token, requestTimeoutMs: timeoutMs });
  if (!client.ok) throw new Error(client.error);
  closers.push(() => client.value.close());
  const clock = createFakeClock();
  const api = watched(client.value, clock);
  const scope = { ...wholeScope, configuration: false };
  const signal = new AbortController().signal;
  const reading = await readLive({ api, clock, logger: quiet, attempts: 3, signal }, scope, known);
  return { reading, clock };
}

const generic = findProfile('generic');

describe('faults of the API', () => {
  for (const status of [500, 502, 503, 504]) {
    test(`1: after ${status} a write is tried again, later each time, and a POST only after a new read`, async () => {
      const simulator = await simulate();
      simulator.faults.inject({ match: { method: 'POST', times: 3 }, fault: { kind: 'status', status } });
      const { report, clock, requests } = await run(simulator, ['drop 10.0.0.0/8']);
      expect(report.end).toBe('converged');
      const order = requests.map(({ method }) => method).join(' ');
      expect(order).toMatch(/^POST GET POST GET POST GET POST GET/);
      const retries = clock.waits.filter((ms) => ms < 5000);
      expect(retries.length).toBeGreaterThanOrEqual(3);
      expect(retries.slice(0, 3)).toEqual([...retries.slice(0, 3)].sort((a, b) => a - b));
    });
  }

  for (const [name, header, atLeast] of [
    ['seconds', '7', 7000],
    ['a date', new Date(Date.now() + 3_600_000).toUTCString(), 3_500_000],
  ] as const) {
    test(`2: 429 with Retry-After in ${name} holds back all workers`, async () => {
      const simulator = await simulate();
      const fault = { kind: 'status', status: 429, headers: { 'retry-after': header } } as const;
      simulator.faults.inject({ match: { method: 'POST', nth: 2, times: 1 }, fault });
      const lines = Array.from({ length: 30 }, (_, index) => `accept 10.0.${index}.0/24`);
      const begun = 1000;
      const { report, clock } = await run(simulator, lines, { limits: { concurrency: 4, totalTimeoutMs: 1e9 } });
      expect(report.end).toBe('converged');
      expect(clock.now() - begun).toBeGreaterThanOrEqual(atLeast);
      const log = simulator.requests().filter(({ method }) => method === 'POST');
      const limited = log.findIndex((call) => call.status === 429);
      expect(limited).toBeLessThan(5);
      expect(log.filter((call) => call.status === 201)).toHaveLength(30);
    });
  }

  test('3: a POST whose answer is lost after it was applied is found by reading, never sent twice', async () => {
    const simulator = await simulate();
    simulator.faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'reset-after' } });
    const { report, requests } = await run(simulator, ['drop 10.0.0.0/8 tcp 80 user']);
    expect(requests.filter(({ method }) => method === 'POST')).toHaveLength(1);
    expect(report.outcomes).toMatchObject([{ outcome: 'done', liveId: simulator.rules()[0]?.id }]);
    expect(report.end).toBe('converged');
  });

  test('3: where duplicates are possible the list is read until the deadline of the lost POST has passed', async () => {
    const simulator = await simulate({ overlapConstraints: false });
    simulator.faults.inject({ match: { method: 'POST', times: 1 }, fault: { kind: 'reset-before' } });
    const { report, clock, requests } = await run(simulator, ['drop 10.0.0.0/8'], {
      profile: generic,
      limits: { requestTimeoutMs: 15_000 },
    });
    const again = requests.map(({ method }) => method).lastIndexOf('POST');
    expect(requests.slice(1, again).filter(({ method }) => method === 'GET').length).toBeGreaterThan(5);
    expect(clock.now()).toBeGreaterThanOrEqual(1000 + 15_000);
    expect(simulator.rules()).toHaveLength(1);
    expect(report.end).toBe('converged');
  });

  test('3: a request that arrives late makes no duplicate where duplicates are possible', async () => {
    const simulator = await simulate({ overlapConstraints: false });
    let calls = 0;
    const late = (api: LiveApi): LiveApi => ({
      ...api,
      createRule: async (wire, signal) => {
        if (++calls > 1) return api.createRule(wire, signal);
        return { kind: 'no-answer', sent: 'maybe', code: 'timeout', message: 'POST /v0/rules: lost', status: null };
      },
      listRules: async (signal) => {
        // The lost request is carried out between the third and the fourth read.
        if (calls === 1 && ++reads === 4) await api.createRule(toWire(rule('drop 10.0.0.0/8')), signal);
        return api.listRules(signal);
      },
    });
    let reads = 0;
    const { report } = await run(simulator, ['drop 10.0.0.0/8'], { profile: generic, wrap: late });
    expect(simulator.rules()).toHaveLength(1);
    expect(report.outcomes).toMatchObject([{ outcome: 'done' }]);
  });

  test('4: a lost DELETE answer counts as done when the rule is gone, and so does 404', async () => {
    const simulator = await simulate();
    const [first, second] = simulator.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'drop', destination: '11.0.0.0/8' },
    ]);
    simulator.faults.inject({
      match: { method: 'DELETE', path: `/v0/rules/${first}`, times: 1 },
      fault: { kind: 'reset-after' },
    });
    simulator.faults.inject({
      match: { method: 'DELETE', path: `/v0/rules/${second}`, times: 1 },
      fault: { kind: 'status', status: 404, body: '{"error":"not_found"}', commit: true },
    });
    const { report } = await run(simulator, []);
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual(['done', 'done']);
    expect(report.end).toBe('converged');
  });

  test('4: an empty 500 to a DELETE is done when the rule is gone, and tried again when it is not', async () => {
    const simulator = await simulate();
    simulator.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'drop', destination: '11.0.0.0/8' },
    ]);
    simulator.faults.inject({
      match: { method: 'DELETE', times: 1 },
      fault: { kind: 'status', status: 500, commit: true },
    });
    simulator.faults.inject({ match: { method: 'DELETE', times: 1 }, fault: { kind: 'status', status: 500 } });
    const { report, requests } = await run(simulator, [], { limits: { concurrency: 1 } });
    expect(report.end).toBe('converged');
    expect(requests.filter(({ method }) => method === 'DELETE')).toHaveLength(3);
  });

  test.each([
    ['the list shows', 1, 'done'],
    ['the list cannot be read to show', 99, 'unknown'],
  ] as const)('4: what a 504 hid counts as written where %s that it was carried out', async (_, lists, outcome) => {
    const simulator = await simulate();
    simulator.faults.inject({
      match: { method: 'POST', times: 1 },
      fault: { kind: 'status', status: 504, commit: true },
    });
    simulator.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status: 422 } });
    if (lists > 1)
      simulator.faults.inject({
        match: { path: '/v0/rules', method: 'GET', nth: 2 },
        fault: { kind: 'status', status: 503 },
      });
    const { report } = await run(simulator, ['accept 10.0.0.0/8', 'accept 11.0.0.0/8'], { limits: { concurrency: 1 } });
    expect(report).toMatchObject({ wrote: true, end: expect.stringMatching(/^(failed|not-converged)$/) });
    expect(report.outcomes.map((each) => each.outcome)).toEqual([outcome, 'failed']);
  });

  test.each(['POST', 'DELETE'])('4: a %s that is carried out late, after a 500, is ours', async (method) => {
    const simulator = await simulate();
    if (method === 'DELETE') simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    simulator.faults.inject({ match: { method, times: 1 }, fault: { kind: 'status', status: 500 } });
    let sent = 0;
    const wrap = (api: LiveApi): LiveApi => ({
      ...api,
      createRule: async (...args) => {
        if (sent++ === 1) await api.createRule(...args);
        return await api.createRule(...args);
      },
      deleteRule: async (...args) => {
        if (sent++ === 1) await api.deleteRule(...args);
        return await api.deleteRule(...args);
      },
    });
    const { report } = await run(simulator, method === 'POST' ? ['drop 10.0.0.0/8'] : [], { wrap });
    expect(report.outcomes.map(({ outcome, byOther }) => [outcome, byOther])).toEqual([['done', undefined]]);
  });

  test.each([
    ['POST', 504, 'unknown'],
    ['POST', 500, 'failed'],
    ['DELETE', 504, 'unknown'],
    ['DELETE', 500, 'failed'],
  ] as const)(
    '4: a %s that is answered %i each time is %s, for only a proxy may answer before the server, and is not sent by the next plan',
    async (method, status, outcome) => {
      const simulator = await simulate();
      simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
      simulator.faults.inject({ match: { method }, fault: { kind: 'status', status } });
      const lines = method === 'POST' ? ['drop 10.0.0.0/8', 'accept 11.0.0.0/8'] : [];
      const { report, requests } = await run(simulator, lines);
      expect(report.outcomes.map((each) => [each.outcome, each.status])).toEqual([[outcome, status]]);
      expect([report.end, requests.filter((one) => one.method === method)]).toEqual([
        'not-converged',
        expect.objectContaining({ length: 5 }),
      ]);
    },
  );

  test('5: 404 to a PATCH leads to a new plan, which creates what is gone', async () => {
    const simulator = await simulate({ overlapConstraints: false });
    const [id] = simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    const gone = (api: LiveApi): LiveApi => ({
      ...api,
      updateRule: async (...call) => {
        await api.deleteRule(id ?? '', new AbortController().signal);
        return api.updateRule(...call);
      },
    });
    const { plan, report } = await run(simulator, ['accept 10.0.0.0/8'], { profile: generic, wrap: gone });
    expect(plan.steps.map(({ type }) => type)).toEqual(['update']);
    expect(report.outcomes.map(({ step, outcome }) => `${step.type} ${outcome}`)).toEqual([
      'update failed',
      'create done',
    ]);
    expect(report.end).toBe('converged');
  });

  test('6: 401 in the middle stops all writing; the report says what was done and what was dropped', async () => {
    const simulator = await simulate();
    const fault = { kind: 'status', status: 401, body: '{"errors":{"auth":"no_resource_found"}}' } as const;
    simulator.faults.inject({ match: { method: 'POST', nth: 3 }, fault });
    const lines = Array.from({ length: 10 }, (_, index) => `accept 10.0.${index}.0/24`);
    const { report, requests } = await run(simulator, lines, { limits: { concurrency: 1 } });
    expect(requests.filter(({ method }) => method === 'POST')).toHaveLength(3);
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual([
      'done',
      'done',
      'failed',
      ...Array(7).fill('dropped'),
    ]);
    expect(report.outcomes[2]?.message).toContain('expired');
    expect(report.end).toBe('failed');
    expect(report.problems.map(({ code }) => code)).toContain('unauthorized');
  });

  test('6: the token is read again for each request', async () => {
    const simulator = await simulate();
    let now = 'old-token';
    const client = createApiClient({ baseUrl: simulator.url, token: () => now });
    if (!client.ok) throw new Error(client.error);
    closers.push(() => client.value.close());
    const { signal } = new AbortController();
    expect(await client.value.listRules(signal)).toMatchObject({ status: 401 });
    now = token;
    expect(await client.value.listRules(signal)).toMatchObject({ status: 200 });
  });

  test('7: 403 on one object fails that one and what needs it; the others go on', async () => {
    const simulator = await simulate();
    const [id] = simulator.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'drop', destination: '11.0.0.0/8' },
    ]);
    simulator.faults.inject({
      match: { method: 'DELETE', path: `/v0/rules/${id}` },
      fault: { kind: 'status', status: 403 },
    });
    const { report, requests } = await run(simulator, ['accept 12.0.0.0/8']);
    expect(report.outcomes.map(({ step, outcome, status }) => [step.type, outcome, status])).toEqual(
      expect.arrayContaining([
        ['create', 'done', 201],
        ['delete', 'done', 204],
        ['delete', 'failed', 403],
      ]),
    );
    expect(requests.filter(({ path }) => path.endsWith(`${id}`))).toHaveLength(1);
    expect(report.end).toBe('not-converged');
    expect(report.notConverged.join()).toContain('drop 10.0.0.0/8');
  });

  test("8: 422 fails that object with the server's own field messages, once", async () => {
    const simulator = await simulate({ users: [] });
    const { report, requests } = await run(simulator, ['drop 10.0.0.0/8 user', 'drop 11.0.0.0/8']);
    expect(report.outcomes.map(({ outcome }) => outcome).sort()).toEqual(['done', 'failed']);
    const failed = report.outcomes.find(({ outcome }) => outcome === 'failed');
    expect(failed).toMatchObject({ status: 422 });
    expect(failed?.message).toContain('user does not exist');
    expect(requests.filter(({ method, status }) => method === 'POST' && status === 422)).toHaveLength(1);
    expect(report.notConverged).toEqual(['rule-0']);
  });

  test('9: a list that is suddenly empty is read again two seconds later; if the reads differ the pass ends', async () => {
    const simulator = await simulate();
    simulator.faults.inject({ match: { times: 1 }, fault: { kind: 'stale-list' } });
    simulator.seed(Array.from({ length: 12 }, (_, index) => ({ action: 'drop', destination: `10.0.0.${index}` })));
    const { reading, clock } = await read(simulator.url, 12);
    expect(reading).toMatchObject({ ok: false, error: { code: 'list-unstable' } });
    expect(clock.waits).toContain(2000);
  });

  test('9: a list that lost more than half counts when the second read agrees; a first run reads once', async () => {
    const simulator = await simulate();
    simulator.seed(Array.from({ length: 5 }, (_, index) => ({ action: 'drop', destination: `10.0.0.${index}` })));
    const agreed = await read(simulator.url, 11);
    expect(agreed.reading).toMatchObject({ ok: true });
    expect(agreed.clock.waits).toContain(2000);
    expect((await read(simulator.url, 10)).clock.waits).toEqual([]);
    expect((await read(simulator.url, null)).clock.waits).toEqual([]);
  });

  for (const [name, type, body] of [
    ['a torn body', 'application/json', '{"data":[{"id":"11111111-1111'],
    ['a wrong content type', 'text/plain', '{"data":[]}'],
    ['an HTML login page', 'text/html; charset=utf-8', '<!DOCTYPE html><title>Sign in</title>'],
    ['another shape', 'application/json', '{"rules":[]}'],
    ['a rule that cannot be read', 'application/json', '{"data":[{"id":"x"}]}'],
  ] as const) {
    test(`10: ${name} with status 200 fails the pass: no plan from half an answer`, async () => {
      const url = await serve((_, response) => response.writeHead(200, { 'content-type': type }).end(body));
      const { reading } = await read(url);
      expect(reading.ok).toBe(false);
      expect(reading.ok ? '' : reading.error.message).toContain('GET /v0/rules');
    });
  }

  test('11: unknown new fields are ignored, and never sent away', async () => {
    const simulator = await simulate({ overlapConstraints: false });
    simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    const richer = (api: LiveApi): LiveApi => ({
      ...api,
      listRules: async (signal) => {
        const answer = await api.listRules(signal);
        if (answer.kind === 'no-answer') return answer;
        const { data } = answer.body as { data: object[] };
        return { ...answer, body: { data: data.map((one) => ({ ...one, priority: 7 })), page: 1 } };
      },
    });
    const { report, requests } = await run(simulator, ['accept 10.0.0.0/8'], { profile: generic, wrap: richer });
    expect(report.end).toBe('converged');
    expect(requests.find(({ method }) => method === 'PATCH')?.body).toBe('{"rule":{"action":"accept"}}');
  });

  test('12: what the server spells in its own way is not drift', async () => {
    const simulator = await simulate();
    simulator.seed([
      { action: 'drop', destination: '10.1.2.3/8' },
      { action: 'drop', destination: '2001:DB8:0:0:1:0:0:1/128' },
      { action: 'accept', destination: '::2', port_type: 'tcp', port_range: '80 - 80' },
    ]);
    const { plan } = await run(simulator, ['drop 10.0.0.0/8', 'drop 2001:db8::1:0:0:1', 'accept ::0.0.0.2 tcp 80']);
    expect(plan.steps).toEqual([]);
  });

  test('13: a PATCH that is accepted but changes nothing is named, after a bounded number of tries', async () => {
    const simulator = await simulate({ overlapConstraints: false });
    simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    let patches = 0;
    const forgetful = (api: LiveApi): LiveApi => ({
      ...api,
      updateRule: async (id, fields) => {
        patches++;
        const now = '2026-01-01T00:00:00.000000Z';
        const data = { ...toWire(rule('drop 10.0.0.0/8')), ...fields, id, inserted_at: now, updated_at: now };
        return { kind: 'answer', status: 200, body: { data }, retryAfterMs: null };
      },
    });
    const { report } = await run(simulator, ['accept 10.0.0.0/8'], { profile: generic, wrap: forgetful });
    expect(report.end).toBe('not-converged');
    expect(report.notConverged).toEqual(['rule-0']);
    expect(patches).toBe(4);
  });

  test('13: a PATCH whose answer shows the old value fails at once', async () => {
    const simulator = await simulate({ overlapConstraints: false });
    simulator.seed([{ action: 'drop', destination: '10.0.0.0/8' }]);
    const stubborn = (api: LiveApi): LiveApi => ({
      ...api,
      updateRule: (id, _, signal) => api.updateRule(id, {}, signal),
    });
    const { report } = await run(simulator, ['accept 10.0.0.0/8'], { profile: generic, wrap: stubborn });
    expect(report.problems.map(({ code }) => code)).toContain('answer-differs');
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual(['failed']);
  });

  test('14: a body that trickles in ends at the deadline of the request', async () => {
    const url = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"data":[');
    });
    const { reading } = await read(url, null, 50);
    expect(reading).toMatchObject({ ok: false, error: { code: 'timeout' } });
  });

  test('15: a host name that is not known gives a clear message', async () => {
    const client = createApiClient({ baseUrl: 'https://no-such-host.invalid', token: () => token });
    if (!client.ok) throw new Error(client.error);
    closers.push(() => client.value.close());
    const answer = await client.value.listRules(new AbortController().signal);
    expect(answer).toMatchObject({ kind: 'no-answer', sent: 'no', code: 'dns' });
    expect(answer.kind === 'no-answer' ? answer.message : '').toContain('no-such-host.invalid');
  });

  test('15: after an outage the same client goes on without a restart', async () => {
    const first = await simulate();
    const { port } = new URL(first.url);
    const client = createApiClient({ baseUrl: first.url, token: () => token });
    if (!client.ok) throw new Error(client.error);
    closers.push(() => client.value.close());
    const { signal } = new AbortController();
    expect(await client.value.listRules(signal)).toMatchObject({ status: 200 });
    await first.close();
    expect(await client.value.listRules(signal)).toMatchObject({ kind: 'no-answer' });
    await simulate({ port: Number(port) });
    expect(await client.value.listRules(signal)).toMatchObject({ status: 200 });
  });

  test('16: another writer who undoes each change is noticed and counted, and not fought without end', async () => {
    const simulator = await simulate();
    const fighting = (api: LiveApi): LiveApi => ({
      ...api,
      createRule: async (wire, signal) => {
        const answer = await api.createRule(wire, signal);
        for (const { id } of simulator.rules()) await api.deleteRule(id, signal);
        return answer;
      },
    });
    const { report, requests } = await run(simulator, ['drop 10.0.0.0/8'], { wrap: fighting });
    expect(report.end).toBe('not-converged');
    expect(requests.filter(({ method }) => method === 'POST')).toHaveLength(4);
    const problem = report.problems.filter(({ code }) => code === 'undone-by-other');
    expect(problem).toHaveLength(1);
    expect(problem[0]?.summary).toContain('4 times');
  });

  test('17: after a failure half-way the report is exact and the next pass finishes', async () => {
    const simulator = await simulate();
    simulator.seed([{ action: 'drop', destination: '192.0.2.2' }]);
    simulator.faults.inject({ match: { method: 'POST', nth: 6 }, fault: { kind: 'reset-before' } });
    simulator.faults.inject({ match: { method: 'GET', nth: 2 }, fault: { kind: 'status', status: 500 } });
    const lines = ['drop 192.0.2.0/24', ...Array.from({ length: 12 }, (_, index) => `accept 10.0.${index}.0/24`)];
    const { plan, report } = await run(simulator, lines, { limits: { concurrency: 2 } });
    expect(report.outcomes.map(({ step }) => step.id).sort()).toEqual(plan.steps.map(({ id }) => id).sort());
    for (const { step, outcome } of report.outcomes) {
      if (step.type !== 'create' || (outcome !== 'done' && outcome !== 'dropped')) continue;
      const there = simulator.rules().some(({ destination }) => destination === step.rule.destination.text);
      expect(there).toBe(outcome === 'done');
    }
    expect(report.end).not.toBe('converged');
    simulator.faults.clear();
    expect((await run(simulator, lines)).report.end).toBe('converged');
    expect(writes(simulator.requests()).length).toBeGreaterThan(13);
  });
});
