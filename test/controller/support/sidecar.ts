import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Status } from '../../../src/controller/status.ts';
import type { Simulator } from '../../../src/simulator/server.ts';
import { startSimulator } from '../../../src/simulator/server.ts';

const root = repositoryRoot(import.meta.dirname);
export const binary = path.join(root, 'dist/reconcile.js');
export const apiToken = 'canary-api-token';
/** How long a test waits for what takes milliseconds on an idle machine. */
const patienceMs = 60_000;

/** Builds dist/ when it is missing or older than the sources, so that a single test file runs by itself too. */
export function ensureBuilt(): void {
  const built = existsSync(binary) ? statSync(binary).mtimeMs : 0;
  const sources = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  if (sources.every((name) => statSync(path.join(root, 'src', name)).mtimeMs < built)) return;
  execFileSync(process.execPath, [path.join(root, 'scripts/build.mjs')], { cwd: root, stdio: 'ignore' });
}

/** A temporary place with manifests, a token, and a simulated server. */
export interface World {
  readonly folder: string;
  readonly manifests: string;
  readonly tokenFile: string;
  readonly state: string;
  readonly sim: Simulator;
  /** Destinations of the live rules, sorted. */
  live(): readonly string[];
  close(): Promise<void>;
}

export async function makeWorld(options: Partial<Parameters<typeof startSimulator>[0]> = {}): Promise<World> {
  const folder = mkdtempSync(path.join(tmpdir(), 'world-'));
  const manifests = path.join(folder, 'manifests');
  mkdirSync(manifests);
  const tokenFile = path.join(folder, 'token');
  writeFileSync(tokenFile, `${apiToken}\n`);
  const sim = await startSimulator({ token: apiToken, ...options });
  return {
    folder,
    manifests,
    tokenFile,
    state: path.join(folder, 'state'),
    sim,
    live: () =>
      sim
        .rules()
        .map((rule) => rule.destination)
        .sort(),
    async close() {
      await sim.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A manifest with one accept rule for each destination. */
export function rules(...destinations: readonly string[]): string {
  return destinations
    .map((destination) => {
      const name = `r-${destination.replace(/[^0-9a-f]+/g, '-')}`;
      return `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ${name}}\nspec: {action: accept, destination: "${destination}"}\n`;
    })
    .join('---\n');
}

/** A running `reconcile --watch`. */
export interface Sidecar {
  readonly child: ChildProcess;
  readonly url: string;
  /** All that it wrote, stdout and stderr. */
  output(): string;
  /** The JSON lines of its log. */
  log(): readonly Record<string, unknown>[];
  /** Where it takes webhooks. */
  webhooks(): string;
  status(): Promise<Status>;
  metrics(): Promise<string>;
  /** Waits until the status holds; fails with the log when it ends or takes too long. */
  until(condition: (status: Status) => boolean, ms?: number): Promise<Status>;
  /** Waits until it has ended; gives its exit code, or the signal. */
  ended(): Promise<number | string>;
  stop(): Promise<number | string>;
}

export async function startSidecar(
  world: World,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<Sidecar> {
  return await spawnSidecar(
    [
      '--watch',
      ...args,
      '--base-url',
      world.sim.url,
      ...(world.tokenFile === '' ? [] : ['--token-file', world.tokenFile]),
    ],
    world.folder,
    env,
  );
}

/** The same by its whole command line. */
export async function spawnSidecar(
  args: readonly string[],
  folder: string,
  env: Record<string, string> = {},
): Promise<Sidecar> {
  const served = args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
  const child = spawn(process.execPath, [binary, ...args, '--log-format', 'json', ...served], {
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: folder,
  });
  let output = '';
  const log = (): readonly Record<string, unknown>[] => jsonLines(output);
  const end = new Promise<number | string>((resolve) =>
    child.on('close', (code, signal) => resolve(code ?? signal ?? 'unknown')),
  );
  // As soon as it is said: a test may wait for the first call that this process makes.
  const url = await new Promise<string>((resolve) => {
    let said = false;
    const take = (chunk: unknown): void => {
      output += String(chunk);
      if (said) return;
      const address = addressIn(log(), 'Serving the status');
      said = address !== null;
      if (address !== null) resolve(address);
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    void end.then(() => resolve(''));
  });
  // A sidecar that hangs must fail a test, not hang it.
  const get = (path: string): Promise<Response> => fetch(`${url}${path}`, { signal: AbortSignal.timeout(10_000) });
  const sidecar: Sidecar = {
    child,
    url,
    output: () => output,
    log,
    webhooks: () => addressIn(log(), 'Serving webhooks') ?? '',
    status: async () => (await (await get('/status')).json()) as Status,
    metrics: async () => (await get('/metrics')).text(),
    async until(condition, ms = patienceMs) {
      const limit = performance.now() + ms;
      let last: Status | null = null;
      while (performance.now() < limit && child.exitCode === null) {
        last = await sidecar.status().catch(() => null);
        if (last !== null && condition(last)) return last;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      throw new Error(
        `the sidecar did not get there\n${JSON.stringify(last?.conditions, null, 1)}\n${output.slice(-6000)}`,
      );
    },
    ended: () => end,
    stop: () => {
      child.kill('SIGTERM');
      return end;
    },
  };
  return sidecar;
}

/** The complete lines of a log in JSON; the last one may still be on its way. */
function jsonLines(output: string): readonly Record<string, unknown>[] {
  return output
    .split('\n')
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Where something is served: the port is the system's choice, and the log tells it. */
function addressIn(log: readonly Record<string, unknown>[], message: string): string | null {
  const line = log.find(({ msg }) => msg === message);
  return line === undefined ? null : String(line['address']);
}

/** Whether this revision, or any, is in effect and nothing is wrong. */
export function inEffect(revision?: string): (status: Status) => boolean {
  return ({ conditions, revisions }) =>
    conditions.Ready.status === 'True' &&
    (revision === undefined || revisions.applied === revision) &&
    revisions.observed === revisions.applied;
}

/** Waits for a condition of the test's own. */
export async function until(condition: () => boolean | Promise<boolean>, ms = patienceMs): Promise<void> {
  const limit = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > limit) throw new Error('the condition did not come true');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The folder of package.json: this file may have been bundled elsewhere. */
function repositoryRoot(from: string): string {
  // dist/ has a package.json too, and benchmarks are bundled there.
  return existsSync(path.join(from, 'package.json')) && existsSync(path.join(from, 'src'))
    ? from
    : repositoryRoot(path.dirname(from));
}
