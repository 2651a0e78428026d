import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { runCli } from '../../src/cli/run.ts';

/** A run of the command line in a directory of its own, and what it wrote. */
export interface CliRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Workspace {
  readonly directory: string;
  readonly run: (...argv: readonly string[]) => Promise<CliRun>;
  readonly remove: () => void;
}

/** A temporary directory in which command lines run, with these environment variables. */
export function workspace(env: Readonly<Record<string, string>> = {}): Workspace {
  const directory = mkdtempSync(path.join(tmpdir(), 'reconcile-'));
  return {
    directory,
    async run(...argv) {
      const out: string[] = [];
      const err: string[] = [];
      const code = await runCli(argv, {
        // Nobody sits at a terminal here: what applies says so.
        env: { RECONCILE_YES: 'true', ...env },
        cwd: directory,
        stdinIsTerminal: false,
        stdoutIsTerminal: false,
        stderrIsTerminal: false,
        stdout: (text) => out.push(text),
        stderr: (text) => err.push(text),
        ask: () => Promise.resolve(null),
        stop: new AbortController().signal,
      });
      return { code, stdout: out.join(''), stderr: err.join('') };
    },
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}
