import { createHash } from 'node:crypto';
import { systemClock } from '../../adapters/clock.ts';
import { defaultApplyLimits } from '../../apply/context.ts';
import { readLive } from '../../apply/read.ts';
import { escapeControls } from '../../model/printable.ts';
import type { Problem } from '../../model/problem.ts';
import { isInScope, type LiveState } from '../../model/state.ts';
import { type ApplyRecord, goBack } from '../../pass/history.ts';
import { renderProblems } from '../../report/problems.ts';
import { findServer } from '../approval.ts';
import type { Answer, Invocation } from '../command.ts';
import { Failure, makeFailure } from '../failure.ts';
import { isWorthShowing, listHistory, loadRecord } from '../history.ts';
import { createLogger } from '../logger.ts';
import { runPass } from '../pass-run.ts';
import { readPlanScope, readProfile } from '../plan-settings.ts';
import { explainReadFailure } from '../read-failure.ts';
import { wireApi } from '../wire.ts';
import { findHistoryFolder, parseNumber } from './history.ts';

/** `reconcile undo [N]`: an apply of the state before apply N (or the last), restricted to what that apply changed. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { operands, settings, terminal } = invocation;
  if (operands.length > 1) throw makeFailure('usage', 'undo takes the number of one apply', 'reconcile undo 3');
  const { number, record } = await findRecord(findHistoryFolder(invocation), operands[0]);
  const server = findServer(settings);
  if (record.server !== server) {
    const summary = `apply ${number} was made to ${escapeControls(String(record.server))}, and this is ${server}`;
    throw makeFailure('state', summary, 'check --base-url and --state-dir: what is undone must be the same server');
  }
  const back = goBack(record, await readInScope(invocation, record), readProfile(settings), systemClock.wallTime());
  const files = back.files.map(({ path, text }) => {
    const bytes = new TextEncoder().encode(text);
    return { path, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
  });
  const revision = `undo of apply ${number}`;
  const source = { description: revision, read: async () => ({ content: { revision, files }, problems: [] }) };
  const request = { written: revision, path: terminal.cwd, planOnly: settings.dryRun, saved: null };
  const answer = await runPass(invocation, {
    ...request,
    given: { source, prune: back.deletable },
  });
  return { ...answer, notes: (color) => (answer.notes?.(color) ?? '') + renderProblems(notesOf(back.stays), color) };
}

async function readInScope(invocation: Invocation, { fields }: ApplyRecord): Promise<LiveState> {
  const { settings, terminal } = invocation;
  const { api, token } = wireApi(invocation);
  try {
    const { attempts } = defaultApplyLimits;
    const context = {
      api,
      clock: systemClock,
      logger: await createLogger(invocation),
      attempts,
      signal: terminal.stop,
    };
    const scope = readPlanScope(settings);
    const wanted = { ...scope, configuration: scope.configuration && fields.length > 0 };
    const read = await readLive(context, wanted, null);
    if (!read.ok) throw new Failure([explainReadFailure(read.error, token.read, systemClock.wallTime())]);
    const { live } = read.value;
    return { ...live, rules: live.rules.filter(({ rule }) => isInScope(rule, scope)) };
  } finally {
    await api.close();
  }
}

async function findRecord(
  folder: string,
  operand: string | undefined,
): Promise<{ readonly number: number; readonly record: ApplyRecord }> {
  const numbers = operand === undefined ? await listHistory(folder) : [parseNumber(operand)];
  for (const number of numbers) {
    const loaded = await loadRecord(folder, number);
    if (loaded.ok && (operand !== undefined || isWorthShowing(loaded.value))) return { number, record: loaded.value };
    if (!loaded.ok && operand !== undefined) throw makeFailure('state', loaded.error, '`reconcile history` lists them');
  }
  throw makeFailure('state', `no apply is recorded in ${folder}`, '`reconcile history` lists them');
}

function notesOf(stays: readonly Problem[]): readonly Problem[] {
  return [
    ...stays,
    {
      code: 'undone-not-in-git',
      severity: 'note',
      summary: 'The manifests still ask for what was undone: the next apply of them, or a sidecar, brings it back.',
      hint: 'Revert the commit in Git too (git revert), or suspend the sidecar until you have.',
    },
  ];
}
