import type { Settled } from './outcome.ts';
import type { Session } from './session.ts';
import type { WriteOrder } from './write.ts';

/** A look at the kernel's packet filter: whether it holds exactly the live rules, and in which table. */
interface Look {
  readonly holds: boolean;
  readonly table: number | undefined;
}

const firstPauseMs = 250;
const longestPauseMs = 1000;

/**
 * Deletes a rule that was modified in place. The first such delete that meets what the filter does not hold makes it crash and
 * build itself anew from the database, so that nothing is left for the others to crash it. Blind, nobody knows which it is: the
 * first one is waited for; the others only where a rebuild is so long that what is sent meanwhile would be lost.
 */
export async function deleteModified(send: () => Promise<Settled>, order: WriteOrder): Promise<Settled> {
  const { session } = order;
  const { throttle, known } = session;
  if (session.rebuilt === 'seen') return await send();
  if (session.rebuilt === 'waited' && throttle.isLossless(known.count())) {
    const settled = await send();
    throttle.mayCrash(known.count());
    return settled;
  }
  const look = await openKernel(session);
  const before = (await look?.()) ?? null;
  const settled = await send();
  if (settled.outcome !== 'failed') session.rebuilt = await outlastRebuild(before, order);
  return settled;
}

/** How to compare the kernel with what is live now; null where nobody can look, and a look is null where it cannot be read just now. */
async function openKernel(session: Session) {
  const { enforcement, profile } = session.context;
  if (enforcement === undefined || profile.filter === null) return null;
  const listed = await session.freshRules('normal');
  if (!listed.ok) return null;
  return async (): Promise<Look | null> => {
    const { state, tableHandle } = await enforcement.kernel.check(listed.value, new Map(), session.hard);
    return state === 'unreadable' ? null : { holds: state === 'enforced', table: tableHandle };
  };
}

/**
 * Waits until the filter is expected to be rebuilt, or is seen to be. No write is sent meanwhile: what is created during a long
 * rebuild is lost (observed: recordings/packet_filter_rebuild). A stop ends the wait, with a gap open at the bound of a stop.
 */
async function outlastRebuild(before: Look | null, { session, priority }: WriteOrder): Promise<Session['rebuilt']> {
  const { throttle, known, context } = session;
  const { clock, logger } = context;
  const startedAt = clock.now();
  if (throttle.rebuild(known.count(), 'after-backlog') === 0) return 'waited';
  let look = before === null ? null : await openKernel(session);
  let last: Look | null = null;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const leftMs = throttle.waitMs('gap');
    // Once the delete has had its time, what the kernel holds is not from before it.
    if (leftMs <= 0) return last?.holds === true ? 'seen' : 'waited';
    if (session.closeWithinMs() <= 0 || (priority === 'normal' && session.stopped !== null)) return 'no';
    const ms = Math.min(leftMs, session.closeWithinMs(), look === null ? leftMs : pauseMs);
    await clock.sleep(ms, session.stopped === null ? session.soft : session.hard);
    const now: Look | null = look && (await look());
    if (now === null) look = null;
    const isOver = isRebuilt(now, last, before);
    last = now;
    if (!isOver) continue;
    logger.info('the packet filter holds every live rule again', { waitedMs: Math.round(clock.now() - startedAt) });
    throttle.rebuilt();
    return 'seen';
  }
}

/**
 * Whether the last two looks show it, for a crash may follow another. To hold every live rule proves nothing while the delete may still
 * be under way: the table is another than before, which a crash makes, or held exactly the live rules, so that nothing could crash.
 */
function isRebuilt(now: Look | null, last: Look | null, before: Look | null): boolean {
  if (now?.holds !== true || last?.holds !== true || last.table !== now.table || before === null) return false;
  return before.holds || (now.table !== undefined && before.table !== undefined && now.table !== before.table);
}
