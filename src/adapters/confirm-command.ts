import { type ProcessCommand, type ProcessRun, pickVariables, proxyVariables, runProcess } from './run-process.ts';

/** What a command that confirms gets of this process's environment: no token, no secret, nothing of `RECONCILE_`. */
const inherited = ['PATH', 'HOME', 'TMPDIR', 'LANG', ...proxyVariables, 'SSL_CERT_FILE', 'SSL_CERT_DIR'];

const longestMs = 30_000;
const mostOutput = 65_536;

/** Runs a program and its arguments once, for 30 s at most. Null: it ended with 0; otherwise what happened, for a person. Never rejects. */
export async function runConfirmCommand(
  given: Pick<ProcessCommand, 'cwd' | 'timeoutMs' | 'signal'> & {
    readonly command: readonly string[];
    readonly environment: Readonly<Record<string, string | undefined>>;
  },
): Promise<string | null> {
  const { command, environment, cwd, signal } = given;
  const [program = '', ...args] = command;
  const timeoutMs = Math.max(1, Math.min(longestMs, given.timeoutMs));
  const env = pickVariables(environment, inherited);
  const run = await runProcess({
    ...{ program, args, cwd, env, timeoutMs, signal },
    ...{ maxOutput: mostOutput, ignoresOutput: true },
  });
  return run.end === 'exit' && run.code === 0 ? null : describeRun(run, timeoutMs);
}

function describeRun({ end, code, stderr }: ProcessRun, timeoutMs: number): string {
  const said = stderr === '' ? '' : `: ${stderr.slice(0, 200)}`;
  const ends: Readonly<Record<ProcessRun['end'], string>> = {
    exit: code === null ? 'was killed' : `ended with ${code}${said}`,
    timeout: `took longer than ${Math.round(timeoutMs / 1000)} s`,
    'too-much-output': `printed more than ${mostOutput} bytes`,
    'not-started': `cannot be started${said}`,
    aborted: 'was stopped',
  };
  return `the command ${ends[end]}`;
}
