import { explainRule } from '../../policy/explain-packet.ts';
import { indexRules } from '../../policy/rule-index.ts';
import {
  makePacketMembers,
  makeRuleMembers,
  renderPacketReport,
  renderRuleReport,
  reportPacket,
} from '../../report/explain.ts';
import { renderDocument } from '../../report/json.ts';
import { type Answer, type Invocation, makeFailure } from '../command.ts';
import { readProfile } from '../plan-settings.ts';
import { findNamedRule, findNamedUser, loadSubject, readPacket, tellUnresolved } from '../question.ts';

/** `reconcile explain PATH`: the verdict on a packet, or what a rule decides, of the manifests or with `--live` of the server. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { rule: asked, destination, protocol, port } = settings;
  if (asked !== null && (settings.user[0] ?? destination ?? protocol ?? port) !== null)
    throw makeFailure('usage', '--rule and a packet are two questions', 'ask one of them');
  const question = asked === null ? readPacket(settings) : null;
  const subject = await loadSubject(invocation, 'explain');
  const { rules, userNames, problems } = subject;
  const index = indexRules(rules);
  const notes = tellUnresolved(subject);
  if (question === null) {
    const rule = findNamedRule(asked ?? '', subject);
    const traffic = explainRule(index, rule);
    const document = () => renderDocument(makeRuleMembers(rule, traffic), problems);
    return { text: () => renderRuleReport(rule, traffic, userNames), document, notes };
  }
  const user = question.user === null ? null : findNamedUser(question.user, subject);
  const report = reportPacket({ ...question, user }, index, readProfile(settings).ports);
  const document = () => renderDocument(makePacketMembers(report), problems);
  return { text: ({ color }) => renderPacketReport(report, userNames, color), document, notes };
}
