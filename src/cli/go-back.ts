import { systemClock } from '../adapters/clock.ts';
import type { StateFiles } from '../adapters/state-files.ts';
import type { ApplyReport } from '../apply/outcome.ts';
import { findUnfinished } from '../controller/pass-ending.ts';
import { joinSome } from '../model/printable.ts';
import { makeError, makeNote, type Problem } from '../model/problem.ts';
import { formatRuleKey } from '../model/rule.ts';
import type { ApplyRecord } from '../pass/history.ts';
import type { Plan } from '../plan/plan.ts';
import { renderProblems } from '../report/problems.ts';
import { answerError } from './answer.ts';
import { type Answer, exitCodes, Failure, type Invocation, type Settings } from './command.ts';
import { runPass } from './pass-run.ts';
import { endGoingBack, type PendingApply } from './pending.ts';
import { answerMore } from './progress.ts';

const againMs = 5000;

/** Takes an apply back whatever guards, windows, `--suspend` and signals say, and forgets it; what waits for a secret is kept. */
export async function takeBack(
  invocation: Invocation,
  files: StateFiles,
  { record, known }: PendingApply,
  why: string,
): Promise<Answer> {
  const forced = forceBack(invocation);
  const { terminal, settings } = forced;
  terminal.stderr(`\n${why}: going back to the state before.\n\n`);
  const until = systemClock.now() + settings.totalTimeout;
  let { journal } = settings;
  const back = { record, known, goesBack: true } as const;
  const request = { written: 'the state before the apply', path: terminal.cwd, planOnly: false, saved: null, back };
  for (let tries = 0; ; tries++) {
    const answer = await runPass({ ...forced, settings: { ...settings, journal } }, request).catch((error: unknown) => {
      if (error instanceof Failure) return answerError(error);
      throw error;
    });
    const { plan = null, apply = null, problems = [] } = answer.report?.() ?? {};
    if (problems.some(({ code }) => code === 'journal')) {
      terminal.stderr('The journal cannot be opened: going back goes on without it.\n');
      journal = null;
      continue;
    }
    // A token is renewed, and a proxy gets well: only what this process was told stays as it is.
    const isOver = systemClock.now() >= until || problems.some(({ code }) => code === 'bad-setting');
    if ((plan !== null && !isOut(apply)) || isOver || answer.exit === exitCodes.invalid)
      return await settleBack(answer, record, files);
    if (tries === 0) terminal.stderr(`${renderProblems(problems, false)}Going back is tried again and again.\n`);
    const silence = answerMore(terminal, () => 'the next try to read the server is waited for');
    await systemClock.sleep(Math.min(againMs, until - systemClock.now()));
    silence();
  }
}

/** Whether the server could not do some of it just now, or did not know the token: that is tried again, as a read is. */
function isOut(apply: ApplyReport | null): boolean {
  return findUnfinished(apply?.outcomes ?? []).some(({ status }) => /^(?:401|429|5..)$/.test(String(status)));
}

/** Settings that let a state of before come back: only scope and ownership hold. */
export function liftDemands(settings: Settings): Settings {
  if (settings.file === null) return { ...settings, strict: false };
  const { maxExpiry: _, ...nested } = settings.file.nested;
  return { ...settings, strict: false, file: { ...settings.file, nested: { ...nested, windows: [], require: [] } } };
}

function forceBack({ settings, terminal, ...invocation }: Invocation): Invocation {
  const own = { yes: true, dryRun: false, suspend: false, detailedExitcode: false, approve: [] };
  const never = new AbortController().signal;
  return {
    ...invocation,
    settings: { ...liftDemands(settings), ...own, failOn: [], overrideWindow: null },
    terminal: { ...terminal, stop: never, unstoppable: true },
  };
}

/** How it was taken back, in part where fields want a secret. */
async function settleBack(answer: Answer, record: ApplyRecord, files: StateFiles): Promise<Answer> {
  const { report } = answer;
  const { plan = null, apply = null, problems: noted = [] } = report?.() ?? {};
  const { isBack, isOver } = judgeBack(plan, apply);
  const isWaiting = ({ code }: Problem): boolean => code === 'waits-for-secret';
  const waiting = noted.filter(isWaiting).map((one) => ({ ...one, severity: 'error' as const }));
  if (isOver) await endGoingBack(files, waiting.length > 0).catch(() => undefined);
  const isDone = answer.exit === exitCodes.ok;
  const end = isBack ? describeBack(isDone, noted) : describeOpen(apply, record, isOver);
  const problems = [...waiting, end];
  return {
    ...answer,
    exit: isDone && waiting.length === 0 ? exitCodes.refused : exitCodes.partial,
    result: end.summary,
    notes: (color: boolean) => (answer.notes?.(color) ?? '') + renderProblems(problems, color),
    ...(report && {
      report: () => ({ ...report(), problems: [...noted.filter((one) => !isWaiting(one)), ...problems] }),
    }),
  };
}

/** Whether the server has what was before; and whether nothing can be done about the rest. */
function judgeBack(plan: Plan | null, apply: ApplyReport | null) {
  const isBack = plan?.steps.length === 0 || apply?.end === 'converged';
  const unfinished = findUnfinished(apply?.outcomes ?? []);
  // What the server refuses for good would keep every later apply from beginning.
  return { isBack, isOver: isBack || (unfinished.length > 0 && unfinished.every(({ status }) => status === 422)) };
}

/** `isSeen`: nothing says that the kernel may not hold it. */
function describeBack(isSeen: boolean, noted: readonly Problem[]): Problem {
  if (!isSeen) {
    const summary = 'The server has what was before; that it is in force there could not be seen.';
    return makeError('not-gone-back', summary, '`reconcile doctor --enforcement nft` looks again.');
  }
  const isInPart = noted.some(({ code }) => code === 'changed-since' || code === 'waits-for-secret');
  const what = isInPart ? 'all else that' : 'what';
  const hint = 'The manifests still ask for it. Change them, or apply them again.';
  return makeNote('went-back', `Went back: ${what} the apply changed is as it was before.`, hint);
}

/** `apply`: how far going back came; null: it wrote nothing. */
function describeOpen(apply: ApplyReport | null, record: ApplyRecord, isOver: boolean): Problem {
  const open = apply?.notConverged ?? [
    ...record.created.map(({ rule }) => `${formatRuleKey(rule)} (created)`),
    ...record.deleted.map(({ rule }) => `${formatRuleKey(rule)} (deleted)`),
    ...record.fields,
  ];
  const left = `Not all that the apply changed was taken back. Left as the apply made it: ${joinSome(open, 12)}.`;
  const unseen = 'Nobody knows whether all that the apply changed was taken back: the result could not be verified.';
  const summary = open.length === 0 ? unseen : left;
  const hint = isOver
    ? 'The server refused that for good. `reconcile undo N` tries it again (`reconcile history` has the number).'
    : 'The next `reconcile apply` or `reconcile confirm` with this state folder tries again; `reconcile undo` does too.';
  return makeError('not-gone-back', summary, hint);
}
