import type { Commit } from '../../model/commit.ts';
import type { DesiredRule, Rule } from '../../model/rule.ts';
import { computeOwnEffect } from '../../policy/effect.ts';
import type { Moment } from '../../policy/timeline.ts';
import { makeLogMembers, makeLogTable, renderLog, type TrafficChange } from '../../report/commits.ts';
import { renderDocument } from '../../report/json.ts';
import { renderProblems } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { nameAll } from '../../report/traffic/people.ts';
import type { Answer, Invocation } from '../command.ts';
import { followCommits, type NamedVersion } from '../commits.ts';
import { exitCodes } from '../exit-code.ts';
import { readDirectoryOperand } from '../path-operand.ts';

/** `reconcile log PATH --since TIME`: what each commit opened and closed, newest first, and the times at which rules began or ended. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { path } = readDirectoryOperand(invocation, 'log');
  const changes: TrafficChange[] = [];
  const { skipped } = await followCommits(invocation, path, (moment) => {
    const change = trafficChangeOf(moment);
    if (change !== null) changes.unshift(change);
  });
  return {
    exit: exitCodes.ok,
    text: () => renderLog(changes),
    table: () => makeLogTable(changes),
    report: () => ({ ...makeProblemReport(skipped), headline: 'What each commit opened and closed' }),
    document: () => renderDocument(makeLogMembers(changes), skipped),
    notes: (color) => renderProblems(skipped, color),
  };
}

function trafficChangeOf(moment: Moment<NamedVersion>): TrafficChange | null {
  const { cause, time, before, after, version } = moment;
  const rulesOf = (rules: readonly DesiredRule[]): readonly Rule[] => rules.map(({ rule }) => rule);
  const effect = computeOwnEffect(before.map(rulesOf), rulesOf(after));
  if (effect.opens.length === 0 && effect.closes.length === 0) return null;
  const withRules = new Set([...before.flat(), ...after].flatMap(({ rule }) => rule.userId ?? []));
  const people = { names: nameAll(withRules, version.userNames), groups: version.groups, withRules };
  return { cause, time, commits: commitsOf(moment), effect, people };
}

/** The commit; of a time, those that set it for a rule. */
function commitsOf({ cause, time, version, commitOf }: Moment<NamedVersion>): readonly Commit[] {
  if (cause === 'commit') return [version.commit];
  const changed = version.rules.filter(({ notBefore, expires }) => notBefore === time || expires === time);
  return [...new Set(changed.map(commitOf))];
}
