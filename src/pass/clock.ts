import type { LiveReading } from '../apply/read.ts';
import { makeState } from '../desired/desired.ts';
import { makeWarning, type Problem } from '../model/problem.ts';
import { isDesiredAt } from '../model/rule.ts';
import { type DesiredState, listAllRules } from '../model/state.ts';
import type { PassDependencies } from './pass.ts';

/** Clocks that differ by more end and begin nothing, ms. */
export const mostApartMs = 300_000;

/** What is asked for, and what is said, after a look at the server's clock. */
export interface TimedDesired {
  readonly state: DesiredState;
  readonly problems: readonly Problem[];
  /** Why the plan is refused. */
  readonly clockDiffers?: string;
}

/**
 * While our clock and the server's differ, no rule begins or ends. `turning`: a rule is in force by one of the clocks or at the last
 * agreed time, and at another of these it is not.
 *
 * | clocks | turning | agreed time          | what is planned                                            |
 * |--------|---------|----------------------|------------------------------------------------------------|
 * | agree, or the server says no time | | | the state now                                              |
 * | differ | none    | any                  | the state now: the same by both clocks                     |
 * | differ | some    | of the last applied  | the state as of then, with the problem `clock-differs`     |
 * | differ | some    | none, or a one-shot's| nothing: refused, since others may have applied since then |
 */
export function checkClock(state: DesiredState, { serverAheadMs }: LiveReading, pass: PassDependencies): TimedDesired {
  const { agreedAt, baseApplied } = pass;
  const apart = serverAheadMs === undefined || pass.at !== undefined ? 0 : serverAheadMs;
  const doubt = pass.desired.scope.rules ? findDoubt(state, apart, agreedAt) : null;
  if (doubt === null) return { state, problems: [] };
  if (agreedAt === undefined || baseApplied !== true) return { state, problems: [], clockDiffers: doubt.summary };
  return { state: makeState(listAllRules(state), agreedAt, state), problems: [doubt] };
}

/** What cannot be told while the server's clock is that far from ours; null: nothing. */
function findDoubt(state: DesiredState, serverAheadMs: number, agreedAt: number | undefined): Problem | null {
  const apartMs = Math.abs(serverAheadMs);
  const { at } = state;
  if (at === undefined || apartMs <= mostApartMs) return null;
  const times = [at + serverAheadMs, agreedAt ?? at];
  const [first, ...others] = listAllRules(state).filter((rule) =>
    times.some((time) => isDesiredAt(rule, time) !== isDesiredAt(rule, at)),
  );
  if (first === undefined) return null;
  const which = `\`${first.name}\`${others.length === 0 ? '' : ` and ${others.length} more`}`;
  const minutes = Math.round(apartMs / 60_000);
  const summary = `The clocks of this machine and of the server differ by ${minutes} minutes: whether ${which} is in force cannot be told.`;
  const hint =
    'It stays as it was when the clocks last agreed. Set the clock that is wrong; `reconcile doctor` compares them.';
  return makeWarning('clock-differs', summary, hint, first.place);
}
