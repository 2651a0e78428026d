import { decideAmong, findVerdictChange, selectRulesAt, type VerdictChange } from '../../policy/timeline.ts';
import type { Packet } from '../../policy/verdict.ts';
import { describePacket } from '../../policy/words.ts';
import { type Blame, makeBlameMembers, makeBlameTable, renderBlame } from '../../report/commits.ts';
import { renderDocument } from '../../report/json.ts';
import { renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import type { Answer, Invocation } from '../command.ts';
import { followCommits } from '../commits.ts';
import { exitCodes } from '../exit-code.ts';
import { readAddress, readQuestion } from '../explain-question.ts';
import { findNamedUser, loadSubject } from '../explain-subject.ts';
import { makeFailure } from '../failure.ts';
import { readDirectoryOperand } from '../path-operand.ts';

/** `reconcile blame PATH --destination A --protocol P --port N`: the commits in which this packet's verdict changed, newest first. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { path } = readDirectoryOperand(invocation, 'blame');
  const packet = await packetOf(invocation);
  const changes: VerdictChange[] = [];
  const { last, now, skipped } = await followCommits(invocation, path, (moment) => {
    const change = findVerdictChange(moment, packet);
    if (change !== null) changes.unshift(change);
  });
  const names = last?.userNames ?? new Map<string, string>();
  const verdict = last === null ? null : decideAmong(selectRulesAt(last, now), packet).verdict;
  const blame: Blame = { packet, names, verdict, changes };
  return {
    exit: exitCodes.ok,
    text: () => renderBlame(blame),
    table: () => makeBlameTable(blame),
    report: () => ({
      ...makeProblemReport(skipped),
      headline: `Commits that changed: ${describePacket(packet, names)}`,
    }),
    document: () => renderDocument(makeBlameMembers(blame), skipped),
    notes: (color) => renderProblems(skipped, color),
  };
}

async function packetOf(invocation: Invocation): Promise<Packet> {
  const question = readQuestion(invocation.settings);
  if (question.kind === 'rule') throw makeFailure('usage', 'blame follows a packet', 'leave --rule out');
  const { protocol, port, user } = question;
  if (port === null && protocol !== 'other')
    throw makeFailure('usage', '--port is missing', 'blame follows one packet: name its port');
  const address = readAddress(question);
  const id = user === null ? null : findNamedUser(user, await loadSubject(invocation));
  return { user: id, address, protocol, port: port ?? 0 };
}
