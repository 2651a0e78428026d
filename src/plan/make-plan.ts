import { escapeControls, joinSome, shortenText } from '../model/printable.ts';
import { compareProblems, makeNote, makeWarning, type Place, type Problem } from '../model/problem.ts';
import { compareRules, formatRuleKey, isModifiedInPlace, type LiveRule, type Rule, sortByRule } from '../model/rule.ts';
import { findNextBoundary, type LiveState } from '../model/state.ts';
import { computeEffect, mostTraffic } from '../policy/effect.ts';
import { decideRules } from './decide.ts';
import { type ConfigurationDecision, decideConfiguration } from './decide-configuration.ts';
import { compareTimes, findChanges, judgePlan } from './diff-desired.ts';
import { warnOfUnbound } from './guard/guard-secrets.ts';
import type { PlanInput } from './input.ts';
import { findExposure } from './order/exposure.ts';
import { orderOperations } from './order/order.ts';
import { breakCircles } from './order/sharing.ts';
import { findLapsed, indexLapsed, listGiven } from './origin.ts';
import { type Change, formatStepId, listOperations, type Plan, type RuleChange } from './plan.ts';

/** The plan from live to desired: changes, ordered writes, traffic, refusals. A function of its input alone, in any order. */
export function makePlan(input: PlanInput): Plan {
  const lapsed = indexLapsed(input);
  const rules = breakCircles(decideRules(input, [], lapsed), input.profile);
  const configuration = decideConfiguration(input);
  const changes: readonly Change[] = configuration === null ? rules : [...rules, configuration.change];
  const operations = listOperations(rules, input.profile);
  const { kept, before, after } = listStates(rules);
  const order = orderOperations({ operations, kept, profile: input.profile });
  const steps = [...order.steps, ...configureSteps(configuration, order.steps.length, rules.length)];
  const over = listReopened(rules, lapsed);
  // As if they had ended. What the base asks for too, perhaps in their place, is not opened by this revision.
  const given = over.size === 0 ? null : listGiven(input);
  const asked = after.filter((rule) => given?.has(formatRuleKey(rule)));
  const due = given && [...before, ...asked].filter((rule) => !over.has(rule));
  const isIdle = operations.length === 0 && due === null;
  const effect = isIdle ? { opens: [], closes: [] } : computeEffect(before, after, [], mostTraffic, due);
  const exposure = findExposure({ order, before, after, profile: input.profile });
  const unbound = warnOfUnbound(input, configuration);
  const read = { ...input.live, configuration: configuration && input.live.configuration };
  const seen = [...warnOfRules(rules, input), ...noteUnknownFields(read)];
  const found = [...(configuration?.problems ?? []), ...unbound, ...seen];
  const guarded = { input, changes, configuration, effect, exposure };
  const plan = judgePlan(
    guarded,
    findLater(
      input,
      rules.filter(({ live }) => live === null || !over.has(live.rule)),
    ),
    { steps, problems: found.sort(compareProblems) },
  );
  const next = findNextBoundary(input.desired, input.desired.at ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(next) ? { ...plan, nextBoundary: next } : plan;
}

/** Live rules that have ended by the base where this revision asks for anything: what it asks for again, and access that goes. */
function listReopened(changes: readonly RuleChange[], lapsed: ReturnType<typeof indexLapsed>): ReadonlySet<Rule> {
  const asks = changes.some(({ origin, desired }) => origin === 'this-revision' && desired !== null);
  const isOver = ({ action, live }: RuleChange): boolean =>
    action !== 'skip' && (action === 'keep' || live?.rule.action === 'accept');
  const over = asks ? changes.filter(isOver) : [];
  return new Set(over.flatMap(({ live }) => (live !== null && findLapsed(lapsed, live) ? live.rule : [])));
}

/** What a revision changes later beside live rules that stay. Where the one before was applied, its times are looked at as they come. */
function findLater({ base, baseApplied = false, desired, scope }: PlanInput, changes: readonly RuleChange[]) {
  const at = desired.at ?? base?.at;
  if (base === null || baseApplied || at === undefined || !scope.rules) return [];
  // A rule that is adopted was there without an end, and now ends with the one in the manifests.
  const isStaying = ({ action, reason }: RuleChange) => action === 'skip' || reason === 'adopted';
  const staying = changes.flatMap((change) => (isStaying(change) ? (change.live ?? []) : []));
  const stays = staying.map(({ id, rule }) => ({ name: `live ${id}`, rule, place: { file: '', line: 0, column: 0 } }));
  return compareTimes(findChanges(base, desired, stays), at).later;
}

/** The rules of the server that stay, and all of them before and after; one that stays is the same object in each. */
function listStates(changes: readonly RuleChange[]): Readonly<Record<'kept' | 'before' | 'after', readonly Rule[]>> {
  const kept: Rule[] = [];
  const [removed, added]: [Rule[], Rule[]] = [[], []];
  for (const { action, desired, live } of changes) {
    const stays = action === 'keep' || action === 'skip';
    if (live !== null) (stays ? kept : removed).push(live.rule);
    if (desired !== null && !stays) added.push(desired.rule);
  }
  return { kept, before: kept.concat(removed), after: kept.concat(added) };
}

/** The Configuration is written last. */
function configureSteps(configuration: ConfigurationDecision | null, position: number, change: number) {
  if (configuration === null || configuration.sent.length === 0) return [];
  const { sent: fields, change: decided } = configuration;
  const place = { id: formatStepId(position), change, after: [], gap: null };
  return [{ type: 'configure', ...place, desired: decided.desired, before: decided.live, fields } as const];
}

/**
 * Whether the server holds exactly what the plan leads to, so that another plan would have no steps: it keeps the very rules that were
 * kept, whose partners and reasons are the same, and beside them only those that were to be created. False where that takes matching.
 */
export function isCarriedOut({ changes }: Plan, { rules }: LiveState): boolean {
  const kept = new Set<LiveRule>();
  const created: Rule[] = [];
  for (const change of changes) {
    if (change.kind !== 'Rule' || change.action === 'update') return false;
    if (change.action === 'create' && change.desired !== null) created.push(change.desired.rule);
    else if (change.action !== 'delete' && change.live !== null) kept.add(change.live);
  }
  const made = rules.filter((rule) => !kept.has(rule));
  if (rules.length !== kept.size + created.length || made.length !== created.length) return false;
  if (made.some(isModifiedInPlace)) return false;
  const inOrder = (list: readonly Rule[]): readonly Rule[] => sortByRule(list, (rule) => rule, compareRules);
  const wanted = inOrder(created);
  return inOrder(made.map(({ rule }) => rule)).every((rule, at) => compareRules(rule, wanted[at] ?? rule) === 0);
}

/** Rules whose filter entry may differ from what the API shows, and drop rules that end by a time in the past; one problem each. */
function warnOfRules(changes: readonly RuleChange[], { profile, desired: { at = 0 } }: PlanInput): readonly Problem[] {
  const hint = 'Where that is not meant, leave `expires` out, or give it a later time.';
  return changes.flatMap(({ action, name, live, origin, expires = at + 1, source }) => {
    if (live === null) return [];
    if (profile.filter !== null && action === 'keep' && isModifiedInPlace(live))
      return [warnOfModified(live, name, source)];
    if (action !== 'delete' || live.rule.action !== 'drop' || origin !== 'this-revision' || expires > at) return [];
    const summary = `\`${name}\` is live, and ends at once: what it closed may be open.`;
    return [makeWarning('expiry-opens', summary, hint, source ?? undefined)];
  });
}

export function warnOfModified({ id, rule }: LiveRule, name: string | null = null, source: Place | null = null) {
  const called = name === null ? `${rule.action} ${rule.destination.text}` : `\`${name}\``;
  const summary = `The live rule ${id} (${called}) was modified in place: the packet filter may still hold its earlier form.`;
  const creating = 'and so can creating a rule that overlaps its earlier form';
  const hint = `Replace it with \`--replace-modified\`, at a quiet time: deleting it can make the server rebuild its filter, ${creating}.`;
  return makeWarning('modified-in-place', summary, hint, source ?? undefined);
}

/** Fields of the server that nothing here reads. A newer server may let them change what a rule does. */
export function noteUnknownFields({ rules, configuration }: LiveState): readonly Problem[] {
  const names = [...new Set(rules.flatMap(({ unknownFields = [] }) => unknownFields))].sort();
  const paths = (configuration?.unknownFields ?? []).map((path) => `configuration.${path}`);
  const all = [...names, ...paths].map((name) => escapeControls(shortenText(name, 60)));
  if (all.length === 0) return [];
  const [first] = rules.flatMap(({ id, unknownFields }) => (unknownFields === undefined ? [] : [id])).sort();
  const where = first === undefined ? '' : ` (first in rule ${first})`;
  const summary = `The server has fields that this version does not know: ${joinSome(all, 5)}${where}. Plans do not count them.`;
  const hint =
    'They may change what rules do: see the release notes of the server, and of newer versions of `reconcile`.';
  return [makeNote('unknown-live-fields', summary, hint)];
}
