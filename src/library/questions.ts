import { getWidth, parseNetwork } from '../model/address.ts';
import { hasErrors, type Problem } from '../model/problem.ts';
import type { Action } from '../model/rule.ts';
import type { DesiredState, Protocol } from '../model/state.ts';
import { computeEffect } from '../policy/effect.ts';
import { indexRules, type RuleIndex } from '../policy/rule-index.ts';
import { runPolicyTests } from '../policy/tests.ts';
import type { Effect } from '../policy/traffic.ts';
import {
  makePacketMembers,
  type NamedRule,
  type PacketReport,
  renderPacketReport,
  reportPacket,
} from '../report/explain.ts';
import { listTestProblems } from '../report/policy-tests.ts';
import { checkMembers, checkRequest } from './arguments.ts';
import { type PolicyRequest, readPolicy } from './policy.ts';

/** A packet to one address, from a device of `user`: a name, an e-mail address or a UUID; absent: of nobody. */
export interface PacketRequest {
  readonly destination: string;
  readonly protocol: Protocol;
  /** For tcp and udp; absent: a port that no rule names. */
  readonly port?: number;
  readonly user?: string;
}

/** What happens to a packet, and why. */
export interface Explained {
  readonly verdict: Action;
  /** Name of the rule that decides; null: none matches, and what none matches is accepted. */
  readonly rule: string | null;
  /** What `reconcile explain` prints, and the members of its JSON document. */
  readonly text: string;
  readonly json: Readonly<Record<string, unknown>>;
}

/** Explains a packet. Throws a `TypeError` for a packet that cannot be asked about, and for manifests with errors. */
export function explain(request: PolicyRequest & { readonly packet: PacketRequest }): Explained {
  checkRequest('explain', request, ['packet']);
  const subject = readSubject('explain', request);
  const report = askAbout('explain: `packet`', request.packet, subject);
  const { verdict, rule } = report.explanation;
  const text = renderPacketReport(report, subject.state.userNames, false);
  return { verdict, rule: rule?.name ?? null, text, json: makePacketMembers(report) };
}

/** The verdict on each of these packets. Throws as `explain` does. */
export function verdicts(request: PolicyRequest & { readonly packets: readonly PacketRequest[] }): readonly Action[] {
  checkRequest('verdicts', request, ['packets']);
  if (!Array.isArray(request.packets)) throw new TypeError('verdicts: `packets` is missing');
  const subject = readSubject('verdicts', request);
  return request.packets.map(
    (packet, index) => askAbout(`verdicts: \`packets[${index}]\``, packet, subject).explanation.verdict,
  );
}

/** The traffic that a change from one policy to another opens and closes. Throws a `TypeError` for manifests with errors. */
export function effectBetween(before: PolicyRequest, after: PolicyRequest): Effect {
  checkRequest('effectBetween', before);
  checkRequest('effectBetween', after);
  const rulesOf = (request: PolicyRequest) => stateOf('effectBetween', request).rules.map(({ rule }) => rule);
  return computeEffect(rulesOf(before), rulesOf(after));
}

/** How the policy tests of the manifests ended; `problems` names each failing case with a packet that shows it. */
export interface Tested {
  readonly passed: number;
  readonly failed: number;
  readonly problems: readonly Problem[];
}

/** Runs the policy tests, as `reconcile test` does. Throws a `TypeError` for manifests with errors. */
export function runTests(request: PolicyRequest): Tested {
  checkRequest('runTests', request);
  const { state, profile } = readSubject('runTests', request);
  const results = runPolicyTests(state.tests, state.rules, profile.ports);
  const problems = listTestProblems(results, state.userNames);
  return { passed: results.length - problems.length, failed: problems.length, problems };
}

/** A policy that is asked. */
export interface PolicySubject {
  readonly state: DesiredState;
  readonly profile: ReturnType<typeof readPolicy>['context']['profile'];
  readonly index: RuleIndex<NamedRule>;
}

/** Reads a policy to ask it; throws a `TypeError` for manifests with errors. */
export function readSubject(call: string, request: PolicyRequest): PolicySubject {
  const state = stateOf(call, request);
  const index = indexRules(state.rules.map((one): NamedRule => ({ ...one, id: null })));
  return { state, profile: readPolicy(request).context.profile, index };
}

function stateOf(call: string, request: PolicyRequest): DesiredState {
  const { state, problems } = readPolicy(request).offline;
  if (state !== null) return state;
  const first = problems.find((problem) => hasErrors([problem]));
  const where = first?.place === undefined ? '' : `${first.place.file}:${first.place.line}: `;
  throw new TypeError(`${call}: the manifests have errors. ${where}${first?.summary} \`validate\` gives all`);
}

const packetExample = "{destination: '10.1.2.3', protocol: 'tcp', port: 443, user: 'alice'}";

function askAbout(what: string, packet: PacketRequest, subject: PolicySubject): PacketReport {
  return reportPacket(readPacket(what, packet, subject.state), subject.index, subject.profile.ports);
}

/** Checks a packet of a request; `port` is null where none is named, or none counts. */
export function readPacket(what: string, packet: PacketRequest, state: DesiredState) {
  checkMembers(what, packet, { allowed: ['destination', 'protocol', 'port', 'user'], example: packetExample });
  const { destination, protocol, port = null, user } = packet;
  const parsed = parseNetwork(String(destination));
  if (!parsed.ok || parsed.value.network.prefix !== getWidth(parsed.value.network.family)) {
    throw new TypeError(`${what}: \`destination\` must be one IP address, as in ${packetExample}`);
  }
  checkTransport(what, protocol, port);
  return {
    user: user === undefined ? null : findPolicyUser(what, user, state),
    address: parsed.value.network,
    protocol,
    port: protocol === 'other' ? null : port,
  };
}

/** Checks a protocol and a port of a request. */
export function checkTransport(what: string, protocol: string, port: number | null): void {
  if (!['tcp', 'udp', 'other'].includes(protocol)) throw new TypeError(`${what}: \`protocol\` is tcp, udp or other`);
  if (port !== null && !(Number.isInteger(port) && port >= 0 && port <= 65535)) {
    throw new TypeError(`${what}: \`port\` is a whole number from 0 to 65535`);
  }
}

/** The id of a user by name, e-mail address or UUID; throws a `TypeError` for one whom the manifests do not know. */
export function findPolicyUser(what: string, text: string, { userNames, rules }: DesiredState): string {
  const name = text.includes('@') ? text.toLowerCase() : text;
  const [id] = [...userNames].find(([, known]) => known === name) ?? [];
  if (id !== undefined) return id;
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return text.toLowerCase();
  if (rules.some(({ rule }) => rule.userId === name)) return name;
  throw new TypeError(`${what}: there is no user ${text}: write a name from a \`kind: Users\`, or a UUID`);
}
