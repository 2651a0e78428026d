import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Pool } from 'undici';
import { createApiClient } from '../src/adapters/api/client.ts';
import { systemClock } from '../src/adapters/clock.ts';
import { openJournal } from '../src/adapters/journal.ts';
import { applyPlan } from '../src/apply/apply.ts';
import { defaultApplyLimits } from '../src/apply/context.ts';
import { readLive } from '../src/apply/read.ts';
import { Network } from '../src/model/address.ts';
import { findProfile } from '../src/model/profile.ts';
import { ok } from '../src/model/result.ts';
import { type Rule, toWire } from '../src/model/rule.ts';
import { type DesiredState, type LiveState, wholeScope } from '../src/model/state.ts';
import { defaultPlanOptions } from '../src/plan/input.ts';
import { makePlan } from '../src/plan/make-plan.ts';
import type { Logger } from '../src/ports.ts';
import { type Cost, cpuSince, type FigureBench, linesOf, medianCost } from './figure.ts';

// As long as a real one: answers are searched for it.
const token = 'bench-token-'.repeat(25);
const creates = 5000;
const rounds = 9;
const { concurrency } = defaultApplyLimits;

const rules: readonly Rule[] = Array.from({ length: creates }, (_, index) => ({
  action: 'accept',
  destination: new Network(4, 0x0a000000n + BigInt(index) * 256n, 24),
  ports: null,
  userId: null,
}));

const desired: DesiredState = {
  rules: rules.map((rule, index) => ({
    name: `r${index}`,
    rule,
    place: { file: 'r.yaml', line: index + 1, column: 1 },
  })),
  configuration: null,
  userNames: new Map(),
  tests: [],
  digest: 'bench',
};

interface Server {
  readonly url: string;
  stop(): void;
}

async function startServer(): Promise<Server> {
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-apply-'));
  const tokenFile = path.join(folder, 'token');
  writeFileSync(tokenFile, token, { mode: 0o600 });
  const command = ['dist/reconcile.js', 'simulate', '--port', '0', '--token-file', tokenFile];
  const child: ChildProcess = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit'] });
  if (child.stdout === null) throw new Error('the simulator has no stdout');
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /^listening (\S+)/.exec(line)?.[1];
    if (url === undefined) continue;
    const stop = (): void => {
      child.kill();
      rmSync(folder, { recursive: true, force: true });
    };
    return { url, stop };
  }
  throw new Error('the simulator did not start');
}

/** The floor: nothing but undici, each answer read and parsed. */
async function bareLoop(url: string): Promise<Cost> {
  const pool = new Pool(url, { connections: concurrency + 2, pipelining: 1 });
  const headers = { accept: 'application/json', 'content-type': 'application/json', authorization: `Bearer ${token}` };
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let rule = rules[next++]; rule !== undefined; rule = rules[next++]) {
      const body = JSON.stringify({ rule: toWire(rule) });
      const response = await pool.request({ path: '/v0/rules', method: 'POST', headers, body });
      await response.body.json();
      if (response.statusCode !== 201) throw new Error(`${response.statusCode}`);
    }
  };
  const begun = performance.now();
  const spent = process.cpuUsage();
  await Promise.all(Array.from({ length: concurrency }, worker));
  const cost = { wall: performance.now() - begun, cpu: cpuSince(spent) };
  await pool.close();
  return cost;
}

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** An apply of the same rules, with a journal, up to the read that verifies it; the time as its report says. */
async function applied(url: string): Promise<Cost> {
  const client = createApiClient({ baseUrl: url, token: () => token, connections: concurrency + 2 });
  if (!client.ok) throw new Error(client.error);
  const api = client.value;
  const profile = findProfile('firezone-0.7');
  const scope = { ...wholeScope, configuration: false };
  const planOf = (live: LiveState) =>
    makePlan({ desired, live, base: null, profile, scope, options: defaultPlanOptions });
  const plan = planOf({ rules: [], configuration: null });
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-journal-'));
  const journal = await openJournal(path.join(folder, 'journal'), () => systemClock.wallTime());
  const spent = process.cpuUsage();
  let cpu = 0;
  const report = await applyPlan(plan, {
    api,
    clock: systemClock,
    logger: silent,
    journal,
    profile,
    limits: defaultApplyLimits,
    stop: new AbortController().signal,
    allowLockout: false,
    afterOutage: false,
    closeFirst: new Set(),
    replan: async ({ signal, knownRules }) => {
      cpu ||= cpuSince(spent);
      const reading = await readLive(
        { api, clock: systemClock, logger: silent, attempts: 1, signal },
        scope,
        knownRules,
      );
      return reading.ok ? ok(planOf(reading.value.live)) : reading;
    },
  });
  await api.close();
  await journal.close();
  rmSync(folder, { recursive: true });
  if (report.end !== 'converged') throw new Error(`the apply ended ${report.end}`);
  return { wall: report.durationMs, cpu };
}

async function on(work: (url: string) => Promise<Cost>): Promise<Cost> {
  const server = await startServer();
  try {
    return await work(server.url);
  } finally {
    server.stop();
  }
}

/** The medians of pairs that take turns in who goes first: whatever else the machine does falls on both. From the first write sent to the last answer. */
async function compare() {
  const [ours, floor]: [Cost[], Cost[]] = [[], []];
  const pair = [async () => floor.push(await on(bareLoop)), async () => ours.push(await on(applied))];
  for (let round = 0; round < rounds; round++)
    for (const run of round % 2 === 0 ? pair : pair.toReversed()) await run();
  return { ours: medianCost(ours), floor: medianCost(floor) };
}

export const applyBenches: readonly FigureBench[] = linesOf(
  {
    name: `apply: ${creates} creates against a bare undici loop at concurrency ${concurrency}`,
    counts: 'ratio',
    limit: { cpu: 2.2, wall: 1.12 },
  },
  compare,
);
