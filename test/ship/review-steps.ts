import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { parse } from 'yaml';

const root = path.resolve(import.meta.dirname, '../..');

export interface Ran {
  readonly code: number | null;
  readonly output: string;
}

interface Step {
  readonly id?: string;
  readonly run?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * The steps of action.yml that plan or apply, as the runner runs them from the folder `home`; `env` holds the job's variables and
 * the inputs. `onStart` gets the shell of each.
 */
export async function runAction(
  env: Readonly<Record<string, string>>,
  cwd: string,
  { home = root, onStart = ignore }: { readonly home?: string; readonly onStart?: (shell: ChildProcess) => void } = {},
): Promise<Ran> {
  const action = parse(readFileSync(path.join(home, 'action.yml'), 'utf8')) as { runs: { steps: readonly Step[] } };
  const folder = mkdtempSync(path.join(tmpdir(), 'action-'));
  const [outputs, ran] = [new Map<string, string>(), { code: 0 as number | null, output: '' }];
  const job = Object.entries(env).filter(([name]) => !name.startsWith('INPUT_'));
  try {
    for (const { id = '', run, env: given = {} } of action.runs.steps) {
      if (run === undefined || !run.includes('dist/ci/')) continue;
      const inputs = Object.entries(given).map(([name, value]) => [name, evaluate(value, env, outputs)]);
      const file = path.join(folder, 'output');
      writeFileSync(file, '');
      const variables = { GITHUB_ACTION_PATH: home, ...Object.fromEntries([...job, ...inputs]), GITHUB_OUTPUT: file };
      const step = await runShell('bash', `set -eo pipefail\n${run}`, variables, cwd, onStart);
      ran.output += step.output;
      for (const line of readFileSync(file, 'utf8').split('\n')) {
        outputs.set(`${id}.${line.split('=')[0]}`, line.slice(line.indexOf('=') + 1));
      }
      if (env['GITHUB_OUTPUT'] !== undefined) cpSync(file, env['GITHUB_OUTPUT']);
      if (step.code !== 0) return { ...ran, code: step.code };
    }
    return ran;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function evaluate(value: string, env: Readonly<Record<string, string>>, outputs: ReadonlyMap<string, string>): string {
  const input = /^\$\{\{ inputs\.(\S+) \}\}$/.exec(value)?.[1];
  if (input !== undefined) return env[`INPUT_${input.replaceAll('-', '_').toUpperCase()}`] ?? '';
  const parts = /^\$\{\{ github\.event\.([\w.]+) \}\}$/.exec(value)?.[1]?.split('.');
  if (parts !== undefined) {
    const event: unknown = JSON.parse(readFileSync(env['GITHUB_EVENT_PATH'] ?? '', 'utf8'));
    return String(parts.reduce((at, name) => (at as Record<string, unknown> | null | undefined)?.[name], event) ?? '');
  }
  const output = /^\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}$/.exec(value);
  if (output === null) throw new Error(`not evaluated: ${value}`);
  return outputs.get(`${output[1]}.${output[2]}`) ?? '';
}

/** The script of the jobs of ci/gitlab.yml and `more` lines, of which `.reconcile` is that script, in one shell, with what the image holds. */
export async function runTemplate(
  env: Readonly<Record<string, string>>,
  cwd: string,
  { onStart = ignore, more = [] }: { readonly onStart?: (shell: ChildProcess) => void; more?: readonly string[] } = {},
): Promise<Ran> {
  const template = parse(readFileSync(path.join(root, 'ci/gitlab.yml'), 'utf8')) as {
    '.reconcile': { script: readonly string[] };
  };
  const lines = more.flatMap((line) => (line === '.reconcile' ? template['.reconcile'].script : line));
  const script = [...template['.reconcile'].script, ...lines]
    .join('\n')
    .replaceAll('/opt/reconcile', path.join(root, 'dist'));
  return await runShell('sh', `set -e\n${script}`, env, cwd, onStart);
}

const ignore = (): void => undefined;

async function runShell(
  shell: string,
  script: string,
  env: Readonly<Record<string, string>>,
  cwd: string,
  onStart: (shell: ChildProcess) => void,
): Promise<Ran> {
  const child = spawn(shell, ['-c', script], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: cwd, ...env },
  });
  onStart(child);
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  const [out, error, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, output: out + error };
}
