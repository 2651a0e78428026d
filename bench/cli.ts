import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import module from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { gzipSync } from 'node:zlib';
import { bareMemory, type Figure, type FigureBench, linesOf, medianOf, once, type Cost as Time } from './figure.ts';

const root = new URL('..', import.meta.url).pathname.replace(/dist\/$/, '');
const command = join(root, 'dist/reconcile.js');

/** What one run took, and the most memory it held, in MB. */
interface Cost extends Time {
  readonly memory: number;
}

type Run = () => Cost;

/** Median cost of each run of node, in turns so that all see the same machine. The first round warms up. */
function inTurns<const R extends readonly Run[]>(rounds: number, ...runs: R): { readonly [I in keyof R]: Cost } {
  const costs = runs.map((): Cost[] => []);
  for (let round = 0; round <= rounds; round++) {
    for (const [index, run] of runs.entries()) {
      const cost = run();
      if (round > 0) costs[index]?.push(cost);
    }
  }
  return costs.map((list) => ({
    wall: medianOf(list.map(({ wall }) => wall)),
    cpu: medianOf(list.map(({ cpu }) => cpu)),
    memory: medianOf(list.map(({ memory }) => memory)),
  })) as { readonly [I in keyof R]: Cost };
}

const scratch = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

/** Loaded first by each run: says at its end how much memory it held. */
const meter = join(scratch, 'meter.cjs');
writeFileSync(meter, "process.on('exit', () => process.stderr.write('memory ' + process.resourceUsage().maxRSS));");

/** CPU as the shell counts it: with what Node does after the last line of ours. */
const timed = ['-c', 'TIMEFORMAT=" cpu %U %S"; time "$@"', 'bash', process.execPath, '--require', meter];

function node(args: readonly string[], env: Readonly<Record<string, string>> = {}, exit = 0): Cost {
  const started = performance.now();
  const run = spawnSync('bash', [...timed, ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    encoding: 'utf8',
    maxBuffer: 1e9,
  });
  const wall = performance.now() - started;
  const [, memory, user, system] = /memory (\S+) cpu (\S+) (\S+)\s*$/.exec(run.stderr) ?? [];
  if (run.status !== exit) throw new Error(`${args.join(' ')}: ${run.status}\n${run.stderr}`);
  return { wall, cpu: (Number(user) + Number(system)) * 1000, memory: Number(memory) / 1024 };
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

/** A plan of so many rules in RuleSets of 1,000 without changes, and the floor of that. */
async function planInSync(count: number, rounds: number): Promise<readonly [Cost, Cost]> {
  // Beside node_modules, so that it finds the parser.
  const floorFile = join(root, 'dist', 'bench-floor.mjs');
  return onServer(({ url, token, folder, env }) => {
    const manifests = join(folder, 'manifests');
    mkdirSync(manifests);
    for (let from = 0; from < count; from += 1000)
      writeFileSync(join(manifests, `f${from}.yaml`), manifest(from, Math.min(1000, count - from)));
    writeFileSync(floorFile, floor);
    node([command, '--yes', '--concurrency', '16', manifests], env);
    const plan: Run = () => node([command, '--plan', manifests], env);
    const costs = inTurns(rounds, plan, () => node([floorFile, url, token, manifests]));
    rmSync(floorFile, { force: true });
    return costs;
  });
}

/** Bringing 10,000 rules in 10 RuleSets into form, all of them to be changed, and a plan of them. */
const formatAndPlan = once(() =>
  onServer(({ folder, env }) => {
    const manifests = join(folder, 'manifests');
    mkdirSync(manifests);
    for (let from = 0; from < 10_000; from += 1000)
      writeFileSync(join(manifests, `f${from}.yaml`), untidy(manifest(from, 1000)));
    node([command, '--yes', '--concurrency', '16', manifests], env);
    const format: Run = () => node([command, 'fmt', '--check', manifests], env, 1);
    return inTurns(5, format, () => node([command, '--plan', manifests], env));
  }),
);

/** The most memory that `fmt` holds for one document of 60,000 rules, all of them to be changed. */
function formatPeak(): number {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  try {
    writeFileSync(join(folder, 'all.yaml'), untidy(manifest(0, 60_000)));
    return node([command, 'fmt', '--check', folder], {}, 1).memory;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The fields of each rule in another order. */
function untidy(text: string): string {
  return text.replaceAll(/- (name: .*)\n {6}(action: .*)\n/g, '- $2\n      $1\n');
}

/** Whether this Node keeps what it compiled for the next start. */
const keepsCompiled = 'enableCompileCache' in module;

interface Start {
  readonly bare: Cost;
  readonly cold: Cost;
  /** With what an earlier start compiled. */
  readonly warm: Cost;
}

/** What a start of the command takes beside `node -e 0`, on an empty server and a folder with a set of two rules, or of none. */
function startOf(args: readonly string[]): Promise<Start> {
  return onServer(({ folder, env }) => {
    const manifests = join(folder, 'two');
    mkdirSync(manifests);
    writeFileSync(join(manifests, 'two.yaml'), manifest(0, args.includes('EMPTY') ? 0 : 2));
    const words = args.map((word) => (word === 'TWO' || word === 'EMPTY' ? manifests : word));
    const bare: Run = () => node(['-e', '0']);
    const cold: Run = () => node([command, ...words], { ...env, CI: 'true' });
    if (!keepsCompiled) {
      const [first, second] = inTurns(9, bare, cold);
      return { bare: first, cold: second, warm: second };
    }
    // Where nobody else can write.
    const cache = mkdtempSync(join(root, 'build', 'cache-'));
    const [first, second, third] = inTurns(9, bare, cold, () =>
      node([command, ...words], { ...env, XDG_CACHE_HOME: cache }),
    );
    rmSync(cache, { recursive: true });
    return { bare: first, cold: second, warm: third };
  });
}

interface BenchServer {
  readonly url: string;
  readonly token: string;
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
}

async function onServer<T>(work: (server: BenchServer) => T): Promise<T> {
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

function manifest(from: number, count: number): string {
  const items = Array.from({ length: count }, (_, index) => {
    const n = from + index;
    return `    - name: r${n}\n      action: ${n % 3 === 0 ? 'drop' : 'accept'}\n      destination: ${10 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}.0/24\n`;
  });
  const rules = count === 0 ? ' []\n' : `\n${items.join('')}`;
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s${from}}\nspec:\n  rules:${rules}`;
}

let built: string | null = null;

/** Builds the single executable, once; gives its path. */
function executable(): string {
  built ??= execFileSync(process.execPath, [join(root, 'scripts/executable.mjs')], { encoding: 'utf8' }).trim();
  return built.split('\n').at(-1) ?? '';
}

function clock(program: string, args: readonly string[]): Cost {
  const started = performance.now();
  execFileSync(program, args);
  return { wall: performance.now() - started, cpu: 0, memory: 0 };
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

/** A start of this command: CPU and wall time over `node -e 0`, with nothing kept from earlier starts and, where Node keeps it, with it. */
function startLines(
  words: string,
  most: { readonly cold: number; readonly warm: number },
  start = once(() => startOf(words.split(' '))),
): readonly FigureBench[] {
  const name = `\`reconcile ${words.replace('TWO', 'PATH').replace('EMPTY', 'PATH')}\``;
  const what = words.includes('TWO') ? ', two rules' : words.includes('EMPTY') ? ', no rules' : '';
  return (keepsCompiled ? (['cold', 'warm'] as const) : (['cold'] as const)).flatMap((kept) =>
    linesOf(
      {
        name: `start-up: ${name}${what}${kept === 'warm' ? ', compiled before' : ''}, over \`node -e 0\``,
        counts: 'over',
        limit: most[kept],
      },
      async () => {
        const costs = await start();
        return { ours: costs[kept], floor: costs.bare };
      },
    ),
  );
}

const offline = { cold: 90, warm: 60 };
const online = { cold: 150, warm: 100 };

const twoRules = once(() => startOf(['plan', 'TWO']));

/** How a plan without changes grows: of so many rules, CPU, wall time and memory. */
const growth: readonly FigureBench[] = [100, 1_000, 10_000, 100_000].flatMap((count) => {
  const costs = once(() => planInSync(count, count > 10_000 ? 1 : 5));
  const name = `a plan in sync, ${count.toLocaleString('en')} rules in RuleSets, over its floor`;
  const measure = async () => {
    const [ours, floor] = await costs();
    return { ours, floor };
  };
  return [
    ...linesOf({ name, counts: 'ratio', limit: count < 10_000 ? null : { cpu: 1.25, wall: 1.3 } }, measure),
    {
      name: `${name}: memory`,
      unit: 'MB',
      counts: 'ratio',
      limit: null,
      measure: async () => {
        const { ours, floor } = await measure();
        return { ours: ours.memory, floor: floor.memory };
      },
    },
  ];
});

function memoryLine(name: string, limit: number, ours: () => number | Promise<number>): FigureBench {
  return {
    name,
    unit: 'MB',
    counts: 'ours',
    limit,
    measure: async () => ({ ours: await ours(), floor: bareMemory() }),
  };
}

/** Over the same by Node and the files. */
function startOfExecutable(): Figure {
  const [one, other] = inTurns(
    15,
    () => clock(executable(), ['--version']),
    () => clock(process.execPath, [command, '--version']),
  );
  return { ours: one.wall, floor: other.wall };
}

/** The code of the command, compressed. */
function compressedCode(): number {
  const files = [command, ...readdirSync(join(root, 'dist/chunks')).map((name) => join(root, 'dist/chunks', name))];
  return gzipSync(Buffer.concat(files.filter((path) => path.endsWith('.js')).map((path) => readFileSync(path)))).length;
}

/** The figures of the command itself. */
export const benches: readonly FigureBench[] = [
  ...startLines('--version', { cold: 40, warm: 40 }),
  ...startLines('--help', { cold: 60, warm: 40 }),
  ...startLines('completion bash', { cold: 60, warm: 40 }),
  ...startLines('schema RuleSet', offline),
  ...startLines('validate EMPTY', offline),
  ...startLines('build TWO', offline),
  ...startLines('fmt --check TWO', offline),
  ...startLines('test TWO', offline),
  ...startLines('expiring TWO', offline),
  ...startLines('reach TWO', online),
  ...startLines('plan TWO', online, twoRules),
  ...startLines('snapshot', online),
  // These ask more of the server.
  ...startLines('export', { cold: 200, warm: 150 }),
  ...startLines('doctor', { cold: 200, warm: 150 }),
  memoryLine('a plan of two rules: memory', 90, async () => (await twoRules()).cold.memory),
  {
    name: 'the executable: --version over `node dist/reconcile.js --version`',
    unit: 'ms',
    counts: 'over',
    limit: 60,
    measure: startOfExecutable,
  },
  {
    name: 'the executable: size, beside that of Node',
    unit: 'MB',
    counts: 'ours',
    limit: 110,
    measure: () => ({ ours: statSync(executable()).size / 1e6, floor: statSync(process.execPath).size / 1e6 }),
  },
  {
    name: 'the package, packed: size, beside that of its code compressed',
    unit: 'MB',
    counts: 'ours',
    limit: 2,
    measure: () => ({ ours: packedMb(), floor: compressedCode() / 1e6 }),
  },
  ...linesOf({ name: 'fmt of 10,000 rules, over a plan of them', counts: 'ratio', limit: 1.3 }, async () => {
    const [ours, floor] = await formatAndPlan();
    return { ours, floor };
  }),
  memoryLine('fmt of one document of 60,000 rules: memory', 350, formatPeak),
  ...growth,
];
