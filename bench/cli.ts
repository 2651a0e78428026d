import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';

/** One figure of the built command with its limit, beside a floor measured in the same run. */
export interface CliBench {
  readonly name: string;
  readonly unit: 'ms' | 'ratio';
  readonly limit: number;
  readonly measure: () => number | Promise<number>;
}

const root = new URL('..', import.meta.url).pathname.replace(/dist\/$/, '');
const command = join(root, 'dist/reconcile.js');

/** Median ms of running node with these arguments, the two alternatives in turns so that both see the same machine. */
function inTurns(runs: number, a: () => void, b: () => void): readonly [number, number] {
  const times: readonly [number[], number[]] = [[], []];
  for (let run = 0; run <= runs; run++) {
    for (const [index, work] of [a, b].entries()) {
      const started = performance.now();
      work();
      if (run > 0) times[index]?.push(performance.now() - started);
    }
  }
  return [median(times[0]), median(times[1])];
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function node(args: readonly string[], env: Readonly<Record<string, string>> = {}): void {
  const run = spawnSync(process.execPath, args, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    encoding: 'utf8',
    maxBuffer: 1e9,
  });
  if (run.status !== 0) throw new Error(`${args.join(' ')}: ${run.status}\n${run.stderr}`);
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

/** A plan of 10,000 rules in 10 files without changes, over the time of the floor. */
async function planRatio(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-bench-'));
  // Beside node_modules, so that it finds the parser.
  const floorFile = join(root, 'dist', 'bench-floor.mjs');
  const server = spawn(process.execPath, [command, 'simulate', '--port', '0', '--token-file', join(folder, 'token')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const url = await new Promise<string>((resolve) => {
      createInterface({ input: server.stdout }).once('line', (line) => resolve(line.replace('listening ', '')));
    });
    const manifests = join(folder, 'manifests');
    mkdirSync(manifests);
    for (let file = 0; file < 10; file++) writeFileSync(join(manifests, `f${file}.yaml`), manifest(file));
    writeFileSync(floorFile, floor);
    const env = { RECONCILE_BASE_URL: url, RECONCILE_TOKEN_FILE: join(folder, 'token') };
    node([command, '--yes', '--concurrency', '16', manifests], env);
    const { readFileSync } = await import('node:fs');
    const token = readFileSync(join(folder, 'token'), 'utf8').trim();
    const [ours, least] = inTurns(
      5,
      () => node([command, '--plan', manifests], env),
      () => node([floorFile, url, token, manifests]),
    );
    return ours / least;
  } finally {
    server.kill('SIGTERM');
    rmSync(folder, { recursive: true, force: true });
    rmSync(floorFile, { force: true });
  }
}

function manifest(file: number): string {
  return Array.from({ length: rules / 10 }, (_, index) => {
    const n = file * (rules / 10) + index;
    return `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: r${n}}\nspec:\n  action: ${n % 3 === 0 ? 'drop' : 'accept'}\n  destination: 10.${n >> 8}.${n & 255}.0/24\n`;
  }).join('---\n');
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
      return version - bare;
    },
  },
  {
    name: 'a plan of 10,000 rules in 10 files, in sync, over its floor',
    unit: 'ratio',
    limit: 1.3,
    measure: planRatio,
  },
];
