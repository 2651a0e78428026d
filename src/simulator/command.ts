import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { type Simulator, type SimulatorOptions, startSimulator } from './server.ts';
import { drawToken } from './tokens.ts';
import type { UserSeed } from './users.ts';
import { isUuidText } from './uuid.ts';

/** The options of `reconcile simulate`, as the command line gives them. */
export interface SimulateOptions {
  /** 0 picks a free port. */
  readonly port: number;
  readonly tokenFile: string;
  readonly data?: string;
  /** Each `NAME=UUID`. */
  readonly users?: readonly string[];
  readonly discovery?: string;
  readonly filterRate?: number;
  readonly admin?: boolean;
  /** Milliseconds that each request waits. */
  readonly latencyMs?: number;
  /** Path of a network namespace whose kernel holds the packet filter. */
  readonly nftNetns?: string;
}

/** What the command touches of its process. */
export interface SimulateIo {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Aborted when the process is asked to end. */
  readonly signal: AbortSignal;
}

/** Options that make no sense, or a file that cannot be used; the message says what to do. */
export class SimulateError extends Error {}

/** How fast the real server's packet filter follows a large table, in changes a second (observed). */
const nftRate = 170;

/** Runs the simulator until the signal: prints `listening URL` first. Resolves with 1 when the simulated server ended itself. */
export async function runSimulate(options: SimulateOptions, io: SimulateIo): Promise<number> {
  const onError = (error: unknown): void => io.stderr(`the simulator made a mistake: ${String(error)}\n`);
  const simulator = await start({ ...simulatorOptions(options), onError });
  const { latencyMs: milliseconds } = options;
  if (milliseconds !== undefined) simulator.faults.inject({ fault: { kind: 'delay', milliseconds } });
  io.stdout(`listening ${simulator.url}\n`);
  io.stdout(`export RECONCILE_BASE_URL=${simulator.url}\n`);
  io.stdout(`export RECONCILE_TOKEN_FILE=${quote(options.tokenFile)}\n`);
  const asked = new Promise<undefined>((resolve) => {
    if (io.signal.aborted) resolve(undefined);
    io.signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  const reason = await Promise.race([asked, simulator.exited]);
  if (reason !== undefined) {
    io.stderr(`the simulated server ended itself: ${reason}\n`);
    return 1;
  }
  await simulator.close();
  return 0;
}

/** A word that a shell reads as it is. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

async function start(options: SimulatorOptions): Promise<Simulator> {
  try {
    return await startSimulator(options);
  } catch (error) {
    const taken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE';
    if (taken) throw new SimulateError(`another process listens on port ${options.port}; choose another with --listen`);
    const message = error instanceof Error ? error.message : String(error);
    throw new SimulateError(`the simulator cannot start: ${message}`);
  }
}

function simulatorOptions(options: SimulateOptions): SimulatorOptions {
  const { nftNetns: netns, filterRate, discovery = 'accept' } = options;
  if (discovery !== 'accept' && discovery !== 'fetch') {
    throw new SimulateError(`--discovery ${discovery}: choose accept or fetch`);
  }
  if (filterRate !== undefined && !(filterRate > 0)) throw new SimulateError('--filter-rate must be more than 0');
  const rate = filterRate ?? (netns === undefined ? undefined : nftRate);
  return {
    token: readToken(options.tokenFile),
    port: options.port,
    users: (options.users ?? []).map(parseUser),
    discovery,
    admin: options.admin ?? false,
    ...(options.data === undefined ? {} : { dataFile: options.data }),
    ...(rate === undefined ? {} : { filterRate: rate }),
    ...(netns === undefined ? {} : { nft: { netns } }),
  };
}

function parseUser(text: string): UserSeed {
  const equals = text.indexOf('=');
  const name = text.slice(0, Math.max(equals, 0));
  const id = text.slice(equals + 1);
  if (name === '' || !isUuidText(id)) throw new SimulateError(`--user ${text}: write NAME=UUID`);
  return name.includes('@') ? { name, id, email: name } : { name, id };
}

/** The token in the file; a file that is not there is made, readable for its owner only, with a random token. */
function readToken(path: string): string {
  try {
    const descriptor = openSync(path, 'wx', 0o600);
    const token = drawToken(Date.now());
    writeSync(descriptor, `${token}\n`);
    closeSync(descriptor);
    return token;
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw unusable(path, error);
  }
  let token: string;
  try {
    token = readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw unusable(path, error);
  }
  if (token === '') throw new SimulateError(`the token file ${path} is empty: remove it and a token is made`);
  return token;
}

function unusable(path: string, error: unknown): SimulateError {
  return new SimulateError(
    `the token file ${path} cannot be used: ${error instanceof Error ? error.message : String(error)}`,
  );
}
