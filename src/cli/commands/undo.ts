import { escapeControls } from '../../model/printable.ts';
import { makeNote } from '../../model/problem.ts';
import { renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { findServer } from '../approval.ts';
import { type Answer, type Invocation, makeFailure } from '../command.ts';
import { stateBefore } from '../go-back.ts';
import { loadLast } from '../history.ts';
import { runPass } from '../pass-run.ts';
import { keepKnownWords } from '../plan-settings.ts';
import { settleEarlier } from '../trial.ts';
import { lookAtLease } from '../watch/lease-settings.ts';
import { findHistory, findRecord } from './history.ts';

/** `reconcile undo [N]`: an apply of the state before apply N (or the last), restricted to what that apply changed. */
export async function run(given: Invocation): Promise<Answer> {
  const invocation = keepKnownWords(given, 'undo', given.settings.enforcement !== null);
  const { operands, settings, terminal } = invocation;
  const files = findHistory(invocation);
  const [operand] = operands;
  const record = operand === undefined ? await loadLast(files) : await findRecord(files, operand);
  if (record === null)
    throw makeFailure('state', `no apply is recorded in ${files.folder}`, 'check --base-url and --state-dir');
  const earlier = settings.dryRun ? null : await settleEarlier(invocation);
  if (earlier !== null) return earlier;
  const server = findServer(settings);
  if (record.server !== server) {
    const other = server === null ? 'there is no --base-url' : `this is ${server}`;
    const summary = `apply ${record.number} was made to ${escapeControls(String(record.server))}, and ${other}`;
    throw makeFailure('state', summary, 'check --base-url and --state-dir: what is undone must be the same server');
  }
  const written = `undo of apply ${record.number}`;
  const request = { written, path: terminal.cwd, planOnly: settings.dryRun, saved: null, back: { record } };
  const answer = await runPass(invocation, request);
  const report = answer.report?.() ?? makeProblemReport([]);
  // Where a guard or a person said no, or what took an apply back was undone, the manifests and the server agree.
  const isDone = settings.dryRun ? report.plan?.steps.length : report.apply?.wrote;
  if (!isDone || ['undo of ', stateBefore].some((of) => record.revision?.startsWith(of))) return answer;
  const summary = `The manifests still ask for what ${settings.dryRun ? 'this undoes' : 'was undone'}: ${await describeHolder(invocation)}.`;
  const hint = 'Revert the commit in Git too (git revert), or suspend the sidecar until you have.';
  const note = makeNote('undone-not-in-git', summary, hint);
  const noted = { ...report, problems: [...report.problems, note] };
  const notes = (color: boolean) => (answer.notes?.(color) ?? '') + renderProblems([note], color);
  return { ...answer, report: () => noted, notes };
}

/** Who brings back what was undone. */
async function describeHolder(invocation: Invocation): Promise<string> {
  const holder = await lookAtLease(invocation).catch(() => null);
  if (holder === null) return 'the next apply of them, or a sidecar, brings it back';
  const name = escapeControls(holder.name);
  return holder.suspended
    ? `${name} holds the lease and is suspended; once it is not, it brings it back`
    : `${name} holds the lease and is not suspended, so it brings it back at its next pass`;
}
