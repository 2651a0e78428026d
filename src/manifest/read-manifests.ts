import { keepFirst } from '../model/group-by.ts';
import { makeError, type Problem } from '../model/problem.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import type { Profile } from '../model/profile.ts';
import { attempt } from '../model/result.ts';
import { checkShape } from './check-shape.ts';
import { decodeConfiguration } from './decode-configuration.ts';
import { decodeGroup, decodeNetwork, decodeOverlay, decodePolicyTest, decodeUsersManifest } from './decode-other.ts';
import { decodeRule, decodeRuleSet } from './decode-rule.ts';
import type { Decoding } from './decoding.ts';
import { apiVersion, type FileManifests, type Kind, kinds, type Manifest, refuseFile } from './manifest.ts';
import { findChild, findEntry, type Node, type Reporter, type Words } from './node.ts';
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
