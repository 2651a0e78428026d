import type { LiveReading, ReadFailure } from '../apply/read.ts';
import { findTurning } from '../desired/in-force.ts';
import type { Problem } from '../model/problem.ts';
import { ok, type Result } from '../model/result.ts';
import type { SourceContent } from '../ports.ts';
import type { PassDependencies } from './pass.ts';
import { type BuiltDesired, readDesired } from './stages.ts';

/** Clocks that differ by more end and begin nothing, ms. */
export const mostApartMs = 300_000;

/** What is asked for, and what is said, after a look at the server's clock. */
export interface TimedDesired {
  readonly built: BuiltDesired;
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
export async function checkClock(
  content: SourceContent,
  built: BuiltDesired,
  { serverAheadMs }: LiveReading,
  pass: PassDependencies,
): Promise<Result<TimedDesired, ReadFailure>> {
  const { state } = built.desired;
  const { agreedAt, baseApplied } = pass;
  const asIs = ok({ built, problems: [] });
  if (serverAheadMs === undefined || Math.abs(serverAheadMs) <= mostApartMs) return asIs;
  if (state?.at === undefined || pass.at !== undefined || !pass.desired.scope.rules) return asIs;
  const { rules, expired = [], upcoming = [], at } = state;
  const times = [at, at + serverAheadMs, ...(agreedAt === undefined ? [] : [agreedAt])];
  const turning = findTurning([...rules, ...expired, ...upcoming], times);
  const [first] = turning;
  if (first === undefined) return asIs;
  const more = turning.length === 1 ? '' : ` and ${turning.length - 1} more`;
  const which = `whether \`${first.name}\`${more} is in force cannot be told`;
  const apart = `The clocks of this machine and of the server differ by ${Math.round(Math.abs(serverAheadMs) / 60_000)} minutes`;
  const summary = `${apart}: ${which}.`;
  if (agreedAt === undefined || baseApplied !== true) return ok({ built, problems: [], clockDiffers: summary });
  const { users } = built;
  const known = users === null ? {} : { users: () => Promise.resolve(ok(users)) };
  const then = await readDesired(content, { ...pass, ...known, at: agreedAt });
  if (!then.ok) return then;
  const hint =
    'It stays as it was when the clocks last agreed. Set the clock that is wrong; `reconcile doctor` compares them.';
  return ok({
    built: then.value,
    problems: [{ code: 'clock-differs', severity: 'warning', summary, hint, place: first.place }],
  });
}
