import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { attempt } from '../model/result.ts';

/** One run of a program in a process group of its own. */
export interface ProcessCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** All that the program gets: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
  readonly timeoutMs: number;
  /** More output than this ends the run. */
  readonly maxOutput: number;
  /** Only the exit code counts: what a daemon that it started would still write is not waited for. */
  readonly ignoresOutput?: true;
  /** The most that one process may take of memory, and write into one file; the system ends what goes beyond. */
  readonly caps?: ProcessCaps;
  readonly signal: AbortSignal;
}

export type ProcessCaps = Readonly<Record<'memoryBytes' | 'fileBytes', number>>;

export interface ProcessRun {
  /** `exit`: see `code`. Otherwise the process group was killed for that reason. */
  readonly end: 'exit' | 'timeout' | 'aborted' | 'too-much-output' | 'not-started';
  readonly code: number | null;
  readonly stdout: Buffer;
  /** Cleaned of control characters, for people; at most 4,000 characters. */
  readonly stderr: string;
}

/** Bytes on stderr, beside the output: a program may complain at length and still answer. */
const mostErrors = 1024 * 1024;

/** Runs a program; ends its whole process group (git's helpers outlive git) on deadline, abort and too much output. Never rejects. */
export function runProcess(command: ProcessCommand): Promise<ProcessRun> {
  return new Promise((resolve) => {
    if (command.signal.aborted) return resolve(endRun('aborted'));
    const { cwd, env } = command;
    const [program, ...args] = capped(command);
    let child: ChildProcessWithoutNullStreams;
    try {
      child = spawn(program, args, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
    } catch (error) {
      // Most of what keeps a program from starting is an event; a file that is none, or no name at all, is thrown.
      return resolve(endRun('not-started', error instanceof Error ? error.message : ''));
    }
    const output: Buffer[] = [];
    const errors: Buffer[] = [];
    let end: ProcessRun['end'] = 'exit';
    let last: NodeJS.Timeout | undefined;
    const kill = (reason: ProcessRun['end']): void => {
      if (end === 'exit') end = reason;
      // First politely, so that git removes its locks and half-written packs.
      signalGroup(child.pid, 'SIGTERM');
      last ??= setTimeout(() => {
        signalGroup(child.pid, 'SIGKILL');
        // What left the group (`setsid`) may hold them open for ever: no run waits for that.
        letGo();
      }, 1000);
    };
    const letGo = (): void => {
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    };
    const onAbort = (): void => kill('aborted');
    const timer = setTimeout(() => kill('timeout'), command.timeoutMs);
    command.signal.addEventListener('abort', onAbort, { once: true });
    const onTooMuch = (): void => kill('too-much-output');
    child.stdout.on('data', makeCollector(output, command.maxOutput, onTooMuch));
    child.stderr.on('data', makeCollector(errors, mostErrors, onTooMuch));
    const settle = (run: ProcessRun): void => {
      clearTimeout(timer);
      clearTimeout(last);
      command.signal.removeEventListener('abort', onAbort);
      resolve(run);
    };
    child.on('error', (error) => settle(endRun('not-started', error.message)));
    if (command.ignoresOutput)
      child.on('exit', (code) => {
        if (code === 0) letGo();
      });
    child.on('close', (code) => {
      // Helpers that outlive the program (a proxy command of ssh, say) would otherwise stay.
      signalGroup(child.pid, 'SIGKILL');
      settle({ end, code, stdout: Buffer.concat(output), stderr: cleanText(Buffer.concat(errors).toString('utf8')) });
    });
    child.stdin.on('error', () => undefined); // a program that ends early closes its input; the exit code tells why
    child.stdin.end(command.stdin ?? '');
  });
}

export const proxyVariables = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'NO_PROXY', 'no_proxy'];

/** The variables of these names that the environment has. */
export function pickVariables(environment: Readonly<Record<string, string | undefined>>, names: readonly string[]) {
  const picked = names.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]] as const]));
  return Object.fromEntries(picked);
}

/** Keeps chunks as long as they are not too many bytes together. */
function makeCollector(chunks: Buffer[], most: number, onTooMuch: () => void): (chunk: Buffer) => void {
  let size = 0;
  return (chunk) => {
    size += chunk.length;
    if (size > most) onTooMuch();
    else chunks.push(chunk);
  };
}

/** Node cannot limit a child; a shell that becomes the program can. Without the signal a program says what it ran into. */
function capped({ program, args, caps }: ProcessCommand): readonly [string, ...string[]] {
  if (caps === undefined) return [program, ...args];
  const [memory, blocks] = [Math.ceil(caps.memoryBytes / 1024), Math.ceil(caps.fileBytes / 512)];
  return ['/bin/sh', '-c', `trap '' XFSZ; ulimit -d ${memory}; ulimit -f ${blocks}; exec "$@"`, 'sh', program, ...args];
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  attempt(() => process.kill(-pid, signal), false); // unless the group is gone already
}

function endRun(end: ProcessRun['end'], stderr = ''): ProcessRun {
  return { end, code: null, stdout: Buffer.alloc(0), stderr: cleanText(stderr) };
}

/** Text of another program for people: one line, no control or direction characters, no user information of a URL, bounded. */
export function cleanText(text: string): string {
  return text
    .replace(/\/\/[^/@\s]*@/g, '//')
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029\s]+/gu, ' ')
    .trim()
    .slice(0, 4000);
}
