import { getWidth, type Network, parseNetwork } from '../model/address.ts';
import type { Commit } from '../model/commit.ts';
import { findUserId, type UsersByName } from '../model/known-users.ts';
import { hasErrors, type Problem } from '../model/problem.ts';
import type { Action } from '../model/rule.ts';
import { listAllRules, type Protocol } from '../model/state.ts';
import { computeEffect } from '../policy/effect.ts';
import { computeReach, type ReachableTraffic } from '../policy/reach.ts';
import { indexRules } from '../policy/rule-index.ts';
import { runPolicyTests } from '../policy/tests.ts';
import { decideAt, findVerdictChange, makeTimeline, type VerdictChange } from '../policy/timeline.ts';
import type { Effect } from '../policy/traffic.ts';
import { makePacketMembers, type NamedRule, renderPacketReport, reportPacket } from '../report/explain.ts';
import { tellTests } from '../report/policy-tests.ts';
import { checkMembers, checkRequest, settingFields } from './arguments.ts';
import { type ManifestFile, type PolicyRequest, readPolicy } from './policy.ts';

/** A network, and what of its traffic is asked about: absent members do not restrict. */
export interface DestinationRequest {
  readonly destination: string;
  readonly protocol?: Protocol;
  /** For tcp and udp. */
  readonly port?: number;
}

/** A packet to one address, from a device of `user`: a name, an e-mail address or a UUID; absent: of nobody. Without `port`: one that no rule names. */
export interface PacketRequest extends DestinationRequest {
  readonly protocol: Protocol;
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
  const subject = readSubject('explain', request, 'packet');
  const report = askAbout('explain: `packet`', request.packet, subject);
  const { verdict, rule } = report.explanation;
  const text = renderPacketReport(report, subject.state.userNames, false);
  return { verdict, rule: rule?.name ?? null, text, json: makePacketMembers(report) };
}

/** The verdict on each of these packets. Throws as `explain` does. */
export function verdicts(request: PolicyRequest & { readonly packets: readonly PacketRequest[] }): readonly Action[] {
  const subject = readSubject('verdicts', request, 'packets');
  if (!Array.isArray(request.packets)) throw new TypeError('verdicts: `packets` is missing');
  return request.packets.map(
    (packet, index) => askAbout(`verdicts: \`packets[${index}]\``, packet, subject).explanation.verdict,
  );
}

/** The traffic that a change from one policy to another opens and closes. Throws a `TypeError` for manifests with errors. */
export function effectBetween(before: PolicyRequest, after: PolicyRequest): Effect {
  const [from, to] = [readRules('effectBetween', before), readRules('effectBetween', after)];
  return computeEffect(from.rules, to.rules);
}

/** How the policy tests of the manifests ended; `problems` names each failing case with a packet that shows it. */
export interface Tested {
  readonly passed: number;
  readonly failed: number;
  readonly problems: readonly Problem[];
}

/** Runs the policy tests, as `reconcile test` does. Throws a `TypeError` for manifests with errors. */
export function runTests(request: PolicyRequest): Tested {
  const { state, profile } = readRules('runTests', request);
  const ended = runPolicyTests(state.tests, state.rules, profile.ports);
  const { passed, failed, problems } = tellTests(ended, state);
  return { passed, failed, problems };
}

/** Everything that devices of a user can reach and cannot; without `user` those of nobody and of every user with a rule. */
export function reach(request: PolicyRequest & { readonly user?: string }): ReachableTraffic {
  const { state, rules } = readRules('reach', request, 'user');
  if (request.user === undefined) return computeReach(rules);
  return computeReach(rules, { users: new Set([findUser('reach', request.user, state)]) });
}

/** Who can reach a network, and who cannot: traffic by user, null for devices of nobody and of users without rules of their own. */
export function whoReaches(request: PolicyRequest & DestinationRequest): ReachableTraffic {
  const { rules } = readRules('whoReaches', request, 'destination', 'protocol', 'port');
  const { protocol = null, port } = request;
  const network = readTarget('whoReaches', request, protocol ?? 'other');
  if (port !== undefined && protocol !== 'tcp' && protocol !== 'udp')
    throw new TypeError('whoReaches: `port` goes with `protocol` tcp or udp');
  const ports = port === undefined ? null : { low: port, high: port };
  return computeReach(rules, { part: { network, protocol, ports } });
}

/** The manifests at one commit. */
export interface PolicyVersion {
  readonly id: string;
  /** ms since 1970 */
  readonly time: number;
  /** Default: the version before. */
  readonly parents?: readonly string[];
  readonly manifests: readonly ManifestFile[];
}

/** How a packet's verdict changed at a version, or at a time that the version set for a rule. */
export interface VerdictEntry extends Pick<VerdictChange, 'cause' | 'time'> {
  readonly id: string;
  readonly before: Pick<Explained, 'verdict' | 'rule'>;
  readonly after: Pick<Explained, 'verdict' | 'rule'>;
}

/** The verdict of now, its changes from the first on, and the versions whose manifests have errors. */
export interface VerdictHistory {
  readonly verdict: Action;
  readonly changes: readonly VerdictEntry[];
  readonly skipped: readonly string[];
  /** Rules begin and end at so many times that those from this one on were not looked at (ms since 1970); null: all were. */
  readonly until: number | null;
}

/** What `reconcile blame` answers, of versions that come parents before children. Throws as `explain` does. */
export function verdictHistory(
  request: Omit<PolicyRequest, 'manifests'> & {
    readonly versions: readonly PolicyVersion[];
    readonly packet: PacketRequest & { readonly port: number };
  },
): VerdictHistory {
  const example = "verdictHistory({versions: [{id: 'v1', time: 0, manifests: []}], packet: {…}})";
  checkMembers('verdictHistory', request, ['versions', 'packet', ...settingFields], example);
  const { versions, packet: asked, ...rest } = request;
  if (!Array.isArray(versions) || versions.length === 0) throw new TypeError('verdictHistory: `versions` has none');
  const now = rest.at ?? Date.now();
  const read = (versions as readonly PolicyVersion[]).map((given, index, all) => {
    const what = `verdictHistory: \`versions[${index}]\``;
    checkMembers(what, given, ['id', 'time', 'parents', 'manifests'], example);
    const { id, time, parents, ...one } = given;
    if (typeof id !== 'string' || !Number.isFinite(time))
      throw new TypeError(`${what} needs an \`id\`, a text, and a \`time\` in ms since 1970`);
    checkRequest('verdictHistory', { ...rest, ...one });
    const { state } = readPolicy({ ...rest, ...one, at: Math.min(time, now) }).offline;
    const before = all.slice(Math.max(0, index - 1), index).map((version) => version.id);
    const commit: Commit = { id, time, parents: parents ?? before, author: '', subject: '' };
    return { commit, version: state && { ...state, commit, rules: listAllRules(state) } };
  });
  const commits = read.map(({ commit }) => commit);
  const timeline = makeTimeline(commits, now, Number.NEGATIVE_INFINITY);
  const moments = read.flatMap(({ commit, version }) => timeline.add(commit, version));
  const newest = timeline.newest();
  if (newest === null) throw new TypeError('verdictHistory: the manifests of every version have errors');
  const { port, ...source } = readPacket('verdictHistory: `packet`', asked, newest);
  if (port === null && source.protocol !== 'other') throw new TypeError('verdictHistory: `packet` needs a `port`');
  const packet = { ...source, port: port ?? 0 };
  const side = ({ verdict, rule }: VerdictChange['before']) => ({ verdict, rule: rule?.name ?? null });
  return {
    verdict: decideAt(newest, now, packet).verdict,
    changes: [...moments, ...timeline.end()].flatMap((moment): readonly VerdictEntry[] => {
      const change = findVerdictChange(moment, packet);
      if (change === null) return [];
      const { cause, time, commits, before, after } = change;
      return commits.slice(0, 1).map(({ id }) => ({ cause, time, id, before: side(before), after: side(after) }));
    }),
    skipped: read.flatMap(({ commit, version }) => (version === null ? [commit.id] : [])),
    until: timeline.until(),
  };
}

/** Checks a request with these members of its own, and reads its policy; throws a `TypeError` for manifests with errors. */
function readRules(call: string, request: PolicyRequest, ...members: readonly string[]) {
  checkRequest(call, request, members);
  const { offline, context } = readPolicy(request);
  const { state, problems } = offline;
  if (state !== null) return { state, rules: state.rules.map(({ rule }) => rule), profile: context.profile };
  const first = problems.find((problem) => hasErrors([problem]));
  const where = first?.place === undefined ? '' : `${first.place.file}:${first.place.line}: `;
  throw new TypeError(`${call}: the manifests have errors. ${where}${first?.summary} \`validate\` gives all`);
}

function readSubject(call: string, request: PolicyRequest, member: string) {
  const { state, profile } = readRules(call, request, member);
  return { state, profile, index: indexRules(state.rules.map((one): NamedRule => ({ ...one, id: null }))) };
}

type Subject = ReturnType<typeof readSubject>;

function askAbout(what: string, packet: PacketRequest, { state, index, profile }: Subject) {
  return reportPacket(readPacket(what, packet, state), index, profile.ports);
}

const packetExample = "{destination: '10.1.2.3', protocol: 'tcp', port: 443, user: 'alice'}";

/** Checks a packet of a request; `port` is null where none is named, or none counts. */
function readPacket(what: string, packet: PacketRequest, state: UsersByName) {
  checkMembers(what, packet, ['destination', 'protocol', 'port', 'user'], packetExample);
  const { protocol, port = null, user } = packet;
  const address = readTarget(what, packet, protocol);
  if (address.prefix !== getWidth(address.family))
    throw new TypeError(`${what}: \`destination\` must be one IP address, as in ${packetExample}`);
  const from = user === undefined ? null : findUser(what, user, state);
  return { user: from, address, protocol, port: protocol === 'other' ? null : port };
}

/** The destination, and checks of what goes with it. */
function readTarget(what: string, { destination, port = 0 }: DestinationRequest, protocol: string): Network {
  const parsed = parseNetwork(String(destination));
  if (!parsed.ok)
    throw new TypeError(`${what}: \`destination\` must be an IP address or a network, as in '10.1.0.0/16'`);
  if (!['tcp', 'udp', 'other'].includes(protocol)) throw new TypeError(`${what}: \`protocol\` is tcp, udp or other`);
  if (!(Number.isInteger(port) && port >= 0 && port <= 65535))
    throw new TypeError(`${what}: \`port\` is a whole number from 0 to 65535`);
  return parsed.value.network;
}

function findUser(what: string, text: string, state: UsersByName): string {
  const found = findUserId(text, state);
  if (found !== null) return found;
  throw new TypeError(`${what}: there is no user ${text}: write a name from a \`kind: Users\`, or a UUID`);
}
