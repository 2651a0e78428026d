import type { LiveReading } from '../apply/read.ts';
import { makeState } from '../desired/desired.ts';
import { makeWarning } from '../model/problem.ts';
import { type DesiredRule, formatRuleKey, isDesiredAt, listKeys } from '../model/rule.ts';
import { type DesiredState, listAllRules } from '../model/state.ts';
import { leaveRule } from './go-back.ts';
import type { PassDependencies } from './pass.ts';

/** Clocks that differ by more end and begin nothing, ms. */
export const mostApartMs = 300_000;

/**
 * While our clock and the server's differ, no rule begins or ends. `turning`: a rule is in force by one of the clocks or at the last
 * agreed time, and at another of these it is not.
 *
 * | clocks | turning | agreed time          | what is planned                                            |
 * |--------|---------|----------------------|------------------------------------------------------------|
 * | agree, or the server says no time | | | the state now                                              |
 * | differ | none    | any                  | the state now: the same by both clocks                     |
 * | differ | some    | of the last applied  | the state as of then; created is only what both clocks hold |
 * | differ | some    | none, or a one-shot's| nothing: refused, since others may have applied since then |
 * | differ | some    | the same, going back | the state now; created is only what both clocks hold        |
 *
 * `refusal`: why nothing may be written, whoever approves it.
 */
export function checkClock(state: DesiredState, { live, serverAheadMs = 0 }: LiveReading, pass: PassDependencies) {
  const { agreedAt, baseApplied } = pass;
  const { at } = state;
  const apart = pass.at === undefined ? serverAheadMs : 0;
  if (at === undefined || Math.abs(apart) <= mostApartMs || !pass.desired.scope.rules)
    return { state, problems: [], refusal: null };
  const both = [at, at + apart];
  const doubt = findDoubt(state, [...both, agreedAt ?? at], apart);
  // The last agreed time stays what it was.
  const since = (baseApplied && agreedAt) || at;
  if (doubt === null) return { state: { ...state, at: since }, problems: [], refusal: null };
  if (!(baseApplied && agreedAt) && !pass.options.goesBack) return { state, problems: [], refusal: doubt };
  const then = stateAt(state, since);
  const held = listKeys(live.rules);
  const isSure = (one: DesiredRule): boolean =>
    held.has(formatRuleKey(one.rule)) || both.every((time) => isDesiredAt(one, time));
  const leftOut = then.rules.filter((one) => pass.options.goesBack && !isSure(one));
  const named = leftOut.map(({ name, rule }) => leaveRule(rule, name, 'may not be in force: the clocks differ'));
  return { state: { ...then, rules: then.rules.filter(isSure) }, problems: [doubt, ...named], refusal: null };
}

/** The state at another time. */
export function stateAt(state: DesiredState, at: number): DesiredState {
  return makeState(listAllRules(state), at, state);
}

/** What cannot be told while the clocks are that far apart; null: nothing. */
function findDoubt(state: DesiredState, times: readonly number[], apart: number) {
  const isTurning = (rule: DesiredRule) => new Set(times.map((time) => isDesiredAt(rule, time))).size > 1;
  const [first, ...others] = listAllRules(state).filter(isTurning);
  if (first === undefined) return null;
  const which = `\`${first.name}\`${others.length === 0 ? '' : ` and ${others.length} more`}`;
  const minutes = Math.round(Math.abs(apart) / 60_000);
  const far = minutes < 2880 ? `${minutes} minutes` : `${Math.round(minutes / 1440)} days`;
  const summary = `The clocks of this machine and of the server differ by ${far}: whether ${which} is in force cannot be told.`;
  const hint = 'It stays as it was when they agreed. Set the clock that is wrong; `reconcile doctor` compares them.';
  return { ...makeWarning('clock-differs', summary, hint, first.place), hint };
}
