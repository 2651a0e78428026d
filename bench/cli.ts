import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';

/** One figure of the built command with its limit, beside a floor measured in the same run. */
export interface CliBench {
  readonly name: string;
  readonly unit: 'ms' | 'ratio' | 'MB';
  readonly limit: number;
  readonly measure: () => number | Promise<number>;
}

const root = new URL('..', import.meta.url).pathname.replace(/dist\/$/, '');
const command = join(root, 'dist/reconcile.js');

/** What one run took, in ms on the clock and of all processors, and the most memory it held, in MB. */
interface Cost {
  readonly wall: number;
  readonly cpu: number;
  readonly peak: number;
}

/** Median cost of two runs of node, in turns so that both see the same machine. */
function inTurns(runs: number, a: () => Cost, b: () => Cost): readonly [Cost, Cost] {
  const costs: readonly [Cost[], Cost[]] = [[], []];
  for (let run = 0; run <= runs; run++) {
    for (const [index, work] of [a, b].entries()) {
      const cost = work();
      if (run > 0) costs[index]?.push(cost);
    }
  }
  const medianOf = (list: readonly Cost[]): Cost => ({
    wall: median(list.map(({ wall }) => wall)),
    cpu: median(list.map(({ cpu }) => cpu)),
    peak: median(list.map(({ peak }) => peak)),
  });
  return [medianOf(costs[0]), medianOf(costs[1])];
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const atExit =
  "process.on('exit', () => { const { user, system } = process.cpuUsage(); process.stderr.write('cpu ' + (user + system) + ' ' + process.resourceUsage().maxRSS); })";

function node(args: readonly string[], env: Readonly<Record<string, string>> = {}): Cost {
  const started = performance.now();
  const run = spawnSync(process.execPath, ['--import', `data:text/javascript,${atExit}`, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    encoding: 'utf8',
    maxBuffer: 1e9,
  });
  const wall = performance.now() - started;
  const [, cpu, peak] = /cpu ([0-9]+) ([0-9]+)$/.exec(run.stderr) ?? [];
  if (run.status !== 0) throw new Error(`${args.join(' ')}: ${run.status}\n${run.stderr}`);
  return { wall, cpu: Number(cpu) / 1000, peak: Number(peak) / 1024 };
}

/** What any tool has to do at least: both GETs, JSON.parse, and the YAML with places. */
const floor = `
import { readdirSync, readFileSync } from 'node:fs';
import { LineCounter, parseAllDocuments } from 'yaml';
const [, , url, token, folder] = process.argv;
const headers = { accept: 'application/json', authorization: 'Bearer ' + token };
await Promise.all(['rules', 'configuration'].map(async (name) => JSON.parse(await (await fetch(url + '/v0/' + name, { headers })).text())));
for (const file of readdirSync(folder)) parseAllDocuments(readFileSync(folder + '/' + file, 'utf8'), { lineCounter: new LineCounter() });
process.exit(0);
`;

const rules = 10_000;

/** A plan of 10,000 rules in 10 RuleSets without changes, over the cost of the floor. */
async function planRatio(of: keyof Cost): Promise<number> {
  // Beside node_modules, so that it finds the parser.
  const floorFile = join(root, 'dist', 'bench-floor.mjs');
  return onServer(({ url, token, folder, env }) => {
    const manifests = join(folder, 'manifests');
    mkdirSync(manifests);
    for (let file = 0; file < 10; file++) writeFileSync(join(manifests, `f${file}.yaml`), manifest(file));
    writeFileSync(floorFile, floor);
    node([command, '--yes', '--concurrency', '16', manifests], env);
    const [ours, least] = inTurns(
      5,
      () => node([command, '--plan', manifests], env),
      () => node([floorFile, url, token, manifests]),
    );
    rmSync(floorFile, { force: true });
    return ours[of] / least[of];
  });
}

/** What every start costs: a plan of two rules, beside `node -e 0`. */
async function smallPlan(read: (plan: Cost, bare: Cost) => number): Promise<number> {
  return onServer(({ folder, env }) => {
    const manifests = join(folder, 'two');
    mkdirSync(manifests);
    writeFileSync(join(manifests, 'two.yaml'), manifest(0, 2));
    const [plan, bare] = inTurns(
      11,
      () => node([command, '--plan', manifests], env),
      () => node(['-e', '0']),
    );
    return read(plan, bare);
  });
}

interface BenchServer {
  readonly url: string;
  readonly token: string;
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
}

async function onServer(work: (server: BenchServer) => number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  const server = spawn(process.execPath, [command, 'simulate', '--port', '0', '--token-file', join(folder, 'token')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const url = await new Promise<string>((resolve) => {
      createInterface({ input: server.stdout }).once('line', (line) => resolve(line.replace('listening ', '')));
    });
    const env = { RECONCILE_BASE_URL: url, RECONCILE_TOKEN_FILE: join(folder, 'token') };
    return work({ url, token: readFileSync(join(folder, 'token'), 'utf8').trim(), folder, env });
  } finally {
    server.kill('SIGTERM');
    rmSync(folder, { recursive: true, force: true });
  }
}

function manifest(file: number, count = rules / 10): string {
  const items = Array.from({ length: count }, (_, index) => {
    const n = file * count + index;
    return `    - name: r${n}\n      action: ${n % 3 === 0 ? 'drop' : 'accept'}\n      destination: 10.${n >> 8}.${n & 255}.0/24\n`;
  });
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s${file}}\nspec:\n  rules:\n${items.join('')}`;
}

let built: string | null = null;

/** Builds the single executable, once; gives its path. */
function executable(): string {
  built ??= execFileSync(process.execPath, [join(root, 'scripts/executable.mjs')], { encoding: 'utf8' }).trim();
  return built.split('\n').at(-1) ?? '';
}

function timed(program: string, args: readonly string[]): Cost {
  const started = performance.now();
  execFileSync(program, args);
  return { wall: performance.now() - started, cpu: 0, peak: 0 };
}

/** The size of what npm would publish, packed. */
function packedMb(): number {
  const tree = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  try {
    for (const [script, ...args] of [['types.mjs'], ['release-tree.mjs', tree]])
      execFileSync(process.execPath, [join(root, 'scripts', script ?? ''), ...args], { stdio: 'ignore' });
    const packed = execFileSync('npm', ['pack', '--dry-run', '--json'], { cwd: tree, encoding: 'utf8' });
    return Number(/"size": ([0-9]+),\s+"unpackedSize"/.exec(packed)?.[1]) / 1e6;
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
}

/** The figures of the command itself. */
export const benches: readonly CliBench[] = [
  {
    name: 'reconcile --version over `node -e 0`',
    unit: 'ms',
    limit: 40,
    measure: () => {
      const [version, bare] = inTurns(
        15,
        () => node([command, '--version']),
        () => node(['-e', '0']),
      );
      return version.wall - bare.wall;
    },
  },
  {
    name: 'the executable: --version over `node dist/reconcile.js --version`',
    unit: 'ms',
    limit: 60,
    measure: () => {
      const [one, other] = inTurns(
        15,
        () => timed(executable(), ['--version']),
        () => timed(process.execPath, [command, '--version']),
      );
      return one.wall - other.wall;
    },
  },
  { name: 'the executable: size', unit: 'MB', limit: 110, measure: () => statSync(executable()).size / 1e6 },
  { name: 'the package, packed: size', unit: 'MB', limit: 2, measure: packedMb },
  {
    name: 'a plan of two rules over `node -e 0`: wall time',
    unit: 'ms',
    limit: 150,
    measure: () => smallPlan((plan, bare) => plan.wall - bare.wall),
  },
  {
    name: 'a plan of two rules over `node -e 0`: CPU',
    unit: 'ratio',
    limit: 4.5,
    measure: () => smallPlan((plan, bare) => plan.cpu / bare.cpu),
  },
  { name: 'a plan of two rules: memory', unit: 'MB', limit: 90, measure: () => smallPlan(({ peak }) => peak) },
  ...(['cpu', 'wall'] as const).map(
    (of): CliBench => ({
      name: `a plan of 10,000 rules in 10 RuleSets, in sync, over its floor: ${of === 'cpu' ? 'CPU' : 'wall time'}`,
      unit: 'ratio',
      limit: of === 'cpu' ? 1.25 : 1.3,
      measure: () => planRatio(of),
    }),
  ),
];
