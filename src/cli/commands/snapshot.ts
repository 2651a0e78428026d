import { systemClock } from '../../adapters/clock.ts';
import { readLive, readUsers } from '../../apply/read.ts';
import { encodeSnapshot } from '../../live/snapshot.ts';
import { wholeScope } from '../../model/state.ts';
import { formatSafeJson } from '../../report/json.ts';
import type { Answer, Invocation } from '../command.ts';
import { readProfile } from '../plan-settings.ts';
import { writeNamedFile } from '../read-file.ts';
import { askServer } from '../wire.ts';

/** `reconcile snapshot --out FILE`: the live state without secrets, for `--plan --live FILE` where no token may be. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const now = new Date(systemClock.wallTime()).toISOString();
  const text = await askServer(invocation, async (context, must) => {
    const { live } = must(await readLive(context, wholeScope, null));
    const users = readProfile(settings).listsUsers ? must(await readUsers(context)) : [];
    return formatSafeJson(encodeSnapshot(live, users, now));
  });
  if (settings.out === null) return { text: () => text };
  writeNamedFile(settings.out, text, '--out');
  return { result: 'written', notes: () => `${settings.out}: written, without secrets\n` };
}
