import type { ApplyReport } from '../apply/outcome.ts';
import { formatInstant } from '../model/instant.ts';
import type { Problem } from '../model/problem.ts';
import { omitUndefined } from '../model/result.ts';
import { type Change, type Exposure, makeRequest, type Plan } from '../plan/plan.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';
import { makeNotesMembers } from './change-words.ts';
import { makeEnforcementDocument } from './enforcement.ts';
import { addFailedSteps, sortOutcomes } from './failed-steps.ts';
import type { RunReport } from './run-report.ts';
import { makeEffectDocument, makeTrafficDocument } from './traffic-json.ts';

/** Version of the JSON documents; the second number grows with additions, the first with anything else. */
export const formatVersion = '1.1';

/** The JSON document of a run (schemas/plan.schema.json): one line of text for machines, keys in a fixed order. */
export function renderJson(report: RunReport): string {
  return formatSafeJson(makeDocument(report));
}

/** JSON that is safe to look at: what JSON leaves as it is and a terminal or viewer would obey becomes an escape. */
export function formatSafeJson(value: unknown): string {
  const json = JSON.stringify(value, null, 2).replaceAll('##[', '##\\u005b');
  const text = json.replace(
    /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `${text}\n`;
}

/** The JSON document as a value. Every key is always there; without a plan `summary` is null and lists are empty. */
export function makeDocument(report: RunReport): Readonly<Record<string, unknown>> {
  const { plan, apply, snapshot } = report;
  const all = plan?.changes ?? [];
  // With the objects that stay; of two policies only what differs.
  const changes = report.comparison === undefined ? all : all.filter(({ action }) => action !== 'keep');
  return omitUndefined({
    format_version: formatVersion,
    server: report.server,
    revision: report.revision,
    digest: report.digest,
    profile: plan?.profile ?? null,
    rule_updates: plan?.ruleUpdates ?? null,
    base: report.base ?? undefined,
    snapshot: snapshot === null ? undefined : { taken_at: snapshot.takenAt, age_ms: snapshot.ageMs },
    summary: plan === null ? null : plan.summary,
    changes: changes.map(changeOf),
    steps: plan?.steps.map((one) => ({ id: one.id, ...makeRequest(one), change: one.change, after: one.after })) ?? [],
    problems: addFailedSteps(report).map(makeProblemDocument),
    refusals:
      plan?.refusals.map(({ code, summary, hint, ...more }) => ({ code, summary, hint, related: relatedOf(more) })) ??
      [],
    approved: report.approved,
    effect: effectOf(plan?.effect ?? { opens: [], closes: [] }),
    later: plan?.later?.map(({ from, effect }) => ({ from: formatInstant(from), ...effectOf(effect) })),
    ...listExposures(plan?.exposure ?? []),
    ...(apply === null ? {} : applyOf(apply, plan)),
    enforcement: report.kernel && makeEnforcementDocument(report.kernel),
  });
}

/** The JSON document of a command that makes no plan: `format_version`, its own members, `problems`. */
export function renderDocument(members: Readonly<Record<string, unknown>>, problems: readonly Problem[]): string {
  return formatSafeJson({ format_version: formatVersion, ...members, problems: problems.map(makeProblemDocument) });
}

function changeOf(change: Change): unknown {
  const { kind, name, id, action, via, reason, origin, fields, source } = change;
  const notes = kind === 'Rule' ? makeNotesMembers(change) : {};
  const place = source && { file: source.file, line: source.line };
  return { kind, name, id, action, via, reason, ...omitUndefined({ origin }), ...notes, fields, source: place };
}

/** A problem with its place flattened to `file`, `line`, `column` (null without a place). */
export function makeProblemDocument(problem: Problem): Readonly<Record<string, unknown>> {
  const { code, severity, summary, hint = null, place } = problem;
  const { file, line, column } = place ?? { file: null, line: null, column: null };
  return { code, severity, summary, hint, file, line, column, related: relatedOf(problem) };
}

function relatedOf({ related = [] }: Pick<Problem, 'related'>): unknown {
  return related.map(({ place, note }) => ({ ...place, note }));
}

/** Networks in traffic, from which on no more is listed: each of thousands of users may have a part in each change. */
const mostNetworks = 20_000;

/** The first items, and how many others there are. */
function takeFirst<T>(items: readonly T[], trafficOf: (item: T) => readonly Traffic[]) {
  let networks = 0;
  const end = items.findIndex((item) => {
    const isFull = networks >= mostNetworks;
    if (!isFull) networks += trafficOf(item).reduce((sum, { destinations }) => sum + destinations.length, 0);
    return isFull;
  });
  const first = end < 0 ? items : items.slice(0, end);
  return { first, left: items.length - first.length || undefined };
}

function effectOf({ opens, closes }: Effect) {
  const [opened, closed] = [takeFirst(opens, (one) => [one]), takeFirst(closes, (one) => [one])];
  const listed = makeEffectDocument({ opens: opened.first, closes: closed.first });
  return { ...listed, ...omitUndefined({ opens_left: opened.left, closes_left: closed.left }) };
}

function listExposures(exposure: readonly Exposure[]): Readonly<Record<string, unknown>> {
  const { first, left } = takeFirst(exposure, ({ traffic }) => traffic);
  const shown = first.map(({ direction, traffic, fromStep: from_step, toStep: to_step, expectedMs: expected_ms }) => {
    return { direction, traffic: traffic.map(makeTrafficDocument), from_step, to_step, expected_ms };
  });
  return { exposure: shown, exposure_left: left };
}

function applyOf(apply: ApplyReport, plan: Plan | null): Readonly<Record<string, unknown>> {
  return {
    end: apply.end,
    outcomes: sortOutcomes(apply, plan).map(({ step, outcome, status, message, restored }) =>
      omitUndefined({ step: step.id, outcome, status, message, restored }),
    ),
    left_open: apply.leftOpen.map(makeTrafficDocument),
    not_converged: apply.notConverged,
    duration_ms: Math.round(apply.durationMs),
    enforced_in_ms: apply.enforcedInMs,
  };
}
