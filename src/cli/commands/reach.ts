import { parseNetwork } from '../../model/address.ts';
import { computeReach, type TrafficSelector } from '../../policy/reach.ts';
import { makeMatrixMembers, makeReachMembers, tellMatrix, tellReach } from '../../report/reach.ts';
import { renderTableText } from '../../report/table.ts';
import { makePeople } from '../../report/traffic/people.ts';
import { type Answer, type Invocation, makeFailure, type Settings } from '../command.ts';
import { tellProgress } from '../progress.ts';
import { answerWithTable, findNamedUser, loadSubject, parseProtocol } from '../question.ts';

/** `reconcile reach PATH`: what `--user` can and cannot reach, who reaches `--destination`, else each user and each network named. */
export async function run(invocation: Invocation): Promise<Answer> {
  return await tellProgress(invocation.terminal, (say) => answer(invocation, say));
}

async function answer(invocation: Invocation, say: (text: string) => void): Promise<Answer> {
  const { user, destination, protocol, port } = invocation.settings;
  if (destination === null && (protocol !== null || port !== null))
    throw makeFailure('usage', '--protocol and --port go with --destination', 'name the network that you ask about');
  if (user.length > 0 && destination !== null) {
    const hint = 'ask one of them, or `reconcile explain` for one packet';
    throw makeFailure('usage', '--user and --destination are two questions', hint);
  }
  const part = destination === null ? {} : { part: partOf(destination, invocation.settings) };
  const subject = await loadSubject(invocation, 'reach');
  const { state, manifests = [] } = subject.built ?? {};
  const groups = state?.groups ?? new Map<string, ReadonlySet<string>>();
  const rules = subject.rules.map(({ rule }) => rule);
  const users = user.flatMap((text) => [...(groups.get(text) ?? [findNamedUser(text, subject)])]);
  say(`following ${rules.length} rules`);
  const reach = computeReach(rules, user.length === 0 ? part : { users: new Set(users) });
  const withRules = [...rules.flatMap(({ userId }) => userId ?? []), ...users];
  const people = { ...makePeople(withRules, { ...subject, groups }), most: Number.POSITIVE_INFINITY };
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
  return answerWithTable(told, subject.problems);
}

function partOf(destination: string, { protocol, port }: Settings): TrafficSelector {
  const parsed = parseNetwork(destination);
  if (!parsed.ok)
    throw makeFailure('usage', `--destination ${destination} is no network`, 'such as 10.1.0.0/16 or 2001:db8::1');
  if (protocol === null && port !== null)
    throw makeFailure('usage', '--port goes with --protocol tcp or udp', 'name the protocol too');
  const kind = protocol === null ? null : parseProtocol(protocol, port);
  return { network: parsed.value.network, protocol: kind, ports: port === null ? null : { low: port, high: port } };
}
