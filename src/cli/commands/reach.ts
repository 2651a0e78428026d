import { type Network, parseNetwork } from '../../model/address.ts';
import { hasErrors } from '../../model/problem.ts';
import { computeReach, restrictTraffic, type TrafficSelector, trafficOfSources } from '../../policy/reach.ts';
import { otherDocument } from '../../report/json.ts';
import {
  type ReachQuestion,
  reachMembers,
  type Table,
  tableText,
  tellMatrix,
  tellReachOf,
  tellWhoReaches,
} from '../../report/reach.ts';
import type { Answer, Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { protocolOf } from '../explain-question.ts';
import { type Subject, subjectOf, userNamed } from '../explain-subject.ts';
import { Failure, failure } from '../failure.ts';
import { strictly } from '../manifests.ts';
import { buildOffline, type OfflineBuild } from '../offline.ts';
import { pathOperand } from '../path-operand.ts';

/**
 * `reconcile reach PATH`: what people can reach. `--user`: everything that they can and cannot; `--destination`: who can reach it;
 * neither: each user against each network that the manifests name. Of the manifests' rules, or with `--live` of the server's.
 */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const { path } = pathOperand(invocation, 'reach');
  const built = await buildOffline(invocation, path);
  const problems = strictly(built.problems, settings);
  if (built.state === null || hasErrors(problems)) throw new Failure(problems, exitCodes.invalid);
  const subject = await subjectOf(invocation);
  const rules = subject.rules.map(({ rule }) => rule);
  const question: ReachQuestion = {
    reach: computeReach(rules),
    names: subject.userNames,
    groups: built.state.groups ?? new Map(),
    withRules: new Set(rules.flatMap(({ userId }) => userId ?? [])),
  };
  const { table, members } = answerTo(invocation, question, { subject, built });
  return {
    exit: exitCodes.ok,
    text: () => tableText(table),
    table: () => table,
    document: () => otherDocument(members, problems),
  };
}

interface Told {
  readonly table: Table;
  readonly members: Readonly<Record<string, unknown>>;
}

function answerTo(
  { settings }: Invocation,
  question: ReachQuestion,
  { subject, built }: { readonly subject: Subject; readonly built: OfflineBuild },
): Told {
  const { user, destination } = settings;
  if (user.length > 0 && destination !== null)
    throw failure(
      'usage',
      '--user and --destination are two questions',
      'ask one of them, or `reconcile explain` for one packet',
    );
  if (user.length > 0) {
    const users = new Set(user.flatMap((text) => [...(question.groups.get(text) ?? [userNamed(text, subject)])]));
    const sources = new Set([...users].map((one) => (question.withRules.has(one) ? one : null)));
    return {
      table: tellReachOf(question, user.join(', '), users),
      members: reachMembers(question, (traffic) => trafficOfSources(traffic, sources)),
    };
  }
  if (destination !== null) {
    const part = partOf(settings);
    return {
      table: tellWhoReaches(question, part),
      members: reachMembers(question, (traffic) => restrictTraffic(traffic, part)),
    };
  }
  return { table: tellMatrix(question, networksIn(built)), members: reachMembers(question, (traffic) => traffic) };
}

function partOf({ destination, protocol, port }: Invocation['settings']): TrafficSelector {
  const parsed = parseNetwork(destination ?? '');
  if (!parsed.ok)
    throw failure('usage', `--destination ${destination} is no network`, 'such as 10.1.0.0/16 or 2001:db8::1');
  const kind = protocol === null ? null : protocolOf(protocol);
  if (port !== null && kind !== 'tcp' && kind !== 'udp')
    throw failure('usage', '--port goes with --protocol tcp or udp', 'other protocols know no ports');
  return { network: parsed.value.network, protocol: kind, ports: port === null ? null : { low: port, high: port } };
}

function networksIn({ manifests }: OfflineBuild): ReadonlyMap<string, readonly Network[]> {
  return new Map(
    manifests.flatMap((manifest) =>
      manifest.kind === 'Network' ? [[manifest.name, manifest.networks.map(({ value }) => value)] as const] : [],
    ),
  );
}
