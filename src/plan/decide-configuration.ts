import { type ConfigurationField, losesSignIn, signInFields } from '../model/configuration.ts';
import { makeWarning, type Place, type Problem } from '../model/problem.ts';
import { diffConfiguration, type FieldState } from './diff-configuration.ts';
import type { PlanInput } from './input.ts';
import type { ConfigurationChange } from './plan.ts';

export interface ConfigurationDecision {
  readonly change: ConfigurationChange;
  /** The managed fields that differ and can be sent; empty unless the action is `update`. */
  readonly sent: readonly ConfigurationField[];
  /** With a base: the fields that differ although this revision does not change them. */
  readonly drifted: readonly ConfigurationField[];
  readonly problems: readonly Problem[];
}

/**
 * Decides about the Configuration; null when it is not managed, not in scope or was not read.
 *
 * | managed fields                                              | action | reason         | sent               |
 * |-------------------------------------------------------------|--------|----------------|--------------------|
 * | all agree                                                   | keep   | in-sync        | none               |
 * | some differ                                                 | update | differs        | those that differ  |
 * | the rest differs at most in secrets that are not available here (an undo warns of it) | skip | unknown-secret | none |
 * | some of the rest differ, and cannot be sent without such a secret | skip | unsent      | none               |
 *
 * Going back leaves the last way to sign in as it is, as if that field was not managed.
 */
export function decideConfiguration(input: PlanInput): ConfigurationDecision | null {
  const desired = input.desired.configuration;
  const live = input.live.configuration;
  if (desired === null || live === null || !input.scope.configuration) return null;
  const all = diffConfiguration(desired, live, input);
  const known = all.filter(({ state }) => state === 'differs').map(({ field }) => field);
  const isKept = input.options.goesBack === true && losesSignIn(live, desired, known);
  const kept: readonly ConfigurationField[] = isKept ? signInFields.filter((field) => known.includes(field)) : [];
  const diffs = all.filter(({ field }) => !kept.includes(field));
  const sent = known.filter((field) => !kept.includes(field));
  const differing = diffs.filter(({ state, isMoved }) => state !== 'hidden' || isMoved === true);
  const drifted = differing.filter(({ isMoved }) => isMoved === false).map(({ field }) => field);
  // One word for the whole; fields that drifted beside others that this revision changes are named in problems.
  const origin = drifted.length === differing.length ? 'drift' : 'this-revision';
  const change: ConfigurationChange = {
    kind: 'Configuration',
    action: sent.length > 0 ? 'update' : diffs.length > 0 ? 'skip' : 'keep',
    via: sent.length > 0 ? 'patch' : null,
    reason: reasonOf(diffs.map(({ state }) => state)),
    ...(input.base === null || differing.length === 0 ? {} : { origin }),
    name: desired.name,
    id: live.id,
    fields: Object.fromEntries(diffs.map(({ field, change: shown }) => [field, shown])),
    source: desired.place.line ? desired.place : null,
    desired,
    live,
  };
  const placeOf = (field: ConfigurationField): Place => desired.places[field] ?? desired.place;
  // What no manifest asks for, but an undo, is put back once: it is owed though it may be live.
  const unsent = diffs
    .filter(({ state }) => state === 'blocked' || (state === 'hidden' && desired.place.line === 0))
    .map(({ field, state }) => unsentField(field, state, placeOf(field)));
  const strayed = origin === 'drift' ? [] : drifted.map((field) => driftedField(field, placeOf(field)));
  return { change, sent, drifted, problems: [...kept.map(keptField), ...unsent, ...strayed] };
}

function keptField(field: ConfigurationField): Problem {
  const summary = `\`${field}\` is not taken back: nobody could sign in without what is live now.`;
  const hint = 'Turn on another way to sign in, then: reconcile undo N (`reconcile history` has the number).';
  return makeWarning('locks-out', summary, hint);
}

function reasonOf(states: readonly FieldState[]): ConfigurationChange['reason'] {
  if (states.includes('differs')) return 'differs';
  if (states.includes('blocked')) return 'unsent';
  return states.length > 0 ? 'unknown-secret' : 'in-sync';
}

/** A secret that only hides whether a field differs is reported where it is read; one that keeps a change back, here. */
function unsentField(field: ConfigurationField, state: FieldState, place: Place): Problem {
  const summary = `\`${field}\` ${state === 'hidden' ? 'may differ' : 'differs'}, but a secret in it is not available here, so it is not sent.`;
  const hint = 'Provide the secret where the plan is applied; a plan without it shows the secret as unknown.';
  return makeWarning('unsent-field', summary, hint, place);
}

function driftedField(field: ConfigurationField, place: Place): Problem {
  const others = "other fields of the Configuration are this revision's";
  const summary = `\`${field}\` was changed on the server, not by this revision; ${others}.`;
  return makeWarning('drifted-field', summary, 'Look at who changed it, and why, before it is changed back.', place);
}
