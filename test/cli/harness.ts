import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Terminal } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/server.ts';

/** What one command line did. */
export interface CliRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** stdout as one JSON document; throws when it is anything else. */
  readonly json: () => Document;
}

/** The parts of the JSON document that tests look at. */
export interface Document {
  readonly format_version: string;
  readonly digest: string | null;
  readonly summary: Readonly<Record<string, number>> | null;
  readonly changes: readonly {
    readonly kind: string;
    readonly name: string | null;
    readonly action: string;
    readonly via: string | null;
    readonly origin?: string;
    readonly reason: string;
    readonly fields: Readonly<Record<string, { readonly before: unknown; readonly after: unknown }>>;
    readonly source: { readonly file: string; readonly line: number } | null;
  }[];
  readonly steps: readonly {
    readonly id: string;
    readonly method: string;
    readonly path: string;
    readonly after: readonly string[];
  }[];
  readonly problems: readonly {
    readonly code: string;
    readonly severity: string;
    readonly summary: string;
    readonly hint: string | null;
    readonly file: string | null;
    readonly line: number | null;
  }[];
  readonly refusals: readonly { readonly code: string; readonly summary: string; readonly hint: string }[];
  readonly effect: { readonly opens: readonly unknown[]; readonly closes: readonly unknown[] };
  readonly exposure: readonly unknown[];
  readonly outcomes?: readonly { readonly step: string; readonly outcome: string; readonly status: number | null }[];
  readonly approved?: boolean;
}

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Somebody sits at the terminal and answers this to every question. */
  readonly answer?: string | ((question: string) => string | Promise<string>);
  readonly stop?: AbortSignal;
  /** Called with what is written to stdout, as it is written. */
  readonly onStdout?: (text: string) => void;
  readonly onStderr?: (text: string) => void;
  /** Somebody sees stderr as it is written. */
  readonly stderrIsTerminal?: boolean;
}

/** A folder of its own, a simulated server, and the command line in this process. */
export interface World {
  readonly folder: string;
  readonly simulator: Simulator;
  /** Writes a file below the folder; returns its absolute path. */
  readonly write: (path: string, text: string) => string;
  readonly read: (path: string) => string;
  readonly cli: (args: readonly string[], options?: CliOptions) => Promise<CliRun>;
  readonly close: () => Promise<void>;
}

export const token = 'test-token-of-the-simulator';
export const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
export const bob = 'b0b00c4b-adc3-4574-932a-94461cf85c07';

/** Starts a world; `close` it after the test. */
export async function startWorld(options: Partial<SimulatorOptions> = {}): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-cli-'));
  const users = [
    { name: 'alice', id: alice, email: 'alice@example.com' },
    { name: 'bob', id: bob, email: 'bob@example.com' },
  ];
  const simulator = await startSimulator({ token, users, ...options });
  const env = { RECONCILE_BASE_URL: simulator.url, RECONCILE_TOKEN: token };
  // Nobody sits at a terminal here: what applies says so.
  const yes = { RECONCILE_YES: 'true' };
  return {
    folder,
    simulator,
    write(path, text) {
      const file = join(folder, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
      return file;
    },
    read: (path) => readFileSync(join(folder, path), 'utf8'),
    cli: (args, given = {}) =>
      runIn(folder, args, { ...given, env: { ...env, ...(given.answer === undefined ? yes : {}), ...given.env } }),
    async close() {
      await simulator.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Runs a command line in this process, with `cwd` and nothing of this process's environment. */
export async function runIn(cwd: string, args: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const written = { out: '', err: '' };
  const { answer } = options;
  const terminal: Terminal = {
    env: options.env ?? {},
    cwd,
    stdinIsTerminal: answer !== undefined,
    stdoutIsTerminal: false,
    stderrIsTerminal: options.stderrIsTerminal ?? false,
    stdout: (text) => {
      written.out += text;
      options.onStdout?.(text);
    },
    stderr: (text) => {
      written.err += text;
      options.onStderr?.(text);
    },
    ask: (asked, signal) => {
      const question = typeof asked === 'string' ? asked : asked();
      written.err += question;
      const given = Promise.resolve(typeof answer === 'function' ? answer(question) : (answer ?? null));
      const ended = new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)));
      return Promise.race([given, ended]);
    },
    stop: options.stop ?? new AbortController().signal,
  };
  const code = await runCli(args, terminal);
  return { code, ...written, json: () => JSON.parse(written.out) as Document };
}

/** One Rule document. */
export function rule(name: string, spec: string): string {
  return `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ${name}}\nspec: {${spec}}\n---\n`;
}

/** One Configuration document; `spec` in block style, without its indentation. */
export function configuration(spec: string): string {
  return `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec:\n${spec.trimEnd().replace(/^/gm, '  ')}\n---\n`;
}

/** The built command. */
export const entry = new URL('../../dist/reconcile.js', import.meta.url).pathname;

/** Starts the built command as a process of its own. */
export function spawnReconcile(
  args: readonly string[],
  options: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    /** An open file instead of a pipe. */
    readonly stdout?: number | 'pipe';
    readonly stderr?: number | 'pipe';
    /** Whether the test writes to its stdin; else it has none. */
    readonly stdin?: 'pipe';
  },
): ChildProcess {
  const { cwd, stdin = 'ignore', stdout = 'pipe', stderr = 'pipe' } = options;
  const env = { PATH: process.env['PATH'] ?? '', ...options.env };
  return spawn(process.execPath, [entry, ...args], { cwd, env, stdio: [stdin, stdout, stderr] });
}

/** What a process did until it ended. */
export async function ended(
  child: ChildProcess,
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  let out = '';
  let err = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, out, err };
}
