import { posix } from 'node:path';
import { keepFirst } from '../model/group-by.ts';
import type { PortRange } from '../model/port-range.ts';
import { makeError, type Problem } from '../model/problem.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import type { Profile } from '../model/profile.ts';
import { attempt } from '../model/result.ts';
import type { Action } from '../model/rule.ts';
import { everyPort, type Protocol, protocols } from '../model/state.ts';
import { checkShape } from './check-shape.ts';
import { decodeConfiguration } from './decode-configuration.ts';
import { decodeRule, decodeRuleSet, readTime, readTimezone } from './decode-rule.ts';
import { type Decoding, getPlace, readName, readNetwork, readPorts, readUser, reportAt } from './decoding.ts';
import { apiVersion, type FileManifests, type Kind, kinds, type Manifest, refuseFile } from './manifest.ts';
import { findChild, findEntry, findScalar, type Node, type Reporter, type ScalarNode, type Words } from './node.ts';
import { parseFile } from './parse.ts';
import type { Work } from './read-tokens.ts';
import { didYouMean } from './suggest.ts';
import { findSuppressions } from './suppressions.ts';

/** What a manifest has at its top. */
export const fields = ['apiVersion', 'kind', 'metadata', 'spec'] as const;

/** What the manifests of a file depend on beside its path and content. */
export interface ReadOptions {
  readonly profile: Profile;
  /** Values for `${name}`; null leaves scalars as they are. */
  readonly values: ReadonlyMap<string, string> | null;
  /** Most documents in one file, and most that reading it may cost (`Work`). */
  readonly limits: { readonly documents: number; readonly fileWork: number };
}

/** Reads one file: its manifests and every problem that can be seen without the other files. */
export function readManifests(
  { path, bytes }: { readonly path: string; readonly bytes: Uint8Array },
  { profile, values, limits }: ReadOptions,
): FileManifests {
  const text = decodeText(bytes)?.replace(/^\uFEFF/, '') ?? null;
  if (text === null) return refuseFile(path, [describeNotUtf8(path, bytes)]);
  const work: Work = { spent: 0, most: limits.fileWork };
  const manifests: Manifest[] = [];
  const problems = parseFile({
    path,
    text,
    values,
    documents: limits.documents,
    work,
    fields,
    onDocument(root, reporter) {
      const manifest = readDocument(root, { reporter, profile });
      if (manifest !== null) manifests.push(manifest);
    },
  });
  const found = findSuppressions(path, text);
  return {
    path,
    manifests,
    // A fault in a set's defaults is met once for each of its rules; people read it once.
    problems: keepFirst(
      [...problems, ...found.problems],
      ({ code, place }) => `${code} ${place?.line} ${place?.column}`,
    ),
    suppressions: found.suppressions,
    work: work.spent,
  };
}

/** The bytes as text, a mark at its start included; null when they are not UTF-8. */
export function decodeText(bytes: Uint8Array): string | null {
  return attempt(() => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), null);
}

/** The problem of a file that is not UTF-8. The place is the first line that is no UTF-8: a faulty sequence of bytes never spans a line feed. */
function describeNotUtf8(file: string, bytes: Uint8Array): Problem {
  let line = 1;
  for (let start = 0; ; line++) {
    const end = bytes.indexOf(0x0a, start);
    if (end < 0 || decodeText(bytes.subarray(start, end)) === null) break;
    start = end + 1;
  }
  const hint = 'Save it as UTF-8, or give it another name if it is not a manifest.';
  return makeError('not-utf8', 'This file is not UTF-8 text.', hint, { file, line, column: 1 });
}

function readDocument(root: Node, decoding: Decoding): Manifest | null {
  const kind = kindOf(root, decoding.reporter);
  if (kind === null) return null;
  const misshapen = checkShape(kind, root);
  if (misshapen.length === 0) return decoders[kind](decoding, root);
  const { reporter } = decoding;
  for (const { problem, offset } of misshapen) reporter.add(problem, offset);
  const known = new Set(misshapen.map(({ offset }) => offset));
  const add: Reporter['add'] = (problem, offset) => {
    if (valueFault.test(problem.code) && !known.has(offset)) reporter.add(problem, offset);
  };
  if (withValues.has(kind)) decoders[kind]({ ...decoding, reporter: { ...reporter, add } }, root);
  return null;
}

/** Kinds whose values are looked at though the shape of the document is wrong. */
const withValues: ReadonlySet<Kind> = new Set(['Rule', 'RuleSet', 'Configuration', 'Network', 'PolicyTest']);

/** What is wrong with a value by itself, and does not only follow from the shape. */
const valueFault =
  /^(address-|port-(?!type-missing|range-missing)|invalid-|out-of-bounds|reserved-id|duplicate-|not-a-time|expires-first)/;

/** The document's kind, when it is a manifest of a known version and kind. */
function kindOf(root: Node, reporter: Reporter): Kind | null {
  const error = (code: ProblemCode, { summary, hint }: Words, node: Node = root): null => {
    reporter.add(makeError(code, summary, hint), node.start);
    return null;
  };
  const hasKind = findEntry(root, 'kind') !== undefined || findEntry(root, 'apiVersion') !== undefined;
  if (root.type !== 'map' || !hasKind) return error('not-a-manifest', explainNoManifest(root));
  const version = findChild(root, 'apiVersion');
  const hint = `Write \`apiVersion: ${apiVersion}\`.`;
  // What else is wrong is said with it.
  if (version === undefined) error('missing-field', { summary: 'The field `apiVersion` is missing.', hint });
  else if (version.type !== 'scalar' || version.value !== apiVersion)
    return error('unknown-version', { summary: 'This version of manifests is not known.', hint }, version);
  const kind = findChild(root, 'kind');
  const text = kind?.type === 'scalar' ? kind.text : '';
  const known = kinds.find((candidate) => candidate === text);
  if (known !== undefined) return known;
  const toType = didYouMean(text, kinds, `The kinds are ${kinds.join(', ')}.`);
  if (kind === undefined) return error('missing-field', { summary: 'The field `kind` is missing.', hint: toType });
  const summary = text === '' ? '`kind` names no kind.' : `There is no kind \`${text.slice(0, 40)}\`.`;
  return error('unknown-kind', { summary, hint: toType }, kind);
}

/** What a document without `apiVersion` and `kind` seems to be. */
function explainNoManifest(root: Node): Words {
  const start = `\`apiVersion: ${apiVersion}\` and \`kind: RuleSet\``;
  const [item] = root.type === 'seq' ? root.items : [];
  const fromApi = [findChild(root, 'data'), findEntry(item, 'inserted_at'), findEntry(root, 'inserted_at')];
  if (fromApi.some((found) => found !== undefined)) {
    return {
      summary: 'This is an answer of the API, not a manifest.',
      hint: 'Let `reconcile export --out DIRECTORY` write manifests of what the server has.',
    };
  }
  if (root.type === 'seq') {
    return {
      summary: 'This document is a list, and a manifest is a mapping.',
      hint: `Start it with ${start}, and put the list under \`spec: {rules: …}\`; each rule needs a \`name\`.`,
    };
  }
  return {
    summary: '`apiVersion` and `kind` are missing here.',
    hint: `Start the document with ${start}, or move the file out of the directory if it is not a manifest.`,
  };
}

const decoders: Readonly<Record<Kind, (decoding: Decoding, root: Node) => Manifest>> = {
  Rule: decodeRule,
  RuleSet: decodeRuleSet,
  Users: decodeUsersManifest,
  Group: decodeGroup,
  Network: decodeNetwork,
  PolicyTest: decodePolicyTest,
  Overlay: decodeOverlay,
  Configuration: decodeConfiguration,
};

function decodeUsersManifest(decoding: Decoding, root: Node): Manifest {
  const spec = findChild(root, 'spec');
  const users = (spec?.type === 'map' ? spec.entries : []).map((entry) => ({
    name: entry.key.includes('@') ? entry.key.toLowerCase() : entry.key,
    id: (entry.value as ScalarNode).text.toLowerCase(),
    place: decoding.reporter.place(entry.keyStart),
  }));
  return { kind: 'Users', ...readName(decoding, root), users };
}

function decodeGroup(decoding: Decoding, root: Node): Manifest {
  const members = itemsOf(findChild(findChild(root, 'spec'), 'members')).map((node) => readUser(decoding, node));
  return { kind: 'Group', ...readName(decoding, root), members };
}

function decodeNetwork(decoding: Decoding, root: Node): Manifest {
  const networks = itemsOf(findChild(findChild(root, 'spec'), 'cidrs')).flatMap((node) => {
    const network = readNetwork(decoding, node);
    return network === null ? [] : [{ value: network, place: getPlace(decoding, node) }];
  });
  return { kind: 'Network', ...readName(decoding, root), networks };
}

function decodePolicyTest(decoding: Decoding, root: Node): Manifest {
  const named = readName(decoding, root);
  const written = findChild(findChild(root, 'spec'), 'cases');
  const items = written?.type === 'seq' ? written.items : [];
  const timezone = readTimezone(decoding, root);
  const nameOf = (index: number): string => `${named.name}/${index + 1}`;
  const cases = items.flatMap((node, index) => decodeCase(decoding, node, nameOf(index), timezone) ?? []);
  return { kind: 'PolicyTest', ...named, cases };
}

function decodeCase(decoding: Decoding, node: Node, fallbackName: string, timezone: string) {
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
    user: user === undefined ? null : user.text === 'any' ? ('any' as const) : readUser(decoding, user),
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
function decodeOverlay(decoding: Decoding, root: Node): Manifest {
  const named = readName(decoding, root);
  const spec = findChild(root, 'spec');
  const bases = itemsOf(findChild(spec, 'bases')).flatMap((node) => {
    const value = resolveDirectory(named.place.file, node.text);
    if (value !== null) return { value, place: getPlace(decoding, node) };
    const summary = 'This directory is outside the manifest root.';
    const hint = 'Name a directory below the PATH that reconcile is given, relative to this file.';
    return reportAt(decoding, node, makeError('outside-root', summary, hint)) ?? [];
  });
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
