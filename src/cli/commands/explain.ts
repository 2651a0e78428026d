import { parseNetwork, width } from '../../model/address.ts';
import type { PortBounds } from '../../model/port-range.ts';
import { explainRule } from '../../policy/explain-packet.ts';
import { indexRules, type RuleIndex } from '../../policy/rule-index.ts';
import {
  type NamedRule,
  type PacketReport,
  packetReportMembers,
  packetReportText,
  reportPacket,
  ruleReportMembers,
  ruleReportText,
} from '../../report/explain.ts';
import { otherDocument } from '../../report/json.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { type PacketQuestion, type Question, questionOf } from '../explain-question.ts';
import { ruleNamed, type Subject, subjectOf, userNamed } from '../explain-subject.ts';
import { failure } from '../failure.ts';
import { profileOf } from '../plan-settings.ts';

/**
 * `reconcile explain PATH --destination A --protocol P`: the verdict on a packet and why; `--rule NAME`: what a rule decides.
 * Of the manifests' rules, or with `--live` of the server's (PATH then only lends names). Exit 4 for invalid manifests.
 */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const question = questionOf(invocation);
  const subject = await subjectOf(invocation);
  return { exit: exitCodes.ok, ...answerTo(question, subject, profileOf(settings).ports) };
}

function answerTo(question: Question, subject: Subject, bounds: PortBounds): Omit<Answer, 'exit'> {
  const index = indexRules(subject.rules);
  if (question.kind === 'rule') {
    const rule = ruleNamed(question.name, subject.rules);
    const traffic = explainRule(index, rule);
    return {
      text: () => ruleReportText(rule, traffic, subject.userNames),
      document: () => otherDocument(ruleReportMembers(rule, traffic), subject.problems),
    };
  }
  const report = packetReport(question, index, { subject, bounds });
  return {
    text: ({ color }) => packetReportText(report, subject.userNames, color),
    document: () => otherDocument(packetReportMembers(report), subject.problems),
  };
}

function packetReport(
  question: PacketQuestion,
  index: RuleIndex<NamedRule>,
  { subject, bounds }: { readonly subject: Subject; readonly bounds: PortBounds },
): PacketReport {
  const parsed = parseNetwork(question.destination);
  if (!parsed.ok || parsed.value.network.prefix !== width(parsed.value.network.family)) {
    const hint = parsed.ok
      ? 'a packet goes to one address; a PolicyTest checks a whole network'
      : 'such as 10.1.2.3 or 2001:db8::1';
    throw failure('usage', `--destination ${question.destination} is not an IP address`, hint);
  }
  const user = question.user === null ? null : userNamed(question.user, subject);
  const source = { user, address: parsed.value.network, protocol: question.protocol };
  return reportPacket({ ...source, port: question.port }, index, bounds);
}
