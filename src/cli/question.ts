import { readLive, readUsers } from '../apply/read.ts';
import { didYouMean } from '../manifest/suggest.ts';
import { getWidth, parseNetwork } from '../model/address.ts';
import { findUserId, mergeNames, type UsersByName } from '../model/known-users.ts';
import { joinSome } from '../model/printable.ts';
import { hasErrors, type Problem } from '../model/problem.ts';
import { formatRuleKey, pickNotes } from '../model/rule.ts';
import { type DesiredState, listAllRules, type Protocol, wholeScope } from '../model/state.ts';
import { formatNotes } from '../report/change-words.ts';
import type { NamedRule } from '../report/explain.ts';
import { renderDocument } from '../report/json.ts';
import { renderProblems } from '../report/problems.ts';
import { makeProblemReport } from '../report/run-report.ts';
import type { TableAnswer } from '../report/table.ts';
import { type Answer, exitCodes, Failure, type Invocation, makeFailure, type Settings } from './command.ts';
import { buildOperand, type OfflineBuild } from './manifests.ts';
import { askServer } from './wire.ts';

/** The packet on the command line, its user as it was written; throws a `Failure` for none, or for what is no packet. */
export function readPacket(settings: Pick<Settings, 'destination' | 'protocol' | 'port' | 'user'>) {
  const { destination, protocol, port, user } = settings;
  if (destination === null) {
    const hint = 'name a packet (--destination 10.1.2.3 --protocol tcp --port 443); `explain` takes --rule NAME too';
    throw makeFailure('usage', 'nothing is asked', hint);
  }
  if (protocol === null) throw makeFailure('usage', '--protocol is missing', 'tcp, udp, or another such as icmp');
  const kind = parseProtocol(protocol, port);
  if (user.length > 1) throw makeFailure('usage', '--user is given more than once', 'a packet comes from one device');
  const parsed = parseNetwork(destination);
  if (!parsed.ok || parsed.value.network.prefix !== getWidth(parsed.value.network.family)) {
    const hint = parsed.ok
      ? 'a packet goes to one address; a PolicyTest checks a whole network'
      : 'such as 10.1.2.3 or 2001:db8::1';
    throw makeFailure('usage', `--destination ${destination} is not an IP address`, hint);
  }
  return { address: parsed.value.network, protocol: kind, port, user: user[0] ?? null };
}

const others = ['icmp', 'icmpv6', 'ipv6-icmp', 'igmp', 'esp', 'ah', 'gre', 'sctp', 'ospf', 'vrrp', 'other'];

/** Rules know tcp, udp, and all the rest; a protocol goes by its name or its number. A port goes with the first two. */
export function parseProtocol(text: string, port: number | null): Protocol {
  const name = text.trim().toLowerCase();
  if (name === 'tcp' || name === '6') return 'tcp';
  if (name === 'udp' || name === '17') return 'udp';
  if (!others.includes(name) && !(/^[0-9]{1,3}$/.test(name) && Number(name) <= 255)) {
    const hint = didYouMean(name, ['tcp', 'udp', ...others], 'one at a time: tcp, udp, icmp, or the number of another');
    throw makeFailure('usage', `--protocol ${text} is not a protocol known here`, hint);
  }
  if (port !== null) throw makeFailure('usage', '--port goes with tcp and udp only', 'other protocols know no ports');
  return 'other';
}

/** The rules that are asked about, and what users and groups are called. */
export interface Subject extends Pick<DesiredState, 'userNames' | 'userIds' | 'groups'> {
  readonly rules: readonly NamedRule[];
  readonly problems: readonly Problem[];
  /** The manifests, where some are named. */
  readonly built?: OfflineBuild | undefined;
}

/** The rules and names of the manifests, or of the server; throws a `Failure` when the manifests are invalid. */
export async function loadSubject(invocation: Invocation, command: string): Promise<Subject> {
  const { settings } = invocation;
  if (settings.user.length === 0 && settings.origins.has('user'))
    throw makeFailure('usage', '--user is empty', 'name a user, or leave --user out');
  const isLive = settings.liveRules || settings.snapshot !== null;
  if (isLive && settings.at !== null)
    throw makeFailure('usage', '--at goes with manifests, not with a server as it is', 'leave one of them out');
  if (isLive && invocation.operands.length === 0) return await liveSubject(invocation, null);
  const built = await buildOperand(invocation, command);
  const { problems } = built;
  if (built.state === null || hasErrors(problems)) throw new Failure(problems, exitCodes.invalid);
  const named = built.state.rules.map((one): NamedRule => ({ ...one, id: null }));
  const subject: Subject = { ...built.state, rules: named, problems, built };
  return isLive ? await liveSubject(invocation, subject) : subject;
}

/** The server's rules, or those of the snapshot that stands in for it, with the names that manifests have for equal ones. */
function liveSubject(invocation: Invocation, manifests: Subject | null): Promise<Subject> {
  const { snapshot, liveRules, user } = invocation.settings;
  if (snapshot !== null && liveRules)
    throw makeFailure('usage', '--live and --snapshot exclude each other', 'ask the server, or the file');
  const ask: Parameters<typeof askServer<Subject>>[1] = async (context, must) => {
    const { live } = must(await readLive(context, { ...wholeScope, configuration: false }, null));
    const isAsked = snapshot === null && user.some((one) => one.includes('@'));
    const users = isAsked ? must(await readUsers(context)) : [];
    const known = new Map(manifests?.rules.map((item) => [formatRuleKey(item.rule), item]));
    const rules = live.rules.map(({ id, rule }): NamedRule => {
      const named = known.get(formatRuleKey(rule));
      return { ...pickNotes(named ?? {}), rule, id, name: named?.name ?? null, place: named?.place ?? null };
    });
    // An address that stands for itself is nobody's here.
    const written = [...(manifests?.userNames ?? [])].filter(([id, name]) => id !== name);
    const emails = users.map(({ id, email }) => [id, email] as const);
    const userIds = new Map([...emails.map(([id, email]) => [email, id] as const), ...(manifests?.userIds ?? [])]);
    return { problems: [], ...manifests, rules, userIds, userNames: mergeNames(emails, new Map(written)) };
  };
  return askServer(invocation, ask, snapshot);
}

/** The id of the user that a name, an e-mail address or a UUID stands for; throws a `Failure` for an unknown one. */
export function findNamedUser(text: string, known: UsersByName & Pick<Subject, 'groups'>): string {
  const found = findUserId(text, known);
  const instead = `write the UUID of the user (${found}), or the members of the group one by one`;
  if (found !== null && known.groups?.has(text)) throw makeFailure('usage', `${text} is a user and a group`, instead);
  if (found !== null) return found;
  if (/^(any|everyone|nobody)$/.test(text)) throw makeFailure('unknown-user', `${text} is no user`, 'leave --user out');
  const hint = didYouMean(
    text.includes('@') ? text.toLowerCase() : text,
    [...known.userNames.values(), ...(known.userIds?.keys() ?? [])],
    'write a name from a `kind: Users`, an e-mail address that a rule names, or the UUID; others need the server (`explain` and `reach` with --live)',
  );
  throw makeFailure('unknown-user', `there is no user ${text}`, hint);
}

/** The rule of that name or id; throws a `Failure` when there is none, or when it is not in force. */
export function findNamedRule(text: string, { rules, built }: Subject): NamedRule {
  const found = rules.find(({ name, id }) => name === text || id === text);
  // Plans show the first digits of an id.
  const begun = /^[0-9a-f-]{8,}$/i.test(text) ? rules.filter(({ id }) => id?.startsWith(text.toLowerCase())) : [];
  const one = found ?? (begun.length === 1 ? begun[0] : undefined);
  if (one !== undefined) return one;
  const other = built?.state && listAllRules(built.state).find(({ name }) => name === text);
  if (other) {
    const summary = `${text} is not in force then: ${formatNotes(other)}`;
    throw makeFailure('unknown-rule', summary, '--at TIME asks about another time');
  }
  const below = rules.filter(({ name }) => name?.startsWith(`${text}/`) === true).map(({ name }) => name ?? '');
  const names = rules.flatMap(({ name, id }) => name ?? id ?? []);
  const hint =
    below.length > 0
      ? `it makes the rules ${joinSome(below, 5)}: name one of them`
      : didYouMean(text, names, '`reconcile build` lists the rules by name');
  throw makeFailure('unknown-rule', `there is no rule ${text}`, hint);
}

/** Says on stderr that addresses were not looked up, so that an answer may be of less than a person has. */
export function tellUnresolved({ problems }: Subject): NonNullable<Answer['notes']> {
  const hint = "what is written for an address is not known as its user's: add it to `kind: Users`, or ask with --live";
  const unresolved = problems.flatMap((one) => (one.code === 'unresolved-email' ? { ...one, hint } : []));
  return (color) => renderProblems(unresolved, color);
}

/** An answer that is a table, in every format. */
export function answerWithTable({ title, members, ...shown }: TableAnswer, problems: readonly Problem[]): Answer {
  return {
    ...shown,
    report: () => ({ ...makeProblemReport(problems), headline: title }),
    document: () => renderDocument(members(), problems),
  };
}
