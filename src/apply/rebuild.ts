import type { LiveRule } from '../model/rule.ts';
import type { Session } from './session.ts';
import type { Priority } from './throttle.ts';

/** What the kernel showed before a delete that may make the server rebuild its packet filter. */
interface KernelBefore {
  /** It held exactly the live rules, so the delete meets what it is about and crashes nothing. */
  readonly agreed: boolean;
  readonly table: number | undefined;
}

const firstPauseMs = 250;
const longestPauseMs = 1000;
const noNames = new Map();

/** Looks at the kernel before such a delete; null when nobody can look, or it cannot be read. */
export async function lookBeforeRebuild(session: Session): Promise<KernelBefore | null> {
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
export async function outlastRebuild(before: KernelBefore | null, session: Session, priority: Priority): Promise<void> {
  const { throttle, known, context } = session;
  const { clock, logger } = context;
  const startedAt = clock.now();
  if (throttle.rebuild(known.count(), 'after-backlog') === 0) return;
  let seen = before === null ? null : await watchOf(before, session);
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const leftMs = Math.min(throttle.waitMs('gap'), session.closeWithinMs());
    if (leftMs <= 0 || (priority === 'normal' && session.stopped() !== null)) return;
    const ms = seen === null ? leftMs : Math.min(leftMs, pauseMs);
    await clock.sleep(ms, session.stopped() === null ? session.soft : session.hard);
    const state = seen === null ? 'not-yet' : await seen();
    if (state === 'unreadable') seen = null;
    if (state !== 'rebuilt') continue;
    logger.info('the packet filter holds every live rule again', { waitedMs: Math.round(clock.now() - startedAt) });
    throttle.rebuilt();
    return;
  }
}

type Seen = 'rebuilt' | 'not-yet' | 'unreadable';

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
    return again ? 'rebuilt' : 'not-yet';
  };
}
