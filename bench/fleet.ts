import { type ChildProcess, fork, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startSimulator } from '../src/simulator/server.ts';
import { apiToken, binary, ensureBuilt, rules } from '../test/controller/support/sidecar.ts';
import { bareMemory, type Cost, costOfRequests, cpuMs, type FigureBench, residentMb } from './figure.ts';

const rulesOfEach = 100;
const destinations = Array.from({ length: rulesOfEach }, (_, index) => `10.0.0.${index}`);
const patienceMs = 600_000;
/** Fewer take too few ticks of CPU to be counted. */
const leastPasses = 100;

/** Looks now and then: a look at a thousand targets costs what would be measured. */
async function until(condition: () => boolean | Promise<boolean>, everyMs = 1000): Promise<void> {
  const limit = performance.now() + patienceMs;
  while (!(await condition())) {
    if (performance.now() > limit) throw new Error('it did not get there');
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** In a process of its own: so many simulated servers, and a message for each rule that a client creates. */
async function serveMany(count: number): Promise<void> {
  let created = 0;
  const urls: string[] = [];
  for (let server = 0; server < count; server++) {
    const simulator = await startSimulator({ token: apiToken });
    simulator.seed(destinations.map((destination) => ({ action: 'accept' as const, destination })));
    simulator.onCall(({ method }) => {
      if (method === 'POST') process.send?.({ created: ++created });
    });
    urls.push(simulator.url);
  }
  process.send?.({ urls });
}

if (process.argv[2] === '--serve') await serveMany(Number(process.argv[3]));

interface Fleet {
  readonly manifests: string;
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly created: () => number;
  readonly passes: () => Promise<number>;
  readonly inSync: () => Promise<number>;
  readonly readAll: () => Promise<Cost>;
}

/** A watch of a fleet, `hanging` of whose servers accept connections and never answer. */
async function withFleet<T>(
  { servers, hanging, more }: { readonly servers: number; readonly hanging: number; readonly more: readonly string[] },
  work: (fleet: Fleet) => Promise<T>,
): Promise<T> {
  ensureBuilt();
  const folder = mkdtempSync(path.join(tmpdir(), 'fleet-'));
  const manifests = path.join(folder, 'policy');
  mkdirSync(manifests);
  writeFileSync(path.join(manifests, 'all.yaml'), rules(...destinations));
  writeFileSync(path.join(folder, 'token'), `${apiToken}\n`, { mode: 0o600 });
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const simulators = fork(fileURLToPath(import.meta.url), ['--serve', String(servers)]);
  let created = 0;
  const urls = await new Promise<readonly string[]>((resolve) => {
    simulators.on('message', (told: { readonly urls?: readonly string[]; readonly created?: number }) => {
      created = told.created ?? created;
      if (told.urls !== undefined) resolve(told.urls);
    });
  });
  const address = silent.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const all = [...urls, ...Array.from({ length: hanging }, (_, index) => `http://127.0.0.1:${port}/${index}`)];
  const targets = all.map((url, index) => `  - {name: t${index}, baseUrl: "${url}"}\n`).join('');
  writeFileSync(path.join(folder, 'fleet.yaml'), `defaults: {path: policy, tokenFile: token}\ntargets:\n${targets}`);
  const child = spawn(
    process.execPath,
    [binary, 'watch', '--fleet', 'fleet.yaml', '--listen', '127.0.0.1:0', '--log-format', 'json', ...more],
    { cwd: folder, env: { PATH: process.env['PATH'] ?? '', HOME: folder }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let output = '';
  let url = '';
  child.stderr?.on('data', (chunk) => {
    output = (output + String(chunk)).slice(-5000);
    url ||=
      /Serving the status","address":"([^"]+)|"address":"([^"]+)","msg":"Serving the status/.exec(output)?.[1] ?? '';
    url ||= /"address":"(http[^"]+)"/.exec(output)?.[1] ?? '';
  });
  const ended = new Promise<never>((_resolve, reject) =>
    child.once('exit', (code) => reject(new Error(`the sidecar ended with ${code}: ${output.slice(-500)}`))),
  );
  const get = async (place: string): Promise<string> =>
    await (await fetch(`${url}${place}`, { signal: AbortSignal.timeout(30_000) })).text();
  try {
    await until(() => url !== '', 20);
    return await Promise.race([
      ended,
      work({
        manifests,
        child,
        output: () => output,
        created: () => created,
        passes: async () =>
          [...(await get('/metrics')).matchAll(/^reconcile_passes_total\{.*\} (\d+)$/gm)].reduce(
            (sum, found) => sum + Number(found[1]),
            0,
          ),
        readAll: () => costOfRequests({ urls, token: apiToken, methods: ['GET'], rounds: 1 }),
        inSync: async () => Number(/(\d+) of \d+ targets in sync/.exec(await get('/'))?.[1]),
      }),
    ]);
  } finally {
    ended.catch(() => undefined);
    child.kill('SIGKILL');
    simulators.kill('SIGKILL');
    silent.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Figures {
  readonly cpuMs: number;
  readonly memoryMb: number;
  readonly changeMs: number;
  /** One read of each server in the same minute by nothing but `fetch` and `JSON.parse`. */
  readonly floor: Cost;
}

/** CPU of one idle pass of all, memory then, and the time until a change has reached all that answer. */
function measureFleet(servers: number, hanging: number): Promise<Figures> {
  const interval = Math.max(5, servers / 33);
  return withFleet({ servers, hanging, more: ['--interval', `${Math.round(interval)}s`] }, async (fleet) => {
    const { child, manifests } = fleet;
    await until(async () => (await fleet.inSync()) >= servers);
    const [passes, cpu] = [await fleet.passes(), cpuMs(child.pid)];
    // With some that hang, only the time of a change is looked at.
    const looked = passes + (hanging > 0 ? 1 : Math.max(servers, leastPasses));
    await until(async () => (await fleet.passes()) >= looked, 5_000);
    const spent = ((cpuMs(child.pid) - cpu) / ((await fleet.passes()) - passes)) * servers;
    const memoryMb = residentMb(child.pid);
    const from = performance.now();
    writeFileSync(path.join(manifests, 'new.yaml'), rules('172.16.0.1'));
    await until(() => fleet.created() >= servers, 20);
    const changeMs = performance.now() - from;
    return { cpuMs: spent, memoryMb, changeMs, floor: await fleet.readAll() };
  });
}

const measured = new Map<string, Promise<Figures>>();

function figuresOf(servers: number, hanging = 0): Promise<Figures> {
  const key = `${servers} ${hanging}`;
  const figures = measured.get(key) ?? measureFleet(servers, hanging);
  measured.set(key, figures);
  return figures;
}

function line(
  name: string,
  { unit, counts, limit }: Pick<FigureBench, 'unit' | 'counts' | 'limit'>,
  ours: (figures: Figures) => number,
  floor: (figures: Figures) => number | Promise<number>,
): FigureBench {
  const measure = async () => {
    const figures = await figuresOf(1000);
    return { ours: ours(figures), floor: await floor(figures) };
  };
  return { name: `fleet: ${name}`, unit, counts, limit, measure };
}

/** What each server beyond the first few adds to an idle pass of all. */
async function cpuOfOne(few: number, many: number): Promise<number> {
  return ((await figuresOf(many)).cpuMs - (await figuresOf(few)).cpuMs) / (many - few);
}

/** 1,000 servers with 100 rules each. */
export const fleetBenches: readonly FigureBench[] = [
  line(
    'CPU of one idle pass of 1,000 servers x 100 rules',
    { unit: 'ms', counts: 'ours', limit: 15_000 },
    ({ cpuMs }) => cpuMs,
    ({ floor }) => floor.cpu,
  ),
  line(
    'memory with 1,000 servers x 100 rules',
    { unit: 'MB', counts: 'ours', limit: 500 },
    ({ memoryMb }) => memoryMb,
    bareMemory,
  ),
  line(
    'change in a shared file to applied on 1,000 servers: wall time',
    { unit: 'ms', counts: 'ours', limit: 60_000 },
    ({ changeMs }) => changeMs,
    ({ floor }) => floor.wall,
  ),
  {
    // What a process takes whatever it watches is in both figures of a difference, and falls out.
    name: 'fleet: CPU of each further server from 100 to 1,000, beside from 10 to 100',
    unit: 'ms',
    counts: 'ratio',
    limit: 1.5,
    measure: async () => ({ ours: await cpuOfOne(100, 1000), floor: await cpuOfOne(10, 100) }),
  },
  {
    name: 'fleet: change to applied on 900 while 100 more hang, beside 0.9 × that on 1,000',
    unit: 'ms',
    counts: 'ratio',
    limit: 1.2,
    measure: async () => ({
      ours: (await figuresOf(900, 100)).changeMs,
      floor: 0.9 * (await figuresOf(1000)).changeMs,
    }),
  },
];

/** One size by itself, for looking closer: `FLEET=100,0`. */
if (process.env['FLEET'] !== undefined && process.argv[2] !== '--serve') {
  const [servers = 10, hanging = 0] = process.env['FLEET'].split(',').map(Number);
  console.log(await figuresOf(servers, hanging));
  process.exit(0);
}
