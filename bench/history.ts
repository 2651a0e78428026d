import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { createManifestParser } from '../src/adapters/manifest-parser.ts';
import { createDirectorySource } from '../src/adapters/source/directory.ts';
import { defaultLimits } from '../src/desired/context.ts';
import { assemble } from '../src/desired/desired.ts';
import { Network } from '../src/model/address.ts';
import { findProfile } from '../src/model/profile.ts';
import { ok } from '../src/model/result.ts';
import { type Rule, toWire } from '../src/model/rule.ts';
import { Secret } from '../src/model/secret.ts';
import { wholeScope } from '../src/model/state.ts';
import { computeReach } from '../src/policy/reach.ts';
import {
  bareMemory,
  type Cost,
  type Costs,
  costOf,
  cpuSince,
  type FigureBench,
  linesOf,
  medianCost,
  once,
} from './figure.ts';

const command = join(new URL('..', import.meta.url).pathname.replace(/dist\/$/, ''), 'dist/reconcile.js');

function file(n: number, rules: number, of: (rule: number) => number): string {
  const text = Array.from({ length: rules }, (_, k) => {
    const at = n * rules + k;
    return `    - {name: r${k}, action: accept, destination: 10.${at >> 8}.${at & 255}.0/24, port_type: tcp, port_range: ${of(k)}}\n`;
  });
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s${n}}\nspec:\n  rules:\n${text.join('')}`;
}

/** A repository with `commits` commits, each of which changes one rule of one of the files. */
function repository(commits: number, files: number, rules: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  const ports = new Map<string, number>();
  const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;
  const put = (n: number): string =>
    `M 100644 inline policy/s${n}.yaml\n${data(file(n, rules, (k) => ports.get(`${n}/${k}`) ?? 443))}`;
  const made = Array.from({ length: commits }, (_, n) => {
    ports.set(`${n % files}/${n % rules}`, 1 + n);
    const who = `author A <a@example.test> ${1_700_000_000 + n * 60} +0000\ncommitter A <a@example.test> ${1_700_000_000 + n * 60} +0000\n`;
    const all = n === 0 ? Array.from({ length: files }, (_, k) => put(k)).join('') : put(n % files);
    return `commit refs/heads/main\n${who}${data(`commit ${n}`)}${all}\n`;
  });
  spawnSync('git', ['init', '-q', '--template=', '-b', 'main', folder]);
  spawnSync('git', ['fast-import', '--quiet'], { cwd: folder, input: made.join('') });
  mkdirSync(join(folder, 'policy'));
  return folder;
}

interface Run extends Cost {
  readonly mb: number;
}

function run(args: readonly string[], cwd: string): Run {
  return runNode([command, ...args, '--output', 'json'], cwd);
}

function runNode(args: readonly string[], cwd: string): Run {
  const told =
    "process.on('exit', () => { const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage(); process.stderr.write('used ' + maxRSS + ' ' + (userCPUTime + systemCPUTime)); })";
  const argv = ['--import', `data:text/javascript,${told}`, ...args];
  const started = performance.now();
  const { status, stderr } = spawnSync(process.execPath, argv, { cwd, encoding: 'utf8', maxBuffer: 1e9 });
  const wall = performance.now() - started;
  if (status !== 0) throw new Error(stderr);
  const [, rss, cpu] = /used ([0-9]+) ([0-9]+)$/.exec(stderr) ?? [];
  return { wall, cpu: Number(cpu) / 1000, mb: Number(rss) / 1024 };
}

/** A question to the history, and at least: the YAML library reads each version of each file once. */
function inHistory(args: readonly string[]): Costs & { readonly ours: Run } {
  const [commits, files, rules] = [1_000, 50, 20];
  const folder = repository(commits, files, rules);
  try {
    const texts = Array.from({ length: commits + files - 1 }, (_, n) => file(n % files, rules, () => 1 + n));
    return { ours: run(args, folder), floor: costOf(() => texts.map((text) => parseAllDocuments(text))) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Two folders of 10,000 rules in 50 files, some of which differ: the time of `diff`, and of what `floor` makes of both. */
function diffTime(changed: number, floor: (folders: readonly string[]) => Cost): Costs {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  const folders = ['old', 'new'].map((name, side) => {
    mkdirSync(join(folder, name));
    for (let n = 0; n < 50; n++) {
      const text = file(n, 200, (k) => (k === 0 && n < changed ? 80 + side : 443));
      writeFileSync(join(folder, name, `s${n}.yaml`), text);
    }
    return join(folder, name);
  });
  try {
    const runs = Array.from({ length: 5 }, () => ({ ours: run(['diff', ...folders], folder), floor: floor(folders) }));
    return { ours: medianCost(runs.map(({ ours }) => ours)), floor: medianCost(runs.map((one) => one.floor)) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function parseWithLibrary(folders: readonly string[]): Cost {
  const texts = folders.flatMap((folder) =>
    readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8')),
  );
  return costOf(() => texts.map((text) => parseAllDocuments(text)));
}

/** A process that does no more than read both folders. What it loads beside is not counted, but the start of Node is, as it is of `diff`. */
function parseWithOurs(folders: readonly string[]): Cost {
  const script = `import(${JSON.stringify(import.meta.url)}).then((bench) => bench.readFolders(process.argv.slice(1)))`;
  const { stdout } = spawnSync(process.execPath, ['-e', script, ...folders], { encoding: 'utf8' });
  const [work, start] = [JSON.parse(stdout) as Cost, runNode(['-e', '0'], '.')];
  return { wall: work.wall + start.wall, cpu: work.cpu + start.cpu };
}

/** Reads each folder into a desired state of its own, and prints what that cost. */
export async function readFolders(folders: readonly string[]): Promise<void> {
  const [started, spent] = [performance.now(), process.cpuUsage()];
  const profile = findProfile('firezone-0.7');
  for (const folder of folders) {
    const options = { profile, values: null, limits: defaultLimits };
    const parse = createManifestParser(options, { workerUrl: null, measure: 'alone' });
    const { content } = await createDirectorySource(folder, defaultLimits).read(new AbortController().signal);
    const context = { profile, scope: wholeScope, now: Date.now(), resolveSecret: () => ok(Secret.unknown()) };
    const { state } = assemble(await parse(content?.files ?? []), null, context);
    if (state?.rules.length !== 10_000) throw new Error(`${folder} holds ${state?.rules.length} rules`);
  }
  console.log(JSON.stringify({ wall: performance.now() - started, cpu: cpuSince(spent) }));
}

/** Everything that 300 users reach under 3,000 rules, ten each. */
function reachTime(): Costs {
  const rules = Array.from({ length: 3_000 }, (_, n): Rule => {
    const user = `00000000-0000-4000-8000-${String(n % 300).padStart(12, '0')}`;
    return {
      action: n % 3 === 0 ? 'drop' : 'accept',
      destination: new Network(4, BigInt(0x0a000000 + (n << 8)), 24),
      ports: n % 2 === 0 ? null : { type: 'tcp', low: 1 + (n % 1000), high: 1 + (n % 1000) + 10 },
      userId: user,
    };
  });
  const text = JSON.stringify({ data: rules.map(toWire) });
  return { ours: costOf(() => computeReach(rules)), floor: costOf(() => JSON.parse(text)) };
}

const packet = ['--destination', '10.0.7.1', '--protocol', 'tcp', '--port', '443'];

const log = once(() => inHistory(['log', 'policy']));
const history = '1,000 commits, 1,000 rules in 50 files';

/** Questions to a policy and to its history. The limits are those that docs/explanation/policy.md promises. */
export const benches: readonly FigureBench[] = [
  ...linesOf({ name: `blame, ${history}`, counts: 'ours', limit: 3_000 }, () =>
    inHistory(['blame', 'policy', ...packet]),
  ),
  ...linesOf({ name: `log, ${history}`, counts: 'ours', limit: 10_000 }, log),
  {
    name: 'memory of that log',
    unit: 'MB',
    counts: 'ours',
    limit: 400,
    measure: () => ({ ours: log().ours.mb, floor: bareMemory() }),
  },
  ...[5, 50].flatMap((changed) =>
    [
      { whose: 'our own', floor: parseWithOurs },
      { whose: 'the YAML library’s', floor: parseWithLibrary },
    ].flatMap(({ whose, floor }) =>
      linesOf(
        {
          name: `a diff of 10,000 rules in 50 files, ${changed} of them changed, over ${whose} parse of both sides`,
          counts: 'ratio',
          limit: 1.2,
        },
        () => diffTime(changed, floor),
      ),
    ),
  ),
  ...linesOf({ name: 'reach of 300 users under 3,000 rules', counts: 'ours', limit: 1_000 }, reachTime),
];
