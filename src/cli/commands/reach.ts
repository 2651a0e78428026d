import { type Network, parseNetwork } from '../../model/address.ts';
import { computeReach, type ReachQuestion, type TrafficSelector } from '../../policy/reach.ts';
import { makeReachMembers, tellMatrix, tellReach } from '../../report/reach.ts';
import { renderTableText } from '../../report/table.ts';
import { makePeople } from '../../report/traffic/people.ts';
import { type Answer, type Invocation, makeFailure } from '../command.ts';
import { readPathOperand } from '../path-operand.ts';
import { tellProgress } from '../progress.ts';
import { answerWithTable, findNamedUser, loadSubject, parseProtocol, type Subject } from '../question.ts';

/**
 * `reconcile reach PATH`: what people can reach. `--user`: everything that they can and cannot; `--destination`: who can reach it;
 * neither: each user against each network that the manifests name. Of the manifests' rules, or with `--live` of the server's.
 */
export async function run(invocation: Invocation): Promise<Answer> {
  readPathOperand(invocation, 'reach');
  return await tellProgress(invocation.terminal, (say) => answer(invocation, say));
}

async function answer(invocation: Invocation, say: (text: string) => void): Promise<Answer> {
  const { settings } = invocation;
  const { user, destination } = settings;
  const part = destination === null ? {} : { part: partOf(settings) };
  if (user.length > 0 && destination !== null) {
    const hint = 'ask one of them, or `reconcile explain` for one packet';
    throw makeFailure('usage', '--user and --destination are two questions', hint);
  }
  const subject = await loadSubject(invocation);
  const rules = subject.rules.map(({ rule }) => rule);
  const groups = subject.built?.state?.groups ?? new Map<string, ReadonlySet<string>>();
  const asked = user.flatMap((text) => [...(groups.get(text) ?? [findNamedUser(text, subject)])]);
  const question: ReachQuestion = user.length === 0 ? part : { users: new Set(asked) };
  say(`following ${rules.length} rules`);
  const reach = computeReach(rules, question);
  const users = rules.flatMap(({ userId }) => userId ?? []);
  const people = { ...makePeople([...users, ...asked], { ...subject, groups }), most: Number.POSITIVE_INFINITY };
  const networks = user.length > 0 || destination !== null ? new Map() : networksIn(subject);
  say('making a table of it');
  const table =
    networks.size > 0
      ? tellMatrix(reach, people, networks)
      : tellReach(reach, people, user.length > 0 ? user.join(', ') : null);
  const told = { title: titleOf(settings), table: () => table, members: () => makeReachMembers(reach) };
  return answerWithTable({ ...told, text: ({ width }) => renderTableText(table, width) }, subject.problems);
}

function titleOf({ user, destination }: Invocation['settings']): string {
  if (user.length > 0) return `What ${user.join(', ')} can reach`;
  return destination === null ? 'Who can reach what' : `Who can reach ${destination}`;
}

function partOf({ destination, protocol, port }: Invocation['settings']): TrafficSelector {
  const parsed = parseNetwork(destination ?? '');
  if (!parsed.ok)
    throw makeFailure('usage', `--destination ${destination} is no network`, 'such as 10.1.0.0/16 or 2001:db8::1');
  if (protocol === null && port !== null)
    throw makeFailure('usage', '--port goes with --protocol tcp or udp', 'name the protocol too');
  const kind = protocol === null ? null : parseProtocol(protocol, port);
  return { network: parsed.value.network, protocol: kind, ports: port === null ? null : { low: port, high: port } };
}

function networksIn({ built }: Subject): ReadonlyMap<string, readonly Network[]> {
  return new Map(
    (built?.manifests ?? []).flatMap((manifest) =>
      manifest.kind === 'Network' ? [[manifest.name, manifest.networks.map(({ value }) => value)] as const] : [],
    ),
  );
}
