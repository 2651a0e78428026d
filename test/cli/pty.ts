import { spawn, spawnSync } from 'node:child_process';
import { entry } from './harness.ts';

/** Whether a pseudo-terminal can be had (util-linux `script`). */
export const hasPty = spawnSync('script', ['--version']).status === 0;

/** What a person saw on a terminal, and how the command ended. */
export interface PtyRun {
  readonly code: number | null;
  readonly screen: string;
}

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

/**
 * Runs the built command on a terminal of its own, `columns` wide. Each `[pattern, keys]` waits until the pattern stands on the
 * screen, then types.
 */
export function runOnTerminal(
  args: readonly string[],
  options: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    readonly type?: readonly (readonly [RegExp, string])[];
    readonly columns?: number;
    /** Takes the terminal away when this stands on the screen, as the end of an ssh session does. */
    readonly hangUp?: RegExp;
    /** As a job of a shell, which Ctrl-Z can stop. */
    readonly isJob?: boolean;
    /** As a job that the terminal is not given to. */
    readonly inBackground?: boolean;
  },
): Promise<PtyRun> {
  const { cwd, env, type = [], columns = 80, hangUp, isJob = false, inBackground = false } = options;
  const line = `stty cols ${columns} rows 24; ${isJob ? 'set -m;' : 'exec'} ${[process.execPath, entry, ...args].map(quoted).join(' ')}${inBackground ? ' & wait $!' : ''}`;
  const child = spawn('script', ['-qefc', line, '/dev/null'], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', SHELL: '/bin/sh', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let screen = '';
  let typed = 0;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
    if (hangUp?.test(screen)) child.kill('SIGKILL');
    const next = type[typed];
    if (next === undefined || !next[0].test(screen)) return;
    typed++;
    child.stdin.write(next[1]);
  });
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, screen })));
}
