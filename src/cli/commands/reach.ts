import { parseNetwork } from '../../model/address.ts';
import { findUserId } from '../../model/known-users.ts';
import { computeReach, type TrafficSelector } from '../../policy/reach.ts';
import { makeMatrixMembers, makeReachMembers, tellMatrix, tellReach } from '../../report/reach.ts';
import { renderTableText } from '../../report/table.ts';
import { makePeople } from '../../report/traffic/people.ts';
import { type Answer, type Invocation, makeFailure, type Settings } from '../command.ts';
import { tellProgress } from '../progress.ts';
import { answerWithTable, findNamedUser, loadSubject, parseProtocol, tellUnresolved } from '../question.ts';

/** `reconcile reach PATH`: what `--user` can and cannot reach, who reaches `--destination`, else each user and each network named. */
export async function run(invocation: Invocation): Promise<Answer> {
  return await tellProgress(invocation.terminal, (say) => answer(invocation, say));
}

async function answer(invocation: Invocation, say: (text: string) => void): Promise<Answer> {
  const { user, destination } = invocation.settings;
  const part = readPart(invocation.settings);
  const subject = await loadSubject(invocation, 'reach');
  const { manifests = [] } = subject.built ?? {};
  const rules = subject.rules.map(({ rule }) => rule);
  const membersOf = (text: string) => (findUserId(text, subject) === null ? subject.groups?.get(text) : undefined);
  const users = user.flatMap((text) => [...(membersOf(text) ?? [findNamedUser(text, subject)])]);
  say(`following ${rules.length} rules`);
  const reach = computeReach(rules, user.length === 0 ? part : { users: new Set(users) });
  const withRules = [...rules.flatMap(({ userId }) => userId ?? []), ...users];
  const people = { ...makePeople(withRules, subject), most: Number.POSITIVE_INFINITY };
  const networks = manifests.filter((one) => one.kind === 'Network');
  const isMatrix = user.length === 0 && destination === null && networks.length > 0;
  say('making a table of it');
  const who = user.length > 0 ? user.join(', ') : null;
  const table = isMatrix ? tellMatrix(reach, people, networks) : tellReach(reach, people, who);
  const told = {
    title: who === null ? `Who can reach ${destination ?? 'what'}` : `What ${who} can reach`,
    text: ({ width = Number.POSITIVE_INFINITY }) => renderTableText(table, width),
    table: () => table,
    members: () => ({ ...makeReachMembers(reach), ...(isMatrix ? makeMatrixMembers(table) : {}) }),
  };
  return { ...answerWithTable(told, subject.problems), notes: tellUnresolved(subject) };
}

/** The traffic that is asked about; throws a `Failure` for flags that go with no such question. */
function readPart({ user, destination, protocol, port }: Settings): { readonly part?: TrafficSelector } {
  if (destination === null) {
    if (protocol === null && port === null) return {};
    throw makeFailure('usage', '--protocol and --port go with --destination', 'name the network that you ask about');
  }
  if (user.length > 0) {
    const hint = 'ask one of them, or `reconcile explain` for one packet';
    throw makeFailure('usage', '--user and --destination are two questions', hint);
  }
  const parsed = parseNetwork(destination);
  if (!parsed.ok)
    throw makeFailure('usage', `--destination ${destination} is not a network`, 'such as 10.1.0.0/16 or 2001:db8::1');
  if (protocol === null && port !== null)
    throw makeFailure('usage', '--port goes with --protocol tcp or udp', 'name the protocol too');
  const kind = protocol === null ? null : parseProtocol(protocol, port);
  const ports = port === null ? null : { low: port, high: port };
  return { part: { network: parsed.value.network, protocol: kind, ports } };
}
