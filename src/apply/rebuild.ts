import type { LiveRule } from '../model/rule.ts';
import type { Session } from './session.ts';
import type { Priority } from './throttle.ts';
import type { Settled } from './write.ts';

/** What the kernel showed before a delete that may make the server rebuild its packet filter. */
interface KernelBefore {
  /** It held exactly the live rules, so the delete meets what it is about and crashes nothing. */
  readonly agreed: boolean;
  readonly table: number | undefined;
}

const firstPauseMs = 250;
const longestPauseMs = 1000;
const noNames = new Map();

/**
 * Deletes a rule that was modified in place. The first such delete that meets what the filter does not hold makes it crash and
 * build itself anew from the database, so that nothing is left for the others to crash it. Blind, nobody knows which it is: the
 * first one is waited for; the others only where a rebuild is so long that what is sent meanwhile would be lost.
 */
export async function deleteModified(
  send: () => Promise<Settled>,
  session: Session,
  priority: Priority,
): Promise<Settled> {
  const { throttle, known } = session;
  if (session.rebuilt === 'seen') return await send();
  if (session.rebuilt === 'waited' && throttle.isLossless(known.count())) {
    const settled = await send();
    throttle.mayCrash(known.count());
    return settled;
  }
  const before = await lookBeforeRebuild(session);
  const settled = await send();
  if (settled.outcome !== 'failed') session.rebuilt = await outlastRebuild(before, session, priority);
  return settled;
}

/** Looks at the kernel before such a delete; null when nobody can look, or it cannot be read. */
async function lookBeforeRebuild(session: Session): Promise<KernelBefore | null> {
  const { enforcement } = session.context;
  if (enforcement === undefined || session.context.profile.filter === null) return null;
  const listed = await session.freshRules('normal');
  if (!listed.ok) return null;
  const report = await enforcement.check(listed.value, noNames, session.hard);
  return report.state === 'unreadable' ? null : { agreed: report.state === 'enforced', table: report.tableHandle };
}

/**
 * Waits until the filter is expected to be rebuilt, or is seen to be. No write is sent meanwhile: what is created during a long
 * rebuild is lost (observed: recordings/packet_filter_rebuild). A stop ends the wait, with a gap open at the bound of a stop.
 */
async function outlastRebuild(
  before: KernelBefore | null,
  session: Session,
  priority: Priority,
): Promise<Session['rebuilt']> {
  const { throttle, known, context } = session;
  const { clock, logger } = context;
  const startedAt = clock.now();
  if (throttle.rebuild(known.count(), 'after-backlog') === 0) return 'waited';
  let seen = before === null ? null : await watchOf(before, session);
  let state: Seen = 'not-yet';
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const leftMs = throttle.waitMs('gap');
    if (leftMs <= 0) return state === 'holds' ? 'seen' : 'waited';
    if (session.closeWithinMs() <= 0 || (priority === 'normal' && session.stopped() !== null)) return 'no';
    const ms = Math.min(leftMs, session.closeWithinMs(), seen === null ? leftMs : pauseMs);
    await clock.sleep(ms, session.stopped() === null ? session.soft : session.hard);
    state = seen === null ? 'not-yet' : await seen();
    if (state === 'unreadable') seen = null;
    if (state !== 'rebuilt') continue;
    logger.info('the packet filter holds every live rule again', { waitedMs: Math.round(clock.now() - startedAt) });
    throttle.rebuilt();
    return 'seen';
  }
}

/** `holds`: every live rule, though that may be from before the delete; once the delete has had its time it is not. */
type Seen = 'rebuilt' | 'holds' | 'not-yet' | 'unreadable';

/** How to look whether the filter is done; null when the rules that it has to hold cannot be read. */
async function watchOf(before: KernelBefore, session: Session): Promise<(() => Promise<Seen>) | null> {
  const listed = await session.freshRules('normal');
  return listed.ok ? watch(before, listed.value, session) : null;
}

/**
 * The kernel holding every live rule proves nothing while the delete may still be under way to it: it counts when the table is
 * another than before the delete, which a crash makes, or when the delete could not crash anything; and when seen twice, for a
 * crash may follow another.
 */
function watch(before: KernelBefore, live: readonly LiveRule[], session: Session): () => Promise<Seen> {
  let last: number | undefined | null = null;
  return async () => {
    const report = await session.context.enforcement?.check(live, noNames, session.hard);
    if (report === undefined || report.state === 'unreadable') return 'unreadable';
    const { state, tableHandle } = report;
    const anew = tableHandle !== undefined && before.table !== undefined && tableHandle !== before.table;
    const holds = state === 'enforced' && (before.agreed || anew);
    const again = holds && last === tableHandle;
    last = holds ? tableHandle : null;
    return again ? 'rebuilt' : state === 'enforced' ? 'holds' : 'not-yet';
  };
}
