import { type Network, parseNetwork } from '../../model/address.ts';
import { computeReach, restrictTraffic, selectTraffic, type TrafficSelector } from '../../policy/reach.ts';
import { renderDocument } from '../../report/json.ts';
import {
  makeReachMembers,
  type ReachQuestion,
  renderTableText,
  type Table,
  tellMatrix,
  tellReachOf,
  tellWhoReaches,
} from '../../report/reach.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { parseProtocol } from '../explain-question.ts';
import { findNamedUser, loadSubject, type Subject } from '../explain-subject.ts';
import { makeFailure } from '../failure.ts';
import { readPathOperand } from '../path-operand.ts';

/**
 * `reconcile reach PATH`: what people can reach. `--user`: everything that they can and cannot; `--destination`: who can reach it;
 * neither: each user against each network that the manifests name. Of the manifests' rules, or with `--live` of the server's.
 */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  readPathOperand(invocation, 'reach');
  const subject = await loadSubject(invocation);
  const rules = subject.rules.map(({ rule }) => rule);
  const question: ReachQuestion = {
    reach: computeReach(rules),
    names: subject.userNames,
    groups: subject.built?.state?.groups ?? new Map(),
    withRules: new Set(rules.flatMap(({ userId }) => userId ?? [])),
  };
  const { table, members } = answerTo(invocation, question, subject);
  return {
    exit: exitCodes.ok,
    text: ({ width }) => renderTableText(table, width),
    table: () => table,
    report: () => ({ ...makeProblemReport(subject.problems), headline: titleOf(settings) }),
    document: () => renderDocument(members, subject.problems),
  };
}

function titleOf({ user, destination }: Invocation['settings']): string {
  if (user.length > 0) return `What ${user.join(', ')} can reach`;
  return destination === null ? 'Who can reach what' : `Who can reach ${destination}`;
}

interface Told {
  readonly table: Table;
  readonly members: Readonly<Record<string, unknown>>;
}

function answerTo({ settings }: Invocation, question: ReachQuestion, subject: Subject): Told {
  const { user, destination } = settings;
  if (user.length > 0 && destination !== null)
    throw makeFailure(
      'usage',
      '--user and --destination are two questions',
      'ask one of them, or `reconcile explain` for one packet',
    );
  if (user.length > 0) {
    const users = new Set(user.flatMap((text) => [...(question.groups.get(text) ?? [findNamedUser(text, subject)])]));
    const sources = new Set([...users].map((one) => (question.withRules.has(one) ? one : null)));
    return {
      table: tellReachOf(question, user.join(', '), users),
      members: makeReachMembers(question, (traffic) => selectTraffic(traffic, sources)),
    };
  }
  if (destination !== null) {
    const part = partOf(settings);
    return {
      table: tellWhoReaches(question, part),
      members: makeReachMembers(question, (traffic) => restrictTraffic(traffic, part)),
    };
  }
  return {
    table: tellMatrix(question, networksIn(subject)),
    members: makeReachMembers(question, (traffic) => traffic),
  };
}

function partOf({ destination, protocol, port }: Invocation['settings']): TrafficSelector {
  const parsed = parseNetwork(destination ?? '');
  if (!parsed.ok)
    throw makeFailure('usage', `--destination ${destination} is no network`, 'such as 10.1.0.0/16 or 2001:db8::1');
  const kind = protocol === null ? null : parseProtocol(protocol);
  if (port !== null && kind !== 'tcp' && kind !== 'udp')
    throw makeFailure('usage', '--port goes with --protocol tcp or udp', 'other protocols know no ports');
  return { network: parsed.value.network, protocol: kind, ports: port === null ? null : { low: port, high: port } };
}

function networksIn({ built }: Subject): ReadonlyMap<string, readonly Network[]> {
  return new Map(
    (built?.manifests ?? []).flatMap((manifest) =>
      manifest.kind === 'Network' ? [[manifest.name, manifest.networks.map(({ value }) => value)] as const] : [],
    ),
  );
}
