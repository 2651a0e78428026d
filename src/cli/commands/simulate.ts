import { runSimulate, SimulateError } from '../../simulator/command.ts';
import { type Answer, type Invocation, makeFailure, type Settings } from '../command.ts';

/** `reconcile simulate`: the simulated API server, until the process is asked to end. */
export async function run({ settings, terminal }: Invocation): Promise<Answer> {
  const { tokenFile, data, filterRate, nftNetns, latency } = settings;
  const hint = 'name a file for the token; it is made when it does not exist';
  if (tokenFile === null) throw makeFailure('usage', '--token-file is missing', hint);
  const options = {
    port: portOf(settings),
    tokenFile,
    users: settings.user,
    discovery: settings.discovery,
    admin: settings.admin,
    ...(latency === null ? {} : { latencyMs: latency }),
    ...(data === null ? {} : { data }),
    ...(filterRate === null ? {} : { filterRate }),
    ...(nftNetns === null ? {} : { nftNetns }),
  };
  try {
    const { stdout, stderr, stop: signal } = terminal;
    return { exit: await runSimulate(options, { stdout, stderr, signal }) };
  } catch (error) {
    if (error instanceof SimulateError) throw makeFailure('usage', error.message);
    throw error;
  }
}

/** The port of `--listen [HOST:]PORT`, or of `--port`; 0: any that is free. The simulator is for this machine alone. */
function portOf({ simulatorListen, simulatorPort }: Settings): number {
  if (simulatorListen === null) return simulatorPort ?? 0;
  const found = /^(?:(?:127\.0\.0\.1|localhost):|:)?([0-9]{1,5})$/.exec(simulatorListen);
  const port = Number(found?.[1] ?? Number.NaN);
  if (port <= 65_535) return port;
  const hint = 'write a port, such as --listen 8080; only this machine can reach the simulator';
  throw makeFailure('usage', `--listen ${simulatorListen} is no loopback address to listen on`, hint);
}
