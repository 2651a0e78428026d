import { parseNetwork } from '../model/address.ts';
import type { Commit } from '../model/commit.ts';
import { hasErrors } from '../model/problem.ts';
import type { Action } from '../model/rule.ts';
import { listAllRules, type Protocol } from '../model/state.ts';
import { computeReach, type ReachableTraffic, restrictTraffic, selectTraffic } from '../policy/reach.ts';
import { decideAmong, findVerdictChange, makeTimeline, selectRulesAt, type VerdictChange } from '../policy/timeline.ts';
import { checkMembers, checkRequest } from './arguments.ts';
import { type ManifestFile, type PolicyRequest, readPolicy } from './policy.ts';
import { checkTransport, findPolicyUser, type PacketRequest, readPacket, readSubject } from './questions.ts';

/** Everything that devices of a user can reach and cannot; without `user` those of nobody and of every user with a rule. */
export function reach(request: PolicyRequest & { readonly user?: string }): ReachableTraffic {
  checkRequest('reach', request, ['user']);
  const { state } = readSubject('reach', request);
  const rules = state.rules.map(({ rule }) => rule);
  const all = computeReach(rules);
  if (request.user === undefined) return all;
  const user = findPolicyUser('reach', request.user, state);
  const sources = new Set([rules.some(({ userId }) => userId === user) ? user : null]);
  return { accepted: selectTraffic(all.accepted, sources), dropped: selectTraffic(all.dropped, sources) };
}

/** A network, and what of its traffic is asked about: absent members do not restrict. */
export interface DestinationRequest {
  readonly destination: string;
  readonly protocol?: Protocol;
  /** For tcp and udp. */
  readonly port?: number;
}

/** Who can reach a network, and who cannot: traffic by user, null for devices of nobody and of users without rules of their own. */
export function whoReaches(request: PolicyRequest & DestinationRequest): ReachableTraffic {
  checkRequest('whoReaches', request, ['destination', 'protocol', 'port']);
  const { destination, protocol = null, port = null } = request;
  const parsed = parseNetwork(String(destination));
  if (!parsed.ok)
    throw new TypeError("whoReaches: `destination` must be a network, as in {destination: '10.1.0.0/16'}");
  checkTransport('whoReaches', protocol ?? 'other', port);
  if (port !== null && protocol !== 'tcp' && protocol !== 'udp')
    throw new TypeError('whoReaches: `port` goes with `protocol` tcp or udp');
  const { state } = readSubject('whoReaches', request);
  const { accepted, dropped } = computeReach(state.rules.map(({ rule }) => rule));
  const part = { network: parsed.value.network, protocol, ports: port === null ? null : { low: port, high: port } };
  return { accepted: restrictTraffic(accepted, part), dropped: restrictTraffic(dropped, part) };
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
  readonly before: { readonly verdict: Action; readonly rule: string | null };
  readonly after: { readonly verdict: Action; readonly rule: string | null };
}

/** The verdict of now, its changes from the first on, and the versions whose manifests have errors. */
export interface VerdictHistory {
  readonly verdict: Action;
  readonly changes: readonly VerdictEntry[];
  readonly skipped: readonly string[];
}

/** What `reconcile blame` answers, of versions that come parents before children. Throws as `explain` does. */
export function verdictHistory(
  request: Omit<PolicyRequest, 'manifests'> & {
    readonly versions: readonly PolicyVersion[];
    readonly packet: PacketRequest & { readonly port: number };
  },
): VerdictHistory {
  const { versions, packet: asked, ...rest } = request;
  const newest = Array.isArray(versions) ? versions.at(-1) : undefined;
  if (newest === undefined) throw new TypeError('verdictHistory: `versions` is missing');
  for (const [index, { id: _id, time: _time, parents: _parents, ...one }] of versions.entries()) {
    checkMembers(`verdictHistory: \`versions[${index}]\``, one, {
      allowed: ['manifests'],
      example: '{id, time, manifests}',
    });
    checkRequest('verdictHistory', { ...rest, ...one });
  }
  const now = rest.at ?? Date.now();
  const read = versions.map(
    ({ manifests, time }) => readPolicy({ ...rest, manifests, at: Math.min(time, now) }).offline,
  );
  const last = read.findLast(({ state }) => state !== null)?.state;
  if (last == null) throw new TypeError('verdictHistory: the manifests of every version have errors');
  const { port, ...source } = readPacket('verdictHistory: `packet`', asked, last);
  if (port === null && source.protocol !== 'other') throw new TypeError('verdictHistory: `packet` needs a `port`');
  const packet = { ...source, port: port ?? 0 };
  const commits = versions.map(({ id, time, parents }, index): Commit => {
    const before = versions[index - 1];
    return { id, time, parents: parents ?? (before === undefined ? [] : [before.id]), author: '', subject: '' };
  });
  const timeline = makeTimeline(commits, { since: Number.NEGATIVE_INFINITY, now });
  const moments = commits.flatMap((commit, index) => {
    const state = read[index]?.state ?? null;
    return timeline.add(commit, state === null ? null : { commit, rules: listAllRules(state) });
  });
  const changes = [...moments, ...timeline.end()].flatMap((moment) => findVerdictChange(moment, packet) ?? []);
  const rules = selectRulesAt({ rules: listAllRules(last) }, now);
  return {
    verdict: decideAmong(rules, packet).verdict,
    changes: changes.map(entryOf),
    skipped: commits.flatMap(({ id }, index) => (hasErrors(read[index]?.problems ?? []) ? [id] : [])),
  };
}

function entryOf({ cause, time, commit, before, after }: VerdictChange): VerdictEntry {
  const side = ({ verdict, rule }: VerdictChange['before']) => ({ verdict, rule: rule?.name ?? null });
  return { cause, time, id: commit.id, before: side(before), after: side(after) };
}
