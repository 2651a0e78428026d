import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { quoteForShell } from '../../adapters/source/git-access.ts';
import { getErrorCode } from '../../model/result.ts';
import { type SimulatorOptions, startSimulator } from '../../simulator/server.ts';
import { drawToken } from '../../simulator/tokens.ts';
import type { UserSeed } from '../../simulator/users.ts';
import { isUuidText } from '../../simulator/uuid.ts';
import { type Answer, type Invocation, makeFailure, type Settings } from '../command.ts';
import { readNamedFile } from '../read-file.ts';

/** `reconcile simulate`: the simulated API server, until the process is asked to end; exit 1 when that server ends itself. */
export async function run({ settings, terminal }: Invocation): Promise<Answer> {
  const { tokenFile, latency } = settings;
  const hint = 'name a file for the token; it is made when it does not exist';
  if (tokenFile === null) throw makeFailure('usage', '--token-file is missing', hint);
  const { stdout, stderr, stop } = terminal;
  const onError = (error: unknown): void => stderr(`the simulator made a mistake: ${String(error)}\n`);
  const options = { ...optionsOf(settings, readToken(tokenFile)), onError };
  const simulator = await startSimulator(options).catch((error: unknown) => {
    if (getErrorCode(error) === 'EADDRINUSE')
      throw makeFailure('usage', `another process listens on port ${options.port}; choose another with --listen`);
    throw makeFailure('usage', `the simulator cannot start: ${textOf(error)}`);
  });
  if (latency !== null) simulator.faults.inject({ fault: { kind: 'delay', milliseconds: latency } });
  stdout(`listening ${simulator.url}\n`);
  stdout(`export RECONCILE_BASE_URL=${simulator.url}\n`);
  stdout(`export RECONCILE_TOKEN_FILE=${quoteForShell(tokenFile)}\n`);
  const asked = stop.aborted ? undefined : once(stop, 'abort').then(() => undefined);
  const reason = await Promise.race([asked, simulator.exited]);
  if (reason !== undefined) {
    stderr(`the simulated server ended itself: ${reason}\n`);
    return { exit: 1 };
  }
  await simulator.close();
  return { exit: 0 };
}

function optionsOf(settings: Settings, token: string): SimulatorOptions {
  const { user, discovery, admin, data, nftNetns: netns } = settings;
  // A real packet filter follows a large table at some 170 changes a second (observed).
  const filterRate = settings.filterRate ?? (netns === null ? null : 170);
  return {
    token,
    port: portOf(settings),
    users: user.map(parseUser),
    discovery: discovery === 'fetch' ? 'fetch' : 'accept',
    admin,
    ...(data === null ? {} : { dataFile: data }),
    ...(filterRate === null ? {} : { filterRate }),
    ...(netns === null ? {} : { nft: { netns } }),
  };
}

/** The port of `--listen [HOST:]PORT`, or of `--port`; 0: any that is free. The simulator is for this machine alone. */
function portOf({ simulatorListen, simulatorPort }: Settings): number {
  if (simulatorListen === null) return simulatorPort ?? 0;
  const port = Number(/^(?:(?:127\.0\.0\.1|localhost):|:)?([0-9]{1,5})$/.exec(simulatorListen)?.[1]);
  if (port <= 65_535) return port;
  const hint = 'write a port, such as --listen 8080; only this machine can reach the simulator';
  throw makeFailure('usage', `--listen ${simulatorListen} is no loopback address to listen on`, hint);
}

function parseUser(text: string): UserSeed {
  const [, name = '', id = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (!isUuidText(id)) throw makeFailure('usage', `--user ${text}: write NAME=UUID`);
  return name.includes('@') ? { name, id, email: name } : { name, id };
}

/** The token in the file; a file that is not there is made, readable for its owner only, with a random token. */
function readToken(path: string): string {
  const name = `the token file ${path}`;
  try {
    writeFileSync(path, `${drawToken(Date.now())}\n`, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if (getErrorCode(error) !== 'EEXIST') throw makeFailure('usage', `${name} cannot be used: ${textOf(error)}`);
  }
  const hint = 'name another file, or one that does not exist';
  const token = readNamedFile({ path, code: 'usage', name, largest: 65_536, hint }).toString().trim();
  if (token === '') throw makeFailure('usage', `${name} is empty: remove it and a token is made`);
  return token;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
