import { systemClock } from '../adapters/clock.ts';
import { type ReadContext, type ReadFailure, readLive } from '../apply/read.ts';
import type { DesiredContext } from '../desired/context.ts';
import { joinSome } from '../model/printable.ts';
import { makeError, makeNote, type Problem } from '../model/problem.ts';
import { ok, type Result } from '../model/result.ts';
import { formatRuleKey } from '../model/rule.ts';
import { isInScope } from '../model/state.ts';
import { type BackTerms, type GoingBack, goBack } from '../pass/go-back.ts';
import type { ApplyRecord } from '../pass/history.ts';
import { renderProblems } from '../report/problems.ts';
import { formatStep } from '../report/text.ts';
import { type Answer, exitCodes, Failure, type Invocation, type Settings } from './command.ts';
import { makeDesiredContext } from './manifests.ts';
import { type PassRequest, runPass } from './pass-run.ts';
import { askServer } from './wire.ts';

/** Reads what is live, and makes of it and a record the pass that takes that apply back. `revision`: what it is called. */
export async function findWayBack(invocation: Invocation, record: ApplyRecord, revision: string, terms?: BackTerms) {
  const { settings, terminal } = invocation;
  const desired = makeDesiredContext(invocation, terminal.cwd);
  const back = await askServer(invocation, async (context, must) =>
    must(await findStateBefore(desired, context, record, terms)),
  );
  const source = { description: revision, read: async () => ({ content: { revision, files: [] }, problems: [] }) };
  const given = { source, ...back };
  const request = { written: revision, path: terminal.cwd, planOnly: settings.dryRun, saved: null, given };
  return { back, request } satisfies { back: GoingBack; request: PassRequest };
}

/** Reads what is live, and makes of it and a record the state before that apply. */
export async function findStateBefore(
  desired: DesiredContext,
  context: ReadContext,
  record: ApplyRecord,
  terms?: BackTerms,
): Promise<Result<GoingBack, ReadFailure>> {
  const { scope } = desired;
  const wanted = { ...scope, configuration: scope.configuration && record.fields.length > 0 };
  const read = await readLive(context, wanted, null);
  if (!read.ok) return read;
  const { live } = read.value;
  const inScope = { ...live, rules: live.rules.filter(({ rule }) => isInScope(rule, scope)) };
  return ok(goBack(record, inScope, desired, terms));
}

/** How an apply was taken back, and the fields that could not be, for want of a secret. */
export interface TakenBack {
  readonly answer: Answer;
  readonly isDone: boolean;
  readonly waiting: GoingBack['waiting'];
}

const againMs = 5000;

/** Takes an apply back whatever guards, windows, `--suspend` and signals say. A server that cannot be read is tried until the deadline. */
export async function takeBack(invocation: Invocation, record: ApplyRecord, terms: BackTerms): Promise<TakenBack> {
  const forced = forceBack(invocation);
  const until = systemClock.now() + invocation.settings.totalTimeout;
  let said = false;
  for (;;) {
    try {
      const { back, request } = await findWayBack(forced, record, 'the state before the apply', terms);
      const answer = await runPass(forced, { ...request, given: { ...request.given, goesBack: true } });
      if (answer.report?.().plan !== null || systemClock.now() >= until) return settleBack(answer, record, back);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const isOver = systemClock.now() + againMs >= until || error.problems.some(({ code }) => hopeless.has(code));
      if (isOver) return settleBack({ exit: 1, notes: (color) => renderProblems(error.problems, color) }, record, null);
    }
    if (!said) invocation.terminal.stderr('The server cannot be read now: going back is tried again and again.\n');
    said = true;
    await systemClock.sleep(againMs);
  }
}

const hopeless: ReadonlySet<string> = new Set([
  'unauthorized',
  'token',
  'api-forbidden',
  'api-not-found',
  'bad-setting',
]);

/** Settings that let a state of before come back: only scope and ownership hold. */
export function liftDemands(settings: Settings): Settings {
  if (settings.file === null) return { ...settings, strict: false };
  const { maxExpiry: _, ...nested } = settings.file.nested;
  return { ...settings, strict: false, file: { ...settings.file, nested: { ...nested, windows: [], require: [] } } };
}

function forceBack({ settings, terminal, ...invocation }: Invocation): Invocation {
  const own = { yes: true, dryRun: false, suspend: false, detailedExitcode: false, approve: [], base: null };
  const never = new AbortController().signal;
  return {
    ...invocation,
    settings: { ...liftDemands(settings), ...own, overrideWindow: null },
    terminal: { ...terminal, stop: never, unstoppable: true },
  };
}

function settleBack(answer: Answer, record: ApplyRecord, back: GoingBack | null): TakenBack {
  const waiting = back?.waiting ?? [];
  const isDone = answer.exit === exitCodes.ok;
  const end = conclude(answer, record, isDone);
  const problems = [...(back?.stays ?? []), ...waiting.map(describeWaiting), end];
  return {
    isDone,
    waiting,
    answer: {
      ...answer,
      exit: isDone && waiting.length === 0 ? exitCodes.refused : exitCodes.partial,
      result: end.summary,
      notes: (color) => (answer.notes?.(color) ?? '') + renderProblems(problems, color),
      ...withProblems(answer.report, problems),
    },
  };
}

function withProblems(report: Answer['report'], problems: readonly Problem[]): Pick<Answer, 'report'> {
  if (report === undefined) return {};
  return { report: () => ({ ...report(), problems: [...report().problems, ...problems] }) };
}

function describeWaiting(field: string): Problem {
  const summary = `\`${field}\` stays as the apply wrote it: the process that knew its secret before is gone.`;
  const hint =
    '`reconcile undo N` puts it back and asks for the secret (`reconcile history` has the number); `reconcile confirm` keeps it.';
  return makeError('waits-for-secret', summary, hint);
}

function conclude({ report }: Answer, record: ApplyRecord, isDone: boolean): Problem {
  const asked = 'The manifests still ask for it. Change them, or apply them again.';
  if (isDone) return makeNote('went-back', 'Went back: what the apply changed is as it was before.', asked);
  const failed = report?.().apply?.outcomes.filter(({ outcome }) => outcome !== 'done' && outcome !== 'skipped');
  const open = failed?.map(({ step }) => formatStep(step)) ?? [
    ...record.created.map(({ rule }) => `${formatRuleKey(rule)} (created)`),
    ...record.deleted.map(({ rule }) => `${formatRuleKey(rule)} (deleted)`),
    ...record.fields,
  ];
  const summary =
    open.length === 0
      ? 'The server has what was before; that it is in force there could not be seen.'
      : `Not all that the apply changed was taken back. Left as the apply made it: ${joinSome(open, 12)}.`;
  const hint =
    'The next `reconcile apply` or `reconcile confirm` with this state folder tries again; `reconcile undo` does too.';
  return makeError('not-gone-back', summary, hint);
}
