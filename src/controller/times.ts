import { makeError } from '../model/problem.ts';
import { formatRuleKey } from '../model/rule.ts';
import { type Boundary, type DesiredState, findNextBoundary, listBoundaries } from '../model/state.ts';
import type { PassResult, TimesPart } from '../pass/pass.ts';
import type { SourceContent } from '../ports.ts';
import { shortenRevision } from './conditions.ts';
import type { PassOrder } from './gate.ts';
import type { Leadership } from './leadership.ts';
import type { LoopParts } from './loop-parts.ts';
import { isBlind, isInForce, type PassEnding, type PassRun, pickWorst, waits } from './pass-ending.ts';
import { logTimes } from './pass-log.ts';
import { isDriftOf } from './pass-runner.ts';

/**
 * One pass over a content, and the times of the revision in force as a plan of their own where they would wait with it:
 *
 * | the pass                                                  | beside it                                                |
 * |-----------------------------------------------------------|----------------------------------------------------------|
 * | drift is only reported, and the applied revision's again  | what began or ended, before it                           |
 * | refused, waiting or stalled, over the revision in force   | what began or ended, after it                            |
 * | refused or stalled, over a newer revision                 | the same, but for access that the newer one leaves out   |
 * | waiting for a window, over a newer revision               | what ended by the revision in force, after it            |
 *
 * Of a directory, the content of the revision in force is gone after a start.
 */
export async function runWithTimes(lead: Leadership, content: SourceContent, parts: LoopParts) {
  const { build, settings, clock, logger } = parts;
  const { base, runner, record } = lead;
  let inForce = base;
  const isReported = settings().onDrift === 'report' && isDriftOf(lead.order(content), null);
  const runKnown = async (of: SourceContent, part: TimesPart, held = 0, newer: Partial<PassOrder> = {}) => {
    // What the server took in part, or what was applied under other settings, is in no base.
    if (base === null || of.revision !== record.appliedRevision) inForce = await build(of, lead.record.agreedAt);
    const past = inForce === base ? [] : (inForce?.expired ?? []);
    // What cannot be built is looked at each time.
    const turned = !inForce || past.length + listBoundaries(inForce, inForce.at ?? 0, clock.wallTime()).length > 0;
    if (!turned && held === 0) return null;
    const run = await runner.runTimes({ ...lead.order(of), ...newer }, part);
    if (part === 'boundaries' && run.verdict.kind === 'good') await lead.turned(of, run);
    return run;
  };
  const before = isReported ? await runKnown(content, 'boundaries') : null;
  // What cannot be done for times alone is not done together with what drifted.
  const isStuck = before !== null && before.verdict.kind !== 'good';
  const run = isStuck ? before : await runner.run(lead.order(content));
  const { lastGood } = lead.history;
  const isInvalid = run.verdict.reason === 'ManifestsInvalid';
  const isSame = lastGood?.revision === content.revision;
  // After an invalid newer revision a pass over the one in force follows.
  const isLeft = waits(run) && before === null && (isSame || !isInvalid || lastGood === null);
  // What has ended long ago may be live again.
  const held = findEnds(run.result).length;
  const runBeside = () => {
    const awaitsWindow = [run, run.apart?.rules].some((one) => one?.verdict.reason === 'OutsideWindow');
    const part = isBlind(run) || (awaitsWindow && !isSame) ? 'ends' : 'boundaries';
    const asked = run.result?.desired?.state;
    if (lastGood !== null) return runKnown(lastGood, part, held, { waiting: awaitsWindow ? 'wider' : 'all', asked });
    // Before any revision is in force, one that only waits for a window says what has ended.
    const isFirst = record.inForceRevision === null && awaitsWindow;
    return isFirst ? runner.runTimes(lead.order(content), 'ends') : runRecorded(lead, content.files);
  };
  const beside = isLeft ? await runBeside() : null;
  const outcomes = [isStuck ? null : before, run, beside].flatMap((one) => one?.outcomes ?? []);
  const all = { ...run, beside, outcomes };
  const turned = listTurned(inForce, run, clock.wallTime());
  // A pass over times alone has logged what it wrote.
  logTimes(logger, isStuck ? [] : turned.map(({ rule, what }) => ({ object: rule.name, what })));
  return { ...all, turned: listTurned(inForce, all, clock.wallTime()) };
}

/**
 * Ends what accepted by the revision in force, whose content is gone: by the history, without one by these files. What dropped stays:
 * nobody knows what was to drop instead.
 */
export async function runRecorded(lead: Leadership, files: SourceContent['files']): Promise<PassRun | null> {
  const { inForceRevision: revision } = lead.record;
  if (revision === null) return null;
  const run = (of: SourceContent['files']): Promise<PassRun> =>
    lead.runner.runTimes(lead.order({ revision, files: of }), 'revocations');
  const first = await run([]);
  return first.result?.desired?.state || first.verdict.kind === 'transient' ? first : await run(files);
}

/** What a run came to, and what ends by the history as long as it does not get through. */
async function runWithRecorded(lead: Leadership, run: PassRun): Promise<PassRun> {
  const beside = isInForce(run.verdict) ? null : await runRecorded(lead, []);
  return { ...run, beside, outcomes: [...run.outcomes, ...(beside?.outcomes ?? [])] };
}

/** Rules of the state before that began or ended since, and were created or deleted for it. */
function listTurned(before: DesiredState | null, { outcomes, result }: PassRun, now: number): readonly Boundary[] {
  if (before?.at === undefined) return [];
  const done = outcomes.filter(({ outcome }) => outcome === 'done').map(({ step }) => step);
  const gone = new Set(done.flatMap((step) => ('live' in step ? [formatRuleKey(step.live.rule)] : [])));
  const made = new Set(done.flatMap((step) => ('rule' in step ? [formatRuleKey(step.rule)] : [])));
  return listBoundaries(before, before.at, Math.max(now, result?.desired?.state?.at ?? 0)).filter(({ rule, what }) =>
    (what === 'ends' ? gone : made).has(formatRuleKey(rule.rule)),
  );
}

/** What is live and has ended: what a plan deletes for that, and what it has to leave. */
function findEnds(result: PassResult | null = null) {
  return (result?.plan?.changes ?? []).filter(({ action, origin }) => action !== 'keep' && origin === 'expired');
}

/** What is in force, and what waits, by a pass or else by the one beside it. */
function findWaiting({ result, beside, verdict }: PassEnding, base: DesiredState | null) {
  return {
    opensAt: verdict.opensAt ?? beside?.verdict.opensAt ?? null,
    held: findEnds(result?.plan ? result : beside?.result),
    // In no base is what the server took in part.
    inForce: beside?.result?.desired?.state ?? base ?? { rules: [] },
  };
}

/**
 * What times say after a pass: to the status, of which rules people are told beforehand (`noticeMs`), and when to look again in any case
 * (ms since 1970): neither a window that opens nor a rule that begins or ends is left for the next look, nor is the time at which that is
 * told. `base`: what is in force.
 */
export function makeAgenda(end: PassEnding, base: DesiredState | null, now: number, noticeMs: number) {
  const never = Number.POSITIVE_INFINITY;
  const { result, outcomes = [], verdict } = end;
  const { opensAt, held, inForce } = findWaiting(end, base);
  const deleted = new Set(
    outcomes.flatMap(({ step, outcome }) => (step.type === 'delete' && outcome === 'done' ? [step.live.id] : [])),
  );
  // What the plan has next was sorted for a time that may have passed.
  const isDoubted = verdict.reason === 'ClockDiffers' || result?.problems.some(({ code }) => code === 'clock-differs');
  const next = Math.min(result?.plan?.nextBoundary ?? never, findNextBoundary(inForce, now));
  const nextBoundaryAt = isDoubted ? never : next;
  return {
    /** Nothing wakes us when clocks agree again, and until then nothing ends. */
    mostMs: isDoubted ? 60_000 : never,
    view: {
      windowOpensAt: opensAt,
      nextBoundaryAt: Number.isFinite(nextBoundaryAt) ? nextBoundaryAt : null,
      heldEnds: held.filter(({ id }) => id !== null && !deleted.has(id)).length,
    },
    soon: listBoundaries(inForce, now, now + noticeMs),
    wakeAt: Math.min(opensAt ?? never, nextBoundaryAt, findNextBoundary(inForce, now + noticeMs) - noticeMs),
  };
}

/** Takes back what nobody confirmed, whatever guards say: applies the confirmed revision if it can be had, then what the record adds. */
export async function runBack(lead: Leadership, revision: string): Promise<PassRun & Pick<PassEnding, 'content'>> {
  const { history, runner } = lead;
  const content = history.lastGood;
  const takeBack = (back: 'before' | 'rest', asked: DesiredState | null = null) =>
    runner.run({ ...lead.order({ revision, files: [] }), back, asked, begin: null });
  if (content === null) return { ...(await runWithRecorded(lead, await takeBack('before'))), content };
  const first = await runner.run({ ...lead.order(content), back: 'confirmed' });
  const { desired = null, problems = [] } = first.result ?? {};
  const rest = await takeBack('rest', desired?.state);
  if (rest.result?.failure?.code === 'no-record') {
    const summary = `What ${shortenRevision(content.revision)} leaves alone may be as that revision left it: nothing here recorded it.`;
    const left = makeError('not-gone-back', summary, 'Look at the server.');
    return { ...first, content, result: first.result && { ...first.result, problems: [...problems, left] } };
  }
  // As long as that does not get through, what is confirmed ends by itself.
  const ends = [first, rest].some(waits) ? [await runner.runTimes(lead.order(content), 'ends')] : [];
  const outcomes = [first, rest, ...ends].flatMap((one) => one.outcomes);
  // What the content asks for is not what the rest was made from.
  const result = rest.result && { ...rest.result, desired, problems: [...problems, ...rest.result.problems] };
  // The rest puts back the rules of users who are there, whatever else of that content is wrong now, but not fields that it manages.
  const isEnough = first.verdict.reason === 'ManifestsInvalid' && !lead.base?.configuration;
  const counting = isEnough ? [] : [first.verdict];
  return { ...rest, result, verdict: pickWorst([...counting, rest.verdict]), outcomes, content };
}
