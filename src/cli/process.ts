import { closeSync, fstatSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { isatty } from 'node:tty';
import { attempt } from '../model/result.ts';
import { exitCodes, isJob, replaceExitCode, type Terminal } from './command.ts';
import { runCli } from './run.ts';

/** Runs the process's own command line: streams, signals, exit code. */
export async function runMain(): Promise<void> {
  const stdout = lastingStdout();
  process.stderr.on('error', () => undefined); // a log that cannot be written ends nothing
  process.on('unhandledRejection', dieQuietly);
  process.on('uncaughtException', dieQuietly);
  const stop = new AbortController();
  const terminal = { ...terminalOf(stop.signal, stdout.write), ...handleSignals(stop) };
  const cwd = attempt(() => process.cwd(), null);
  if (cwd === null)
    process.stderr.write('error [usage] the current directory is not there any more\n    hint: cd to one that is\n');
  const code = cwd === null ? exitCodes.failed : await runCli(process.argv.slice(2), { ...terminal, cwd });
  await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
  const failure = stdout.failure();
  if (failure !== null) process.stderr.write(`error [output] stdout cannot be written (${failure})\n`);
  await flushed(process.stderr);
  // Node aborts at its end where it cannot put back a terminal that is gone.
  for (const { fd, isTTY } of [process.stdin, process.stdout, process.stderr]) if (isTTY && !isatty(fd)) closeSync(fd);
  process.exit(failure === null ? code : replaceExitCode(code));
}

function terminalOf(stop: AbortSignal, stdout: Terminal['stdout']): Omit<Terminal, 'cwd'> {
  const columns = process.stdout.columns || process.stderr.columns || undefined;
  return {
    env: process.env,
    stdinIsTerminal: process.stdin.isTTY === true,
    stdoutIsTerminal: process.stdout.isTTY === true,
    stderrIsTerminal: process.stderr.isTTY === true,
    ...(columns === undefined ? {} : { columns }),
    stdout,
    stdoutTaken: () => flushed(process.stdout),
    stderr: (text) => void process.stderr.write(text),
    ask,
    readStdin: async (largest) => (await import('../adapters/read-bytes.ts')).readBytes(process.stdin, largest),
    stop,
  };
}

/** The first signal, or a terminal that goes away, asks for an orderly end; the third ends at once, but in a job. Gives what lets others hear each. */
function handleSignals(stop: AbortController): Required<Pick<Terminal, 'onSignal' | 'onHangUp'>> {
  const signals = new Set<() => void>();
  const hangUps = new Set<() => void>();
  const listenIn = (listeners: Set<() => void>) => (listener: () => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  let count = 0;
  const onSignal = (signal: NodeJS.Signals): void => {
    count++;
    // A runner that cancels a job signals its processes, their group and the shell.
    if (count >= 3 && !isJob(process.env)) process.exit(exitCodes.partial);
    for (const listener of signals) listener();
    stop.abort(new Error(signal));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  process.on('SIGHUP', (signal) => {
    if (hangUps.size === 0) stop.abort(new Error(signal));
    for (const listener of hangUps) listener();
  });
  return { onSignal: listenIn(signals), onHangUp: listenIn(hangUps) };
}

/** Forgets what was typed before a question stood there: a `y` meant for something else must not answer it. */
async function dropTypedAhead(): Promise<void> {
  const { stdin } = process;
  const drop = (typed: Buffer): void => {
    if (typed.includes(3)) process.kill(process.pid, 'SIGINT'); // Ctrl-C, while the terminal is raw
  };
  stdin.setRawMode(true).on('data', drop).resume();
  // What is there is read in the next turn of the loop; the one after it finds nothing.
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
  stdin.pause().off('data', drop).setRawMode(false);
}

async function ask(asked: string | (() => string), signal: AbortSignal): Promise<string | null> {
  if (!isatty(0)) return null; // the terminal is gone
  await dropTypedAhead();
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const question = typeof asked === 'string' ? asked : asked();
  const renewing = setInterval(() => {
    if (typeof asked === 'string' || !process.stderr.isTTY) return;
    lines.setPrompt(asked());
    lines.prompt(true);
  }, 1000);
  try {
    const ended = new Promise<null>((resolve) => {
      lines.once('close', () => resolve(null));
      lines.once('error', () => resolve(null)); // the terminal is gone
    });
    // readline takes Ctrl-C and Ctrl-Z from the terminal before the process does. One that is stopped goes back for nobody.
    lines.on('SIGTSTP', () => {});
    lines.once('SIGINT', () => process.kill(process.pid, 'SIGINT'));
    const answer = await Promise.race([lines.question(question, { signal }), ended]);
    if (answer === null) process.stderr.write('\n'); // the line of the question has no end yet
    return answer;
  } catch (error) {
    if (signal.aborted) return null;
    throw error;
  } finally {
    clearInterval(renewing);
    lines.close();
  }
}

/** A reader that goes away or a full disk ends nothing: `failure` says it. Node would take a part of a file for the whole. */
function lastingStdout() {
  let failed: string | null = null;
  const fail = ({ code }: NodeJS.ErrnoException): void => {
    if (code !== 'EPIPE' && code !== 'EIO') failed ??= code ?? 'unknown error';
  };
  process.stdout.on('error', fail);
  const toFile = (text: string): void => {
    try {
      writeFileSync(process.stdout.fd, text);
    } catch (error) {
      fail(error as NodeJS.ErrnoException);
    }
  };
  const isFile = fstatSync(process.stdout.fd).isFile();
  return { write: isFile ? toFile : (text: string) => void process.stdout.write(text), failure: () => failed };
}

/** Resolves when all that was written has left the process, or cannot. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (!stream.writable || stream.destroyed) resolve();
    else stream.write('', () => resolve());
  });
}

/** A mistake nobody caught: its kind and place, never its message, which could hold anything. */
function dieQuietly(error: unknown): void {
  const name = error instanceof Error ? error.name : typeof error;
  const frame = error instanceof Error ? (error.stack?.split('\n    at ')[1] ?? '').trim() : '';
  process.stderr.write(`error: reconcile failed in a way it should not (${name} at ${frame})\n`);
  process.exit(exitCodes.failed);
}
