import { writeFileSync } from 'node:fs';
import { systemClock } from '../../adapters/clock.ts';
import { defaultApplyLimits } from '../../apply/context.ts';
import { readLive, readUsers } from '../../apply/read.ts';
import { encodeSnapshot } from '../../live/snapshot.ts';
import { wholeScope } from '../../model/state.ts';
import { safeJson } from '../../report/json.ts';
import type { Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { Failure, failure } from '../failure.ts';
import { loggerOf } from '../logger.ts';
import { profileOf } from '../plan-settings.ts';
import { explainReadFailure } from '../read-failure.ts';
import { wireApi } from '../wire.ts';

/** `reconcile snapshot --out FILE`: the live state without secrets, for `--plan --live FILE` where no token may be. */
export async function run(invocation: Invocation): Promise<number> {
  const { settings, terminal } = invocation;
  const { api, token } = wireApi(invocation);
  try {
    const { attempts } = defaultApplyLimits;
    const context = { api, clock: systemClock, logger: await loggerOf(invocation), attempts, signal: terminal.stop };
    const now = systemClock.wallTime();
    const live = await readLive(context, wholeScope, null);
    if (!live.ok) throw new Failure([explainReadFailure(live.error, token.read, now)]);
    const users = profileOf(settings).listsUsers ? await readUsers(context) : null;
    if (users !== null && !users.ok) throw new Failure([explainReadFailure(users.error, token.read, now)]);
    const snapshot = encodeSnapshot(live.value.live, users?.value ?? [], new Date(now).toISOString());
    write(safeJson(snapshot), invocation);
    return exitCodes.ok;
  } finally {
    await api.close();
  }
}

function write(text: string, { settings, terminal }: Invocation): void {
  if (settings.out === null) {
    terminal.stdout(text);
    return;
  }
  try {
    writeFileSync(settings.out, text);
    terminal.stderr(`${settings.out}: written, without secrets\n`);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    throw failure('output', `${settings.out} cannot be written (${code})`, 'check --out');
  }
}
