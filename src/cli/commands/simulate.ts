import { runSimulate, SimulateError } from '../../simulator/command.ts';
import type { Answer, Invocation } from '../command.ts';
import { failure } from '../failure.ts';

/** `reconcile simulate`: the simulated API server, until the process is asked to end. */
export async function run({ settings, terminal }: Invocation): Promise<Answer> {
  const { tokenFile, data, filterRate, nftNetns } = settings;
  if (tokenFile === null) {
    throw failure('usage', '--token-file is missing', 'name a file for the token; it is made when it does not exist');
  }
  const options = {
    port: settings.port ?? 0,
    tokenFile,
    users: settings.user,
    discovery: settings.discovery,
    admin: settings.admin,
    ...(data === null ? {} : { data }),
    ...(filterRate === null ? {} : { filterRate }),
    ...(nftNetns === null ? {} : { nftNetns }),
  };
  try {
    const { stdout, stderr, stop: signal } = terminal;
    return { exit: await runSimulate(options, { stdout, stderr, signal }) };
  } catch (error) {
    if (error instanceof SimulateError) throw failure('usage', error.message);
    throw error;
  }
}
