import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeUpstream, serveGit } from '../test/controller/support/git-host.ts';
import type { Sidecar, World } from '../test/controller/support/sidecar.ts';
import {
  apiToken,
  ensureBuilt,
  inEffect,
  makeWorld,
  rules,
  startSidecar,
  until,
} from '../test/controller/support/sidecar.ts';
import {
  awaitedCost,
  bareMemory,
  type Cost,
  type Costs,
  costOfRequests,
  cpuMs,
  type Figure,
  type FigureBench,
  linesOf,
  medianOf,
  once,
  residentMb,
} from './figure.ts';

const quietMs = 500;
const rounds = 9;

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

/** The requests of a change, or of a look, and nothing else. */
function requests(world: World, ...methods: readonly ('GET' | 'POST')[]): Promise<Cost> {
  return costOfRequests({ urls: [world.sim.url], token: apiToken, methods, rounds });
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
function saveToApplied(count: number): Promise<Costs> {
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
      const ours = { wall: medianOf(taken), cpu: (cpuMs(pid) - cpu) / rounds };
      return { ours, floor: await requests(world, 'GET', 'POST') };
    },
  );
}

/** From a signed call to the write, with 1,000 rules in Git and one changed. */
async function webhookToApplied(): Promise<Figure> {
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
    return { ours: medianOf(taken), floor: (await requests(world, 'GET', 'POST')).wall };
  } finally {
    await sidecar.stop();
    await host.close();
    upstream.remove();
    await world.close();
  }
}

/** CPU and list calls of one idle pass over 10,000 rules. */
function idlePass(): Promise<{ readonly cpuMs: number; readonly calls: number; readonly floor: Cost }> {
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
      const [spent, asked] = [cpuMs(sidecar.child.pid) - cpu, world.sim.requests().length - calls];
      return { cpuMs: spent / more, calls: asked / more, floor: await requests(world, 'GET') };
    },
  );
}

/** Resident memory at 1,000 rules after 1,000 passes, and after 10,000. */
function memory(): Promise<{ readonly early: number; readonly late: number }> {
  return withSidecar(
    (world) => [world.manifests, '--interval', '1ms', '--rescan', '1h'],
    1000,
    async (_world, sidecar) => {
      const reached = async (count: number): Promise<number> => {
        await until(async () => passesEnded(await sidecar.metrics()) >= count, 600_000);
        return residentMb(sidecar.child.pid);
      };
      const early = await reached(1000);
      return { early, late: await reached(10_000) };
    },
  );
}

function passesEnded(metrics: string): number {
  return [...metrics.matchAll(/^reconcile_passes_total\{.*\} (\d+)$/gm)].reduce(
    (sum, found) => sum + Number(found[1]),
    0,
  );
}

/** Until the whole page has come, of a server with 10,000 rules. */
function pageTime(): Promise<Costs> {
  return withSidecar(
    (world) => [world.manifests, '--interval', '1h'],
    10_000,
    async (world, { url, child }) => {
      const load = async () => {
        const page = await (await fetch(url)).text();
        if (!page.includes('10000 of 10000 rules')) throw new Error('the page does not hold the rules');
      };
      return { ours: await awaitedCost(load, rounds, child.pid), floor: await requests(world, 'GET') };
    },
  );
}

const idle = once(idlePass);
const resident = once(memory);
const quiet = 'save to applied beyond the quiet period';

/** The sidecar's figures; the limits are promises of docs/how-to/operations.md. */
export const benches: readonly FigureBench[] = [
  ...linesOf({ name: `${quiet}, 1,000 rules (median)`, counts: 'ours', limit: 300 }, () => saveToApplied(1000)),
  ...linesOf({ name: `${quiet}, 10,000 rules (median)`, counts: 'ours', limit: { cpu: 300, wall: 150 } }, () =>
    saveToApplied(10_000),
  ),
  {
    name: 'webhook to applied, 1,000 rules, one changed (median): wall time',
    unit: 'ms',
    counts: 'ours',
    limit: 500,
    measure: webhookToApplied,
  },
  {
    name: 'CPU of an idle pass, 10,000 rules',
    unit: 'ms',
    counts: 'ours',
    limit: 150,
    measure: async () => ({ ours: (await idle()).cpuMs, floor: (await idle()).floor.cpu }),
  },
  ...linesOf({ name: 'page of 10,000 rules (median)', counts: 'ours', limit: 150 }, pageTime),
  {
    name: 'API calls of an idle pass',
    unit: 'calls',
    counts: 'ours',
    limit: 1.05,
    measure: async () => ({ ours: (await idle()).calls, floor: 1 }),
  },
  {
    name: 'resident memory at 1,000 rules',
    unit: 'MB',
    counts: 'ours',
    limit: 120,
    measure: async () => ({ ours: (await resident()).early, floor: bareMemory() }),
  },
  {
    name: 'resident memory after 10,000 passes, to that after 1,000',
    unit: 'MB',
    counts: 'ratio',
    limit: 1.1,
    measure: async () => ({ ours: (await resident()).late, floor: (await resident()).early }),
  },
];
