import { systemClock } from '../adapters/clock.ts';
import { boundOpenUntil, judgeSettled, type Outcome } from '../apply/outcome.ts';
import { findUnfinished, isRefusedForGood } from '../controller/pass-ending.ts';
import { formatInstant } from '../model/instant.ts';
import { joinSome } from '../model/printable.ts';
import { makeError, makeNote, type Problem } from '../model/problem.ts';
import { formatRuleKey } from '../model/rule.ts';
import type { ApplyRecord } from '../pass/history.ts';
import { type Change, getChangedRule } from '../plan/plan.ts';
import { renderProblems } from '../report/problems.ts';
import { makeProblemReport, type RunReport } from '../report/run-report.ts';
import { answerError } from './answer.ts';
import { completeHint } from './arguments.ts';
import { type Answer, exitCodes, Failure, type Invocation, type Settings } from './command.ts';
import { runPass } from './pass-run.ts';
import { openPending, type PendingApply } from './pending.ts';
import { answerMore } from './progress.ts';

const againMs = 5000;

/** What such an apply is called, in its plan and in the history. */
export const stateBefore = 'the state before the apply';

/** `isLast`: what cannot be taken back now is given up. `isUnseen`: the last look could not read the server. */
type GoingBack = PendingApply & { readonly isLast?: boolean; readonly isUnseen?: boolean };

/** Takes an apply back whatever guards, windows, `--suspend` and signals say, and forgets it; what waits for a secret is kept. */
export async function takeBack(invocation: Invocation, pending: GoingBack, why: string): Promise<Answer> {
  const forced = forceBack(invocation);
  const { terminal, settings } = forced;
  terminal.stderr(`\n${why}: going back to the state before.\n\n`);
  const until = systemClock.now() + settings.totalTimeout;
  let { journal } = settings;
  const now = systemClock.wallTime();
  const openUntil = systemClock.now() + boundOpenUntil(pending.openUntil, now, settings.timeout) - now;
  const back = { record: pending.record, known: pending.known, goesBack: true, restored: new Set<string>() } as const;
  const request = { written: stateBefore, path: terminal.cwd, planOnly: false, saved: null, back };
  let seen: Answer | null = null;
  for (let tries = 0; ; ) {
    const openMs = openUntil - systemClock.now();
    const answer = await runPass({ ...forced, settings: { ...settings, journal } }, request).catch((error: unknown) => {
      if (error instanceof Failure) return answerError(error);
      throw error;
    });
    const report = reportOf(answer);
    const { plan, problems } = report;
    if (problems.some(({ code }) => code === 'journal')) {
      terminal.stderr('The journal cannot be opened: going back goes on without it.\n');
      journal = null;
      continue;
    }
    for (const key of listCreated(report)) back.restored.add(key);
    const isOver = systemClock.now() >= until || !mayPass(report, answer.exit);
    if (isOver && openMs <= 0)
      return await settleBack(pickTold(answer, seen ?? answer), { ...pending, isUnseen: plan === null }, invocation);
    if (isOver) {
      const open = 'A request of the apply had no answer, and may be carried out yet';
      terminal.stderr(`${open}: one more look at ${formatFrom(openMs)}.\n`);
    } else if (tries++ === 0) {
      const [why = ''] = listPassing(report).map(({ message }) => message && `Not gone back yet: ${message}\n`);
      const last = `Going back is tried again and again, until ${formatFrom(until - systemClock.now())}.\n`;
      terminal.stderr(renderProblems(problems, false) + why + last);
    }
    if (plan !== null) seen = answer;
    const silence = answerMore(terminal, () => 'the next try to read the server is waited for');
    await systemClock.sleep(isOver ? Math.ceil(openMs) : Math.min(againMs, until - systemClock.now()));
    silence();
  }
}

const formatFrom = (ms: number): string => formatInstant(Math.ceil((systemClock.wallTime() + ms) / 1000) * 1000);
const reportOf = (answer: Answer): RunReport => answer.report?.() ?? makeProblemReport([]);

const listCreated = ({ apply }: RunReport): readonly string[] =>
  (apply?.outcomes ?? []).flatMap(({ step, outcome }) =>
    step.type === 'create' && outcome === 'done' ? [formatRuleKey(step.rule)] : [],
  );

/** What a way back leaves as it is, and names. */
export const notTakenBack: ReadonlySet<string> = new Set(['changed-since', 'waits-for-secret', 'locks-out']);

/** A look that could not read the server says less than the one before, and one that finds all back only what it leaves. */
function pickTold(last: Answer, seen: Answer): Answer {
  const [now, then] = [reportOf(last), reportOf(seen)];
  if (now.plan !== null && !(now.plan.steps.length === 0 && isBack(then))) return last;
  const told = new Set(then.problems.map(({ summary }) => summary));
  const own = now.problems.filter(({ code, summary }) => notTakenBack.has(code) && !told.has(summary));
  const named = own.filter((one) => !isLeft(one));
  const notes = (color: boolean) => (seen.notes?.(color) ?? '') + renderProblems(named, color);
  return { ...seen, notes, report: () => ({ ...then, problems: [...then.problems, ...own] }) };
}

function isBack({ plan, apply }: RunReport): boolean {
  return plan?.steps.length === 0 || apply?.end === 'converged';
}

/** Whether the next try may come further. `aborted`: another replica may write, and goes on from here. */
function mayPass(report: RunReport, exit: Answer['exit']): boolean {
  if (isBack(report) || exit === exitCodes.invalid || report.problems.some(({ code }) => code === 'bad-setting'))
    return false;
  return report.plan === null || listPassing(report).some(({ noAnswer }) => noAnswer !== 'aborted');
}

/** What had no answer, what the server could not do just now or with a token that it does not know; all, where nobody knows the result. */
function listPassing({ apply }: RunReport): readonly Outcome[] {
  if (apply?.end === 'failed' || apply?.end === 'stopped') return apply.outcomes;
  return findUnfinished(apply?.outcomes ?? []).filter((one) => judgeSettled(one).again === 'soon');
}

/** Settings that let a state of before come back: only scope and ownership hold. */
export function liftDemands(settings: Settings): Settings {
  if (settings.file === null) return { ...settings, strict: false };
  const { maxExpiry: _, ...nested } = settings.file.nested;
  return { ...settings, strict: false, file: { ...settings.file, nested: { ...nested, windows: [], require: [] } } };
}

function forceBack({ settings, terminal, ...invocation }: Invocation): Invocation {
  const own = { yes: true, dryRun: false, suspend: false, detailedExitcode: false, approve: [] };
  return {
    ...invocation,
    settings: { ...liftDemands(settings), ...own, failOn: [], overrideWindow: null },
    terminal: { ...terminal, stop: new AbortController().signal, unstoppable: true },
  };
}

/** How it was taken back, in part where fields want a secret. */
async function settleBack(answer: Answer, pending: GoingBack, invocation: Invocation): Promise<Answer> {
  const report = reportOf(answer);
  const { problems: noted } = report;
  const over = pending.isUnseen ? null : explainOver(report, pending);
  const left = noted.filter(isLeft).map((one) => ({ ...one, severity: 'error' as const }));
  const isEnded = isBack(report) && !pending.isUnseen;
  const waits = left.some(({ code }) => code === 'waits-for-secret');
  const files = openPending(invocation);
  if (isEnded || over !== null) await files.endGoingBack(waits ? pending : null).catch(() => undefined);
  const isDone = answer.exit === exitCodes.ok && !pending.isUnseen;
  const back = isBack(report) && describeBack(isDone, noted, pending.isUnseen);
  const end = back || describeOpen(report, pending.record, over);
  const problems = [...left, end].map((one) => completeHint(one, invocation.settings));
  const all = [...noted.filter((one) => !isLeft(one)), ...problems];
  return {
    ...answer,
    exit: isDone && left.length === 0 ? exitCodes.refused : exitCodes.partial,
    result: end.summary,
    notes: (color: boolean) => (answer.notes?.(color) ?? '') + renderProblems(problems, color),
    report: () => ({ ...report, headline: end.summary, problems: all }),
  };
}

/** Why nothing more is tried though not all is as before; null: the next run tries again. */
function explainOver(report: RunReport, { isLast = false }: GoingBack): string | null {
  const { plan, apply } = report;
  // What the server refuses for good would keep every later apply from beginning.
  if (apply?.end === 'not-converged' && isRefusedForGood(apply.outcomes)) return 'The server refused that for good';
  const isHopeless = plan !== null && listPassing(report).every(({ noAnswer }) => noAnswer === 'provider');
  return isLast && isHopeless ? 'That is given up' : null;
}

/** A field that stays as the apply wrote it. */
function isLeft({ code }: Problem): boolean {
  return code === 'waits-for-secret' || code === 'locks-out';
}

/** `isSeen`: nothing says that the kernel may not hold it. */
function describeBack(isSeen: boolean, noted: readonly Problem[], isUnseen = false): Problem {
  if (!isSeen) {
    const what = isUnseen
      ? 'had what was before; whether the request without an answer was carried out since'
      : 'has what was before; that it is in force there';
    const hint = isUnseen ? `${nextTries}.` : '`reconcile doctor --enforcement nft` looks again.';
    return makeError('not-gone-back', `The server ${what} could not be seen.`, hint);
  }
  const what = noted.some((one) => one.code === 'changed-since' || isLeft(one)) ? 'all else that' : 'what';
  const hint = 'The manifests still ask for it. Change them, or apply them again.';
  return makeNote('went-back', `Went back: ${what} the apply changed is as it was before.`, hint);
}

const nextTries = 'The next `reconcile apply` or `reconcile undo` with this state folder tries again';

/** How far going back came, in the words of the API; without an apply it wrote nothing. */
function describeOpen({ plan, apply }: RunReport, record: ApplyRecord, over: string | null): Problem {
  // One that the server refused for good has the fields of its other request, which it took; behind a 403 nobody knows.
  const refused = (apply?.outcomes ?? []).filter(({ outcome, status }) => outcome === 'failed' && status === 422);
  const taken: readonly string[] = refused.flatMap(({ fields = [] }) => fields);
  const listFields = (fields: object) => Object.keys(fields).filter((field) => !taken.includes(field));
  const wordsOf = (change: Change): string =>
    change.kind === 'Rule' ? formatRuleKey(getChangedRule(change)) : listFields(change.fields).join(', ');
  const words = new Map(plan?.changes.map((change) => [change.name, wordsOf(change)]));
  const all = [...[...record.created, ...record.deleted].map(({ rule }) => formatRuleKey(rule)), ...record.fields];
  const open = apply?.notConverged.map((name) => words.get(name) || name) ?? all;
  const left = `Not all that the apply changed was taken back. Not as before: ${joinSome(open, 12)}.`;
  const unseen = 'Nobody knows whether all that the apply changed was taken back: the result could not be verified.';
  const hint = over
    ? `${over}. \`reconcile undo N\` tries again, N being ${record.at.slice(0, 19)}Z in \`reconcile history\`.`
    : `${nextTries}; \`reconcile confirm\` does too, and gives up what it cannot take back.`;
  return makeError('not-gone-back', open.length === 0 ? unseen : left, hint);
}
