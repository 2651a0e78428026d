import { afterEach, describe, expect, test } from 'vitest';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';
import { desiredState, rule, type TestOptions, testRun, token, user } from './support.ts';

let simulator: Simulator | null = null;

async function start(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  simulator = await startSimulator({
    token,
    users: [{ name: 'alice', id: user, email: 'alice@example.test', role: 'unprivileged' }],
    ...options,
  });
  return simulator;
}

afterEach(async () => {
  await simulator?.close();
  simulator = null;
});

async function run(lines: readonly string[], options: TestOptions = {}) {
  if (simulator === null) throw new Error('start the simulator first');
  const test = testRun(simulator.url, desiredState(lines.map(rule)), options);
  const plan = await test.plan();
  const report = await test.apply(plan);
  await test.close();
  return { plan, report, clock: test.clock };
}

function keys(): readonly string[] {
  return (simulator?.rules() ?? []).map(({ action, destination }) => `${action} ${destination}`).sort();
}

describe('an apply without surprises', () => {
  test('creates what is missing, deletes what is not desired, and then plans nothing', async () => {
    const server = await start();
    server.seed([
      { action: 'drop', destination: '10.1.0.0/16' },
      { action: 'accept', destination: '10.2.0.5' },
    ]);
    const { plan, report } = await run(['drop 10.1.0.0/16', 'accept 10.3.0.0/16 tcp 80-90 user', 'drop 2001:db8::/32']);
    expect(plan.summary).toMatchObject({ create: 2, delete: 1, keep: 1 });
    expect(report.end).toBe('converged');
    expect(report.outcomes.map(({ outcome }) => outcome)).toEqual(['done', 'done', 'done']);
    expect(keys()).toEqual(['accept 10.3.0.0/16', 'drop 10.1.0.0/16', 'drop 2001:db8::/32']);
    expect(report.wrote).toBe(true);
  });

  test('gives each step exactly one outcome, and each created rule its id', async () => {
    const server = await start();
    const lines = Array.from({ length: 40 }, (_, index) => `accept 10.0.${index}.0/24`);
    const { plan, report } = await run(lines);
    expect(report.outcomes.map(({ step }) => step.id).sort()).toEqual(plan.steps.map(({ id }) => id).sort());
    const ids = new Set(server.rules().map(({ id }) => id));
    expect(report.outcomes.every(({ liveId }) => liveId !== undefined && ids.has(liveId))).toBe(true);
  });

  test('widens a drop rule through a gap: the create follows its delete at once', async () => {
    const server = await start();
    server.seed([{ action: 'drop', destination: '192.0.2.2' }]);
    const others = Array.from({ length: 20 }, (_, index) => `accept 10.0.${index}.0/24`);
    await run(['drop 192.0.2.0/24', ...others]);
    const calls = server.requests().filter(({ method }) => method !== 'GET');
    const opened = calls.findIndex(({ method }) => method === 'DELETE');
    expect(calls[opened + 1]?.body).toContain('192.0.2.0/24');
  });
});
