import { existsSync, readFileSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { runConfirmCommand } from '../adapters/confirm-command.ts';
import { askUntilConfirmed } from '../controller/trial.ts';
import { attempt } from '../model/result.ts';
import { type Invocation, makeFailure, type Terminal } from './command.ts';
import { splitWords } from './output.ts';
import type { ConfirmTerms, PendingFiles } from './pending.ts';

const defaultWithinMs = 300_000;

/** On which terms this apply is to be confirmed; null: it is not. Throws a `Failure` where nobody and nothing could confirm it. */
export function confirmTermsOf({ settings, terminal, shared }: Invocation): ConfirmTerms | null {
  const { confirmWithin, confirmWith } = settings;
  if ((confirmWithin === null && confirmWith === null) || settings.dryRun) return null;
  const withinMs = confirmWithin ?? defaultWithinMs;
  if (confirmWith === null) {
    if (terminal.stdinIsTerminal && !isInBackground()) return { withinMs, command: null };
    const hint = "add --confirm-with COMMAND, such as --confirm-with 'curl -fsS https://probe.example.com'";
    const nobody = shared ? 'asks nobody where it applies a fleet' : 'asks on a terminal, and there is none';
    throw makeFailure('usage', `--confirm-within ${nobody}`, hint);
  }
  const command = splitWords(confirmWith);
  const problem = command === null ? 'a quote in it is not closed' : findCommandProblem(command, terminal);
  if (problem !== null)
    throw makeFailure('usage', `--confirm-with: ${problem}`, 'name a program and its arguments; there is no shell');
  return { withinMs, command };
}

/** Whether the terminal is another job's, so that asking would stop this process; Linux alone says it. */
function isInBackground(): boolean {
  return attempt(() => {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return foreground !== '-1' && foreground !== group;
  }, false);
}

/** Why a command cannot be started; null: it can. */
export function findCommandProblem([program]: readonly string[], { env, cwd }: Terminal): string | null {
  if (program === undefined) return 'there is no program in it';
  const places = program.includes('/') ? [cwd] : (env['PATH'] ?? '').split(delimiter);
  const isProgram = (file: string) => existsSync(file) && statSync(file).isFile() && (statSync(file).mode & 0o111) > 0;
  const isThere = places.some((folder) => isProgram(program.startsWith('/') ? program : join(folder, program)));
  return isThere ? null : `there is no program ${program}`;
}

/** Waits for a confirmation, here or by removing the record elsewhere: null. Else why the apply is taken back; `failed`: already so. */
export async function awaitConfirmation(
  { terminal }: Invocation,
  files: PendingFiles,
  { command, until }: Pick<ConfirmTerms, 'command'> & { readonly until: number },
  failed: string | null,
): Promise<string | null> {
  if (terminal.stop.aborted) return describeStop(terminal.stop.reason);
  if (failed !== null) return failed;
  // By both clocks: one stands still while the machine sleeps, the other may be set back.
  const deadline = systemClock.now() + until - systemClock.wallTime();
  const left = (): number => Math.max(0, Math.min(until - systemClock.wallTime(), deadline - systemClock.now()));
  const over = new AbortController();
  const probe: Probe = { terminal, left, signal: AbortSignal.any([terminal.stop, over.signal]) };
  // A command is asked until the time is over.
  const words = [watchRecord(files, probe, command === null)];
  if (command !== null) words.push(askCommand(command, probe));
  else if (terminal.stdinIsTerminal) words.push(askPerson(probe));
  try {
    const word = await Promise.race(words);
    return terminal.stop.aborted ? describeStop(terminal.stop.reason) : word;
  } finally {
    over.abort();
    await Promise.allSettled(words);
  }
}

interface Probe extends Pick<Invocation, 'terminal'> {
  readonly left: () => number;
  readonly signal: AbortSignal;
}

async function watchRecord(files: PendingFiles, { left, signal }: Probe, isTimed: boolean): Promise<string | null> {
  while (!signal.aborted) {
    if (!files.isWaiting()) return null;
    await refuseOwned(files, left());
    if (isTimed && left() === 0) return 'Nobody answered';
    await systemClock.sleep(Math.min(250, left() || 250), signal);
  }
  return 'Stopped';
}

async function askPerson({ terminal, left, signal }: Probe): Promise<string | null> {
  const question = (): string => `Still there? Keep it? [y/N], going back in ${describeLeft(left())} `;
  const answer = await terminal.ask(question, signal);
  if (answer === null) return 'The terminal is gone, or its input ended';
  return /^y(es)?$/i.test(answer.trim()) ? null : 'You did not say yes';
}

async function askCommand(command: readonly string[], { terminal, left, signal }: Probe): Promise<string | null> {
  const wrong = await askUntilConfirmed(systemClock, {
    ask: (timeoutMs) => runConfirmCommand({ command, environment: terminal.env, cwd: terminal.cwd, timeoutMs, signal }),
    leftMs: left,
    signal,
    tell: (said) => terminal.stderr(`Not confirmed yet, going back in ${describeLeft(left())}: ${said}\n`),
  });
  if (wrong === null) return signal.aborted ? 'Stopped' : null;
  return wrong === '' ? 'Nobody answered' : `Not confirmed: ${wrong}`;
}

/** Throws a `Failure` while another process sees to the apply that waits. */
export async function refuseOwned(files: PendingFiles, leftMs: number): Promise<void> {
  const owner = await files.findOwner();
  if (owner === null) return;
  const summary = `an apply waits to be confirmed (process ${owner}), and goes back in ${describeLeft(leftMs)}`;
  throw makeFailure('state', summary, 'to keep it: reconcile confirm');
}

/** `4:59` */
export function describeLeft(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

function describeStop(reason: unknown): string {
  return reason instanceof Error && reason.message.startsWith('SIG') ? `Stopped (${reason.message})` : 'Stopped';
}
