import { systemClock } from '../../adapters/clock.ts';
import { readLive, readUsers } from '../../apply/read.ts';
import { encodeSnapshot } from '../../live/snapshot.ts';
import { wholeScope } from '../../model/state.ts';
import { formatSafeJson } from '../../report/json.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { Failure } from '../failure.ts';
import { readProfile } from '../plan-settings.ts';
import { explainReadFailure } from '../read-failure.ts';
import { writeNamedFile } from '../read-file.ts';
import { makeReadContext, wireApi } from '../wire.ts';

/** `reconcile snapshot --out FILE`: the live state without secrets, for `--plan --live FILE` where no token may be. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { api, token } = wireApi(invocation);
  try {
    const context = await makeReadContext(invocation, api);
    const now = systemClock.wallTime();
    const live = await readLive(context, wholeScope, null);
    if (!live.ok) throw new Failure([explainReadFailure(live.error, token.read, now)]);
    const users = readProfile(settings).listsUsers ? await readUsers(context) : null;
    if (users !== null && !users.ok) throw new Failure([explainReadFailure(users.error, token.read, now)]);
    const snapshot = encodeSnapshot(live.value.live, users?.value ?? [], new Date(now).toISOString());
    const text = formatSafeJson(snapshot);
    if (settings.out === null) return { exit: exitCodes.ok, text: () => text };
    writeNamedFile(settings.out, text, '--out');
    return { exit: exitCodes.ok, notes: () => `${settings.out}: written, without secrets\n` };
  } finally {
    await api.close();
  }
}
