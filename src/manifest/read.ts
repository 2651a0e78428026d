import type { Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { checkShape } from './check.ts';
import type { Decoding } from './decode.ts';
import { decodeConfiguration } from './decode-configuration.ts';
import { decodeGroup, decodeNetwork, decodeOverlay, decodePolicyTest, decodeUsersManifest } from './decode-other.ts';
import { decodeRule, decodeRuleSet } from './decode-rule.ts';
import { apiVersion, type FileManifests, type Kind, kinds, type Manifest } from './manifest.ts';
import { entryOf, type Node, scalarOf, toPlain } from './node.ts';
import { parseFile } from './parse.ts';
import type { Reporter } from './reporter.ts';
import { didYouMean } from './suggest.ts';
import { findSuppressions } from './suppressions.ts';

export interface ReadRequest {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly profile: Profile;
  /** Values for `${name}`; null leaves scalars as they are. */
  readonly values: ReadonlyMap<string, string> | null;
  /** Most documents in one file. */
  readonly documents: number;
}

/** Reads one file: its manifests and every problem that can be seen without the other files. */
export function readManifests(request: ReadRequest): FileManifests {
  const { path, profile, values } = request;
  const text = decodeText(request.bytes);
  if (text === null) return { path, manifests: [], problems: [notUtf8(path, request.bytes)], suppressions: [] };
  const manifests: Manifest[] = [];
  let documents = 0;
  const problems = parseFile({
    path,
    text,
    values,
    fields: ['apiVersion', 'kind', 'metadata', 'spec'],
    onDocument({ root }, reporter) {
      documents++;
      if (documents === request.documents + 1) reporter.add(tooManyDocuments(request.documents), root.start);
      if (documents > request.documents) return;
      const manifest = readDocument(root, { reporter, profile });
      if (manifest !== null) manifests.push(manifest);
    },
  });
  const found = findSuppressions(path, text);
  return {
    path,
    manifests,
    problems: withoutRepeats([...problems, ...found.problems]),
    suppressions: found.suppressions,
  };
}

function decodeText(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The place is the first line that is no UTF-8: a faulty sequence of bytes never spans a line feed. */
function notUtf8(file: string, bytes: Uint8Array): Problem {
  let line = 1;
  for (let start = 0; ; line++) {
    const end = bytes.indexOf(0x0a, start);
    if (end < 0 || decodeText(bytes.subarray(start, end)) === null) break;
    start = end + 1;
  }
  return {
    code: 'not-utf8',
    severity: 'error',
    summary: 'This file is not UTF-8 text.',
    hint: 'Save it as UTF-8, or give it another name if it is no manifest.',
    place: { file, line, column: 1 },
  };
}

function tooManyDocuments(limit: number): Omit<Problem, 'place'> {
  return {
    code: 'too-many-documents',
    severity: 'error',
    summary: `This file has more than ${limit} documents.`,
    hint: 'Split it, use RuleSets, or raise the limit in the settings.',
  };
}

function readDocument(root: Node, decoding: Decoding): Manifest | null {
  const kind = kindOf(root, decoding.reporter);
  if (kind === null) return null;
  const before = decoding.reporter.problems.length;
  const misshapen = checkShape(kind, root, toPlain(root));
  for (const { problem, offset } of misshapen) decoding.reporter.add(problem, offset);
  if (decoding.reporter.problems.length === before) return decode(kind, root, decoding);
  if (kind === 'Rule' || kind === 'RuleSet' || kind === 'Configuration') reportValues(kind, root, decoding);
  return null;
}

/** What is wrong with a value by itself, whatever else is wrong with the document. */
const valueFault = /^(address-|port-(?!type-missing|range-missing)|invalid-|out-of-bounds|reserved-id|duplicate-)/;

/**
 * Reports the faulty values of a document whose shape is wrong too, so that one run shows both. Decoding it may also report
 * what only follows from its shape: a field that is misspelt is not missing.
 */
function reportValues(kind: Kind, root: Node, decoding: Decoding): void {
  const { reporter, profile } = decoding;
  const reported = reporter.problems.length;
  decode(kind, root, { reporter: { ...reporter, add: addValueFault }, profile });

  function addValueFault(...[problem, offset]: Parameters<Reporter['add']>): void {
    const place = reporter.locator.place(offset);
    const known = reporter.problems
      .slice(0, reported)
      .some((other) => other.place?.line === place.line && other.place.column === place.column);
    if (valueFault.test(problem.code) && !known) reporter.add(problem, offset);
  }
}

/** The document's kind, when it is a manifest of a known version and kind. */
function kindOf(root: Node, reporter: Reporter): Kind | null {
  const error = (problem: Omit<Problem, 'place' | 'severity'>, node: Node | undefined): null => {
    reporter.add({ severity: 'error', ...problem }, node?.start ?? root.start);
    return null;
  };
  if (root.type !== 'map' || (entryOf(root, 'kind') === undefined && entryOf(root, 'apiVersion') === undefined)) {
    return error(
      {
        code: 'not-a-manifest',
        summary: 'This document is no manifest: it has no `apiVersion` and no `kind`.',
        hint: `Begin it with \`apiVersion: ${apiVersion}\` and \`kind: Rule\`, or move the file out of the directory.`,
      },
      undefined,
    );
  }
  const version = scalarOf(root, 'apiVersion');
  if (version?.value !== apiVersion) {
    return error(
      {
        code: version === undefined ? 'missing-field' : 'unknown-version',
        summary:
          version === undefined ? 'The field `apiVersion` is missing.' : 'This version of manifests is not known.',
        hint: `Write \`apiVersion: ${apiVersion}\`.`,
      },
      version,
    );
  }
  const kind = scalarOf(root, 'kind');
  const known = kinds.find((candidate) => candidate === kind?.value);
  if (known !== undefined) return known;
  return error(
    {
      code: kind === undefined ? 'missing-field' : 'unknown-kind',
      summary: kind === undefined ? 'The field `kind` is missing.' : `There is no kind \`${kind.text.slice(0, 40)}\`.`,
      hint: didYouMean(kind?.text ?? '', kinds, `The kinds are ${kinds.join(', ')}.`),
    },
    kind,
  );
}

function decode(kind: Kind, root: Node, decoding: Decoding): Manifest {
  switch (kind) {
    case 'Rule':
      return decodeRule(decoding, root);
    case 'RuleSet':
      return decodeRuleSet(decoding, root);
    case 'Users':
      return decodeUsersManifest(decoding, root);
    case 'Group':
      return decodeGroup(decoding, root);
    case 'Network':
      return decodeNetwork(decoding, root);
    case 'PolicyTest':
      return decodePolicyTest(decoding, root);
    case 'Overlay':
      return decodeOverlay(decoding, root);
    case 'Configuration':
      return decodeConfiguration(decoding, root);
  }
}

/** A fault in a set's defaults is met once for each of its rules; people read it once. */
function withoutRepeats(problems: readonly Problem[]): readonly Problem[] {
  const seen = new Set<string>();
  return problems.filter(({ code, place }) => {
    const key = `${code} ${place?.line} ${place?.column}`;
    return seen.size < seen.add(key).size;
  });
}
