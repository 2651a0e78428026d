import { fork, spawn } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { isObject } from '../src/model/result.ts';
import { startSimulator } from '../src/simulator/server.ts';
import { apiToken, binary, ensureBuilt, rules } from '../test/controller/support/sidecar.ts';
import { bareMemory, costOfRequests, cpuMs, type Figure, type FigureBench, once, residentMb } from './figure.ts';

const rulesOfEach = 100;
const destinations = Array.from({ length: rulesOfEach }, (_, index) => `10.0.0.${index}`);
const patienceMs = 600_000;
/** Every fleet is looked at so often, whatever its size: what a process does beside passes costs each of them the same a second. */
const passesPerSecond = 33;
/** Figures are the least of so many, taken in turns: what else the machine does meanwhile is in none of them alone. */
const rounds = 4;
const roundMs = 30_000;

/** Looks now and then: a look at a thousand targets costs what would be measured. */
async function until(condition: () => boolean | Promise<boolean>, everyMs = 1000): Promise<void> {
  const limit = performance.now() + patienceMs;
  while (!(await condition())) {
    if (performance.now() > limit) throw new Error('it did not get there');
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What the process of the simulated servers tells: where they are, and how many rules were created and lists read. */
interface Told {
  readonly urls?: readonly string[];
  readonly created: number;
  readonly reads: number;
}

/** In a process of its own: so many simulated servers, and a message when a rule is created, or somebody asks. */
async function serveMany(count: number): Promise<void> {
  // As at intervals of a minute: else a small fleet, which is looked at more often here, would keep its connections, and a large one not.
  subscribe('http.server.request.start', (started) => {
    if (isObject(started) && started['response'] instanceof ServerResponse) started['response'].shouldKeepAlive = false;
  });
  const told = { created: 0, reads: 0 };
  const urls: string[] = [];
  for (let server = 0; server < count; server++) {
    const simulator = await startSimulator({ token: apiToken });
    simulator.seed(destinations.map((destination) => ({ action: 'accept' as const, destination })));
    simulator.onCall(({ method, path: place }) => {
      if (method === 'GET' && place.startsWith('/v0/rules')) told.reads++;
      if (method !== 'POST') return;
      told.created++;
      process.send?.(told);
    });
    urls.push(simulator.url);
  }
  process.on('message', () => process.send?.(told));
  process.send?.({ urls, ...told });
}

if (process.argv[2] === '--serve') await serveMany(Number(process.argv[3]));

type Fleet = Awaited<ReturnType<typeof openFleet>>;

/** A watch of a fleet that is in sync, `hanging` of whose servers accept connections and never answer. */
async function openFleet(servers: number, hanging = 0) {
  ensureBuilt();
  const folder = mkdtempSync(path.join(tmpdir(), 'fleet-'));
  const manifests = path.join(folder, 'policy');
  mkdirSync(manifests);
  writeFileSync(path.join(manifests, 'all.yaml'), rules(...destinations));
  writeFileSync(path.join(folder, 'token'), `${apiToken}\n`, { mode: 0o600 });
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const simulators = fork(fileURLToPath(import.meta.url), ['--serve', String(servers)]);
  let told: Told = { created: 0, reads: 0 };
  const urls = await new Promise<readonly string[]>((resolve, reject) => {
    simulators.once('exit', (code) => reject(new Error(`the simulated servers ended with ${code}`)));
    simulators.on('message', (now: Told) => {
      told = now;
      if (now.urls !== undefined) resolve(now.urls);
    });
  });
  const address = silent.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const all = [...urls, ...Array.from({ length: hanging }, (_, index) => `http://127.0.0.1:${port}/${index}`)];
  const targets = all.map((url, index) => `  - {name: t${index}, baseUrl: "${url}"}\n`).join('');
  writeFileSync(path.join(folder, 'fleet.yaml'), `defaults: {path: policy, tokenFile: token}\ntargets:\n${targets}`);
  const interval = Math.round((1000 * servers) / passesPerSecond);
  const child = spawn(
    process.execPath,
    [
      binary,
      'watch',
      '--fleet',
      'fleet.yaml',
      '--listen',
      '127.0.0.1:0',
      '--log-format',
      'json',
      '--interval',
      `${interval}ms`,
    ],
    { cwd: folder, env: { PATH: process.env['PATH'] ?? '', HOME: folder }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let output = '';
  let url = '';
  child.stderr?.on('data', (chunk) => {
    output = (output + String(chunk)).slice(-5000);
    url ||= /"address":"(http[^"]+)"/.exec(output)?.[1] ?? '';
  });
  let isOpen = true;
  const close = (): void => {
    isOpen = false;
    for (const process of [child, simulators]) process.kill('SIGKILL');
    silent.close();
    rmSync(folder, { recursive: true, force: true });
  };
  const alive = (): void => {
    if (isOpen && child.exitCode !== null) throw new Error(`the sidecar ended: ${output.slice(-500)}`);
  };
  const isInSync = async (): Promise<boolean> => {
    alive();
    const page = await (await fetch(url, { signal: AbortSignal.timeout(30_000) })).text();
    return Number(/(\d+) of \d+ targets in sync/.exec(page)?.[1]) >= servers;
  };
  await until(() => {
    alive();
    return url !== '';
  }, 20);
  await until(isInSync);
  let changes = 0;
  return {
    close,
    memoryMb: (): number => residentMb(child.pid),
    readAll: () => costOfRequests({ urls, token: apiToken, methods: ['GET'], rounds: 1 }),
    /** CPU of it, ms, and how often it has read a server. */
    async spent() {
      const asked = new Promise((resolve) => simulators.once('message', resolve));
      simulators.send('?');
      await asked;
      return { cpu: cpuMs(child.pid), reads: told.reads };
    },
    /** The time until one more rule has reached all that answer. */
    async change(): Promise<number> {
      const before = told.created;
      const from = performance.now();
      writeFileSync(path.join(manifests, `new${++changes}.yaml`), rules(`172.16.0.${changes}`));
      await until(() => told.created >= before + servers, 20);
      return performance.now() - from;
    },
  };
}

/** Fleets of these sizes at once. */
async function withFleets<T>(sizes: readonly number[], work: (fleets: readonly Fleet[]) => Promise<T>): Promise<T> {
  const fleets: Fleet[] = [];
  try {
    for (const size of sizes) fleets.push(await openFleet(size));
    return await work(fleets);
  } finally {
    for (const { close } of fleets) close();
  }
}

/** CPU of one pass of one server, ms, in fleets that run beside each other: each the least of several rounds. */
async function costOfPass(fleets: readonly Fleet[]): Promise<readonly number[]> {
  const least = fleets.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < rounds; round++) {
    const before = await Promise.all(fleets.map((fleet) => fleet.spent()));
    await pause(roundMs);
    const after = await Promise.all(fleets.map((fleet) => fleet.spent()));
    for (const [index, { cpu, reads }] of after.entries()) {
      const from = before[index] ?? { cpu, reads };
      least[index] = Math.min(least[index] ?? Number.NaN, (cpu - from.cpu) / (reads - from.reads));
    }
  }
  return least;
}

const idle = once(() =>
  withFleets([10, 1000], async (fleets) => {
    const [few = Number.NaN, many = Number.NaN] = await costOfPass(fleets);
    const [, large] = fleets;
    if (large === undefined) throw new Error('no fleet');
    return { few, many, memoryMb: large.memoryMb(), changeMs: await large.change(), floor: await large.readAll() };
  }),
);

/** The time of a change with 100 of 1,000 that hang, and with none: each the least of changes in turns. */
async function changeBesideHanging(): Promise<Figure> {
  const [whole, part] = [await openFleet(1000), await openFleet(900, 100)];
  const least = { ours: Number.POSITIVE_INFINITY, floor: Number.POSITIVE_INFINITY };
  try {
    for (let round = 0; round < rounds; round++) {
      least.floor = Math.min(least.floor, 0.9 * (await whole.change()));
      least.ours = Math.min(least.ours, await part.change());
    }
    return least;
  } finally {
    for (const { close } of [whole, part]) close();
  }
}

/** 1,000 servers with 100 rules each. */
export const fleetBenches: readonly FigureBench[] = [
  {
    name: 'fleet: CPU of one idle pass of 1,000 servers x 100 rules',
    unit: 'ms',
    counts: 'ours',
    limit: 15_000,
    measure: async () => ({ ours: 1000 * (await idle()).many, floor: (await idle()).floor.cpu }),
  },
  {
    name: 'fleet: memory with 1,000 servers x 100 rules',
    unit: 'MB',
    counts: 'ours',
    limit: 500,
    measure: async () => ({ ours: (await idle()).memoryMb, floor: bareMemory() }),
  },
  {
    name: 'fleet: change in a shared file to applied on 1,000 servers: wall time',
    unit: 'ms',
    counts: 'ours',
    limit: 60_000,
    measure: async () => ({ ours: (await idle()).changeMs, floor: (await idle()).floor.wall }),
  },
  {
    name: 'fleet: CPU of a pass of one server among 1,000, beside among 10',
    unit: 'ms',
    counts: 'ratio',
    limit: 1.2,
    measure: async () => ({ ours: (await idle()).many, floor: (await idle()).few }),
  },
  {
    name: 'fleet: change to applied on 900 while 100 more hang, beside 0.9 × that on 1,000',
    unit: 'ms',
    counts: 'ratio',
    limit: 1.2,
    measure: changeBesideHanging,
  },
];

/** Sizes by themselves, beside each other, for looking closer: `FLEET=10,100,1000`. */
if (process.env['FLEET'] !== undefined && process.argv[2] !== '--serve') {
  console.log(await withFleets(process.env['FLEET'].split(',').map(Number), costOfPass));
  process.exit(0);
}
