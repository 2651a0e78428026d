import { createHmac } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeUpstream, serveGit } from '../test/controller/support/git-host.ts';
import type { Sidecar, World } from '../test/controller/support/sidecar.ts';
import { ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../test/controller/support/sidecar.ts';

/** One figure of the sidecar with its limit; the real binary beside a simulated server on the same machine. */
export interface WatchBench {
  readonly name: string;
  readonly unit: 'ms' | 'MB' | 'calls' | 'ratio';
  readonly limit: number;
  readonly measure: () => Promise<number>;
}

const quietMs = 500;
const rounds = 15;

/** The first `count` addresses of 10.0.0.0/8, one rule each. */
function many(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`);
}

function seed(world: World, destinations: readonly string[]): void {
  world.sim.seed(destinations.map((destination) => ({ action: 'accept' as const, destination })));
}

/** Resolves when a rule with this destination has been created. */
function created(world: World, destination: string): Promise<number> {
  return new Promise((resolve) => {
    const off = world.sim.onCall((call) => {
      if (call.method !== 'POST' || !call.body.includes(destination)) return;
      off();
      resolve(performance.now());
    });
  });
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function withSidecar<T>(
  args: (world: World) => readonly string[],
  count: number,
  work: (world: World, sidecar: Sidecar) => Promise<T>,
): Promise<T> {
  ensureBuilt();
  const world = await makeWorld();
  try {
    const all = many(count);
    seed(world, all);
    for (let file = 0; file < 10; file++) {
      const part = all.slice((file * count) / 10, ((file + 1) * count) / 10);
      writeFileSync(path.join(world.manifests, `${file}.yaml`), rules(...part));
    }
    const sidecar = await startSidecar(world, args(world), { RECONCILE_VERBOSE: 'false' });
    try {
      await sidecar.until(inEffect(), 60_000);
      return await work(world, sidecar);
    } finally {
      await sidecar.stop();
    }
  } finally {
    await world.close();
  }
}

/** From saving a file with a rule more to its write, less the quiet period, and the CPU of the sidecar for that. */
function saveToApplied(count: number): Promise<{ readonly ms: number; readonly cpuMs: number }> {
  return withSidecar(
    (world) => [world.manifests, '--interval', '1h'],
    count,
    async (world, sidecar) => {
      const taken: number[] = [];
      const file = many(count).slice(0, count / 10);
      const { pid } = sidecar.child;
      // The first is with code that was never run before.
      let cpu = 0;
      for (let round = -1; round < rounds; round++) {
        if (round === 0) cpu = cpuMs(pid);
        file.push(`172.16.0.${round + 1}`);
        const done = created(world, `"${file.at(-1)}"`);
        const from = performance.now();
        writeFileSync(path.join(world.manifests, '0.yaml'), rules(...file));
        if (round >= 0) taken.push((await done) - from - quietMs);
        else await done;
        await sidecar.until(inEffect());
      }
      return { ms: median(taken), cpuMs: (cpuMs(pid) - cpu) / rounds };
    },
  );
}

/** From a signed call to the write, with 1,000 rules in Git and one changed. */
async function webhookToApplied(): Promise<number> {
  ensureBuilt();
  const world = await makeWorld();
  const upstream = makeUpstream();
  const host = await serveGit(upstream);
  const secretFile = path.join(world.folder, 'secret');
  writeFileSync(secretFile, 'secret');
  const all = many(1000);
  seed(world, all);
  upstream.commit(
    Object.fromEntries(
      Array.from({ length: 10 }, (_, file) => [`${file}.yaml`, rules(...all.slice(file * 100, file * 100 + 100))]),
    ),
  );
  const sidecar = await startSidecar(world, [
    ...['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http', '--interval', '1h'],
    ...['--webhook-listen', '127.0.0.1:0', '--webhook-secret-file', secretFile],
  ]);
  try {
    await sidecar.until(inEffect(), 60_000);
    const taken: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const destination = `172.16.0.${round}`;
      const commit = upstream.commit({ 'one.yaml': rules(destination) });
      const done = created(world, `"${destination}"`);
      const signature = `sha256=${createHmac('sha256', 'secret').update('{}').digest('hex')}`;
      const from = performance.now();
      await fetch(`${sidecar.webhooks()}/webhook`, {
        method: 'POST',
        body: '{}',
        headers: { 'x-hub-signature-256': signature },
      });
      taken.push((await done) - from);
      await sidecar.until(inEffect(commit));
    }
    return median(taken);
  } finally {
    await sidecar.stop();
    await host.close();
    upstream.remove();
    await world.close();
  }
}

/** CPU and list calls of one idle pass over 10,000 rules. */
function idlePass(): Promise<{ readonly cpuMs: number; readonly calls: number }> {
  return withSidecar(
    (world) => [world.manifests, '--interval', '300ms', '--rescan', '1h'],
    10_000,
    async (world, sidecar) => {
      await until(() => world.sim.requests().length > 20, 120_000);
      const calls = world.sim.requests().length;
      const passes = passesEnded(await sidecar.metrics());
      const cpu = cpuMs(sidecar.child.pid);
      await until(() => world.sim.requests().length > calls + 20, 120_000);
      const more = passesEnded(await sidecar.metrics()) - passes;
      return { cpuMs: (cpuMs(sidecar.child.pid) - cpu) / more, calls: (world.sim.requests().length - calls) / more };
    },
  );
}

/** Resident memory at 1,000 rules after 2,000 passes, and the ratio after 20,000. */
function memory(): Promise<{ readonly early: number; readonly growth: number }> {
  return withSidecar(
    (world) => [world.manifests, '--interval', '1ms', '--rescan', '1h'],
    1000,
    async (_world, sidecar) => {
      const reached = async (count: number): Promise<number> => {
        await until(async () => passesEnded(await sidecar.metrics()) >= count, 600_000);
        return residentMb(sidecar.child.pid);
      };
      const early = await reached(2000);
      const late = await reached(20_000);
      return { early, growth: late / early };
    },
  );
}

function passesEnded(metrics: string): number {
  return [...metrics.matchAll(/^reconcile_passes_total\{.*\} (\d+)$/gm)].reduce(
    (sum, found) => sum + Number(found[1]),
    0,
  );
}

/** User and system time of a process, ms; the kernel counts in ticks of 10 ms. */
function cpuMs(pid: number | undefined): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function residentMb(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

/** Until the whole page has come, of a server with 10,000 rules. */
function pageTime(): Promise<number> {
  return withSidecar(
    (world) => [world.manifests, '--interval', '1h'],
    10_000,
    async (_world, { url }) => {
      const taken: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const from = performance.now();
        const page = await (await fetch(url)).text();
        taken.push(performance.now() - from);
        if (!page.includes('10000 of 10000 rules')) throw new Error('the page does not hold the rules');
      }
      return median(taken);
    },
  );
}

/** Measures once for several figures. */
function once<T>(measure: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | null = null;
  return () => {
    running ??= measure();
    return running;
  };
}

const change = once(() => saveToApplied(10_000));
const idle = once(idlePass);
const resident = once(memory);

/** The sidecar's figures; the limits are promises of docs/how-to/operations.md. */
export const benches: readonly WatchBench[] = [
  {
    name: 'save to applied beyond the quiet period, 1,000 rules (median)',
    unit: 'ms',
    limit: 300,
    measure: async () => (await saveToApplied(1000)).ms,
  },
  {
    name: 'save to applied beyond the quiet period, 10,000 rules (median)',
    unit: 'ms',
    limit: 150,
    measure: async () => (await change()).ms,
  },
  {
    name: 'CPU of a saved change, 10,000 rules',
    unit: 'ms',
    limit: 300,
    measure: async () => (await change()).cpuMs,
  },
  { name: 'webhook to applied, 1,000 rules, one changed (median)', unit: 'ms', limit: 500, measure: webhookToApplied },
  { name: 'CPU of an idle pass, 10,000 rules', unit: 'ms', limit: 150, measure: async () => (await idle()).cpuMs },
  { name: 'page of 10,000 rules (median)', unit: 'ms', limit: 150, measure: pageTime },
  { name: 'API calls of an idle pass', unit: 'calls', limit: 1.05, measure: async () => (await idle()).calls },
  { name: 'resident memory at 1,000 rules', unit: 'MB', limit: 120, measure: async () => (await resident()).early },
  {
    name: 'resident memory after 20,000 passes, to that after 2,000',
    unit: 'ratio',
    limit: 1.1,
    measure: async () => (await resident()).growth,
  },
];

if (process.argv.includes('--print')) {
  for (const { name, unit, limit, measure } of benches) {
    console.log(`${name}: ${(await measure()).toFixed(2)} ${unit} (limit ${limit})`);
  }
}
