import { posix } from 'node:path';
import type { PortRange } from '../model/port-range.ts';
import { makeError } from '../model/problem.ts';
import type { Action } from '../model/rule.ts';
import { everyPort, type Protocol, protocols } from '../model/state.ts';
import { readTime, readTimezone } from './decode-notes.ts';
import { type Decoding, getPlace, readName, readNetwork, readPorts, readUser, reportAt } from './decoding.ts';
import type {
  GroupManifest,
  NetworkManifest,
  OverlayManifest,
  PolicyCaseTemplate,
  PolicyTestManifest,
  UsersManifest,
  Written,
} from './manifest.ts';
import { findChild, findScalar, type Node, type ScalarNode } from './node.ts';

export function decodeUsersManifest(decoding: Decoding, root: Node): UsersManifest {
  const spec = findChild(root, 'spec');
  const users = (spec?.type === 'map' ? spec.entries : []).map((entry) => ({
    name: entry.key.includes('@') ? entry.key.toLowerCase() : entry.key,
    id: (entry.value as ScalarNode).text.toLowerCase(),
    place: decoding.reporter.place(entry.keyStart),
  }));
  return { kind: 'Users', ...readName(decoding, root), users };
}

export function decodeGroup(decoding: Decoding, root: Node): GroupManifest {
  const members = itemsOf(findChild(findChild(root, 'spec'), 'members')).map((node) => readUser(decoding, node));
  return { kind: 'Group', ...readName(decoding, root), members };
}

export function decodeNetwork(decoding: Decoding, root: Node): NetworkManifest {
  const networks = itemsOf(findChild(findChild(root, 'spec'), 'cidrs')).flatMap((node) => {
    const network = readNetwork(decoding, node);
    return network === null ? [] : [{ value: network, place: getPlace(decoding, node) }];
  });
  return { kind: 'Network', ...readName(decoding, root), networks };
}

export function decodePolicyTest(decoding: Decoding, root: Node): PolicyTestManifest {
  const named = readName(decoding, root);
  const written = findChild(findChild(root, 'spec'), 'cases');
  const items = written?.type === 'seq' ? written.items : [];
  const timezone = readTimezone(decoding, root);
  const nameOf = (index: number): string => `${named.name}/${index + 1}`;
  const cases = items.flatMap((node, index) => decodeCase(decoding, node, nameOf(index), timezone) ?? []);
  return { kind: 'PolicyTest', ...named, cases };
}

function decodeCase(decoding: Decoding, node: Node, fallbackName: string, timezone: string): PolicyCaseTemplate | null {
  const protocol = findScalar(node, 'protocol')?.text;
  const destinationNode = findChild(node, 'destination');
  const destination = destinationNode === undefined ? null : readNetwork(decoding, destinationNode);
  const ports = casePorts(decoding, findScalar(node, 'port'), protocol);
  const at = readTime(decoding, findScalar(node, 'at'), { field: 'at', timezone });
  if (destination === null || ports === null) return null;
  const user = findScalar(node, 'user');
  return {
    name: findScalar(node, 'name')?.text ?? fallbackName,
    place: getPlace(decoding, node),
    user: user === undefined ? null : user.text === 'any' ? 'any' : readUser(decoding, user),
    destination,
    protocols: protocol === undefined ? protocols : [protocol as Protocol],
    ports,
    expect: (findScalar(node, 'expect')?.text ?? 'accept') as Action,
    always: findScalar(node, 'always')?.value === true,
    ...(at === undefined ? {} : { at }),
  };
}

/** The ports of a case, all of them where it names none; null, and a problem, when it names none that can be. */
function casePorts(decoding: Decoding, node: ScalarNode | undefined, protocol: string | undefined): PortRange | null {
  if (node === undefined) return everyPort;
  const ports = readPorts(decoding, node, everyPort);
  if (ports === null || protocol === 'tcp' || protocol === 'udp') return ports;
  const summary = 'A case with a `port` needs `protocol: tcp` or `protocol: udp`.';
  const hint = 'Write one case for each protocol.';
  return reportAt(decoding, node, makeError('port-without-protocol', summary, hint));
}

/** Decodes a `kind: Overlay` of checked shape; its bases become directories relative to the manifest root. */
export function decodeOverlay(decoding: Decoding, root: Node): OverlayManifest {
  const named = readName(decoding, root);
  const spec = findChild(root, 'spec');
  const bases: Written<string>[] = [];
  for (const node of itemsOf(findChild(spec, 'bases'))) {
    const base = resolveDirectory(named.place.file, node.text);
    if (base === null) {
      const hint = 'Name a directory below the PATH that reconcile is given, relative to this file.';
      reportAt(decoding, node, makeError('outside-root', 'This directory is outside the manifest root.', hint));
    } else bases.push({ value: base, place: getPlace(decoding, node) });
  }
  const remove = itemsOf(findChild(spec, 'remove')).map((one) => ({ value: one.text, place: getPlace(decoding, one) }));
  return { kind: 'Overlay', ...named, bases, remove };
}

function resolveDirectory(file: string, path: string): string | null {
  const directory = posix.join(posix.dirname(file), path).replace(/(.)\/$/, '$1');
  const isOutside = path.startsWith('/') || path.includes('\\') || /^\.\.(?:\/|$)/.test(directory);
  return isOutside ? null : directory;
}

function itemsOf(node: Node | undefined): readonly ScalarNode[] {
  return node?.type === 'seq' ? node.items.filter((item): item is ScalarNode => item.type === 'scalar') : [];
}
