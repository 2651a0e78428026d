import type { PortBounds } from '../../model/port-range.ts';
import { explainRule } from '../../policy/explain-packet.ts';
import { indexRules, type RuleIndex } from '../../policy/rule-index.ts';
import {
  makePacketMembers,
  makeRuleMembers,
  type NamedRule,
  type PacketReport,
  renderPacketReport,
  renderRuleReport,
  reportPacket,
} from '../../report/explain.ts';
import { renderDocument } from '../../report/json.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { type PacketQuestion, type Question, readAddress, readQuestion } from '../explain-question.ts';
import { findNamedRule, findNamedUser, loadSubject, type Subject } from '../explain-subject.ts';
import { readProfile } from '../plan-settings.ts';

/** `reconcile explain PATH`: the verdict on a packet, or what a rule decides, of the manifests or with `--live` of the server. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const question = readQuestion(settings);
  const subject = await loadSubject(invocation);
  return { exit: exitCodes.ok, ...answerTo(question, subject, readProfile(settings).ports) };
}

function answerTo(question: Question, subject: Subject, bounds: PortBounds): Omit<Answer, 'exit'> {
  const index = indexRules(subject.rules);
  if (question.kind === 'rule') {
    const rule = findNamedRule(question.name, subject.rules);
    const traffic = explainRule(index, rule);
    return {
      text: () => renderRuleReport(rule, traffic, subject.userNames),
      document: () => renderDocument(makeRuleMembers(rule, traffic), subject.problems),
    };
  }
  const report = explainPacketFor(question, index, { subject, bounds });
  return {
    text: ({ color }) => renderPacketReport(report, subject.userNames, color),
    document: () => renderDocument(makePacketMembers(report), subject.problems),
  };
}

/** The report on the packet that is asked about; throws a `Failure` for a question that cannot be answered. */
export function explainPacketFor(
  question: PacketQuestion,
  index: RuleIndex<NamedRule>,
  { subject, bounds }: { readonly subject: Subject; readonly bounds: PortBounds },
): PacketReport {
  const user = question.user === null ? null : findNamedUser(question.user, subject);
  const source = { user, address: readAddress(question), protocol: question.protocol };
  return reportPacket({ ...source, port: question.port }, index, bounds);
}
