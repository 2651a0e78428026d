import type { Alias, Document, ParsedNode, YAMLMap } from 'yaml';
import { CST, isMap, isScalar, isSeq, Lexer, parseAllDocuments, Scalar, visit } from 'yaml';
import { compareProblems, makeError } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { addExcerpts } from './excerpt.ts';
import { formatPlain, orderFields, type Path, respell } from './format-plain.ts';
import { type Kind, kinds } from './manifest.ts';
import { findChild, findScalar, type MapNode, type Node } from './node.ts';
import { parseFile } from './parse.ts';
import { decodeText, fields, readManifests } from './read-manifests.ts';
import { defaultFileWork } from './read-tokens.ts';
import { escapeUnseen, unseen } from './write.ts';

/**
 * Brings a manifest file to canonical spelling (addresses, ports, UUIDs, quotes that YAML 1.1 readers need) and order
 * (fields as in the reference; lists keep theirs), comments kept. Formatting twice changes nothing more. A file with
 * errors is left alone, and so is one that would mean something else afterwards: `text` is null, and `problems` say why. `left`: what
 * formatting must not decide. `before`: the text before, null when it is not UTF-8.
 */
export function formatFile(path: string, bytes: Uint8Array, profile: Profile) {
  const before = decodeText(bytes);
  const text = (before ?? '').replace(/^\uFEFF/, '');
  const read = readManifests({ path, bytes }, { profile, values: null, limits });
  const problems = addExcerpts(read.problems, () => text);
  // A file with `${name}` in it need not mean anything before values are put in: it only has to be YAML.
  const errors = text.includes('${')
    ? addExcerpts(readRoots(path, text).problems, () => text)
    : problems.filter(({ severity }) => severity === 'error');
  if (errors.length > 0) return { before, text: null, problems: errors.toSorted(compareProblems), left: [] };
  const formatted = formatFully(text);
  // What is as it was means what it did: nothing is read again.
  if (formatted !== text && !isSame(readRoots(path, text).roots, readRoots(path, formatted).roots)) {
    const summary = 'This file was left alone: formatting it would change what it means.';
    const hint = 'Format it by hand, and report this with the file.';
    const problem = makeError('not-formatted', summary, hint, { file: path, line: 1, column: 1 });
    return { before, text: null, problems: [problem], left: [] };
  }
  return { before, text: formatted, problems: [], left: problems.filter(({ code }) => code === 'host-bits') };
}

const limits = { documents: 1_000_000, fileWork: defaultFileWork };

/** The content of each document. */
function readRoots(path: string, text: string) {
  const roots: Node[] = [];
  const onDocument = (root: Node): void => void roots.push(root);
  return { problems: parseFile({ path, text, values: null, fields, documents: limits.documents, onDocument }), roots };
}

/** Whether documents have the same fields, in any order, and the same values, or their canonical spelling. */
function isSame(before: readonly Node[], after: readonly Node[]): boolean {
  if (before.length !== after.length) return false;
  return before.every((root, index) => {
    const kind = kinds.find((one) => one === findScalar(root, 'kind')?.text);
    return isAlike(root, after[index], kind, []);
  });
}

function isAlike(before: Node, after: Node | undefined, kind: Kind | undefined, path: Path): boolean {
  if (before.type === 'map') return after?.type === 'map' && hasSameFields(before, after, kind, path);
  if (before.type === 'seq') {
    if (after?.type !== 'seq' || after.items.length !== before.items.length) return false;
    return before.items.every((item, index) => isAlike(item, after.items[index], kind, [...path, index]));
  }
  if (after?.type !== 'scalar') return false;
  // The library writes a whole number without leading zeros.
  const isSameText = before.text === after.text || Number.isInteger(before.value);
  if (isSameText && before.value === after.value) return true;
  const canonical = kind === undefined ? null : respell(kind, path, before.text, before.value);
  return canonical !== null && canonical === after.value;
}

function hasSameFields(before: MapNode, after: MapNode, kind: Kind | undefined, path: Path): boolean {
  if (before.entries.length !== after.entries.length) return false;
  return before.entries.every(({ key, value }, index) => {
    const there = after.entries[index];
    const same = there?.key === key ? there.value : findChild(after, key);
    return isAlike(value, same, kind, [...path, key]);
  });
}

/** Rounds after which it is given up that nothing changes any more; two have always done. */
const mostRounds = 8;

/** A comment that follows a moved field may count as another field's when it is read again: so it is, until it stays. */
function formatFully(text: string): string {
  let formatted = formatText(text);
  // Only comments and empty lines go elsewhere when a field moves.
  if (formatted === text || !/#|\n[ \t\r]*\n/.test(text)) return formatted;
  for (let round = 1; round < mostRounds; round++) {
    const again = formatText(formatted);
    if (again === formatted) break;
    formatted = again;
  }
  return formatted;
}

function formatText(text: string): string {
  return formatPlain(text) ?? formatByLibrary(text);
}

/** Formats by the YAML library, which knows every form. */
export function formatByLibrary(text: string): string {
  const documents = parseAllDocuments(text.replaceAll('\r\n', '\n'), { compat: 'yaml-1.1', uniqueKeys: false });
  // What the first round wrote may be no YAML, after a lone carriage return in a comment: it is left to the comparison of contents.
  if (!Array.isArray(documents) || documents.some(({ errors }) => errors.length > 0)) return text;
  const written = documents
    .map((document) => formatDocument(document))
    .filter((one) => one.trim() !== '')
    .map((one) => one.replace(/\n*$/, '\n'));
  return keepEscapes(written.join('---\n'));
}

/** The library writes what nobody can see as it is; between double quotes it goes back to escapes. */
function keepEscapes(text: string): string {
  if (text.search(unseen) < 0) return text;
  let kept = '';
  for (const lexeme of new Lexer().lex(text)) {
    // Marks of the lexer itself; the text holds none, YAML does not allow them.
    if (lexeme === CST.DOCUMENT || lexeme === CST.FLOW_END || lexeme === CST.SCALAR) continue;
    kept += lexeme.startsWith('"') ? escapeUnseen(lexeme) : lexeme;
  }
  return kept;
}

function formatDocument(document: Document.Parsed): string {
  // Markers between documents are written by the caller; a marker before the first is not needed.
  document.directives.docStart = null;
  const { contents } = document;
  const isEmpty = contents === null || (isScalar(contents) && contents.value === null);
  if (isEmpty) {
    const comments = [document.commentBefore, contents?.commentBefore, contents?.comment, document.comment];
    return comments.map((one) => (one == null ? '' : `${one.replace(/^/gm, '#')}\n`)).join('');
  }
  const kind = isMap(contents) ? kinds.find((one) => one === String(contents.get('kind'))) : undefined;
  // Where there are aliases fields stay where they are: an alias must come after its anchor.
  const aliases: Alias[] = [];
  visit(document, { Alias: (_, alias) => void aliases.push(alias) });
  if (kind !== undefined) respellAll(contents, kind, aliases.length === 0, []);
  return document.toString({ lineWidth: 0, flowCollectionPadding: false, indentSeq: true });
}

/** Respells scalars, and with `ordered` brings the fields of mappings into order, depth first. */
function respellAll(node: ParsedNode | null, kind: Kind, ordered: boolean, path: Path): void {
  if (isSeq(node)) {
    for (const [index, item] of node.items.entries()) respellAll(item as ParsedNode, kind, ordered, [...path, index]);
  } else if (isMap(node)) {
    if (ordered) order(node as YAMLMap.Parsed, kind, path);
    for (const pair of node.items) {
      const key = isScalar(pair.key) ? String(pair.key.value) : '';
      respellAll(pair.value as ParsedNode | null, kind, ordered, [...path, key]);
    }
  } else if (isScalar(node)) respellScalar(node, kind, path);
}

function order(map: YAMLMap.Parsed, kind: Kind, path: Path): void {
  // The parser gives a comment above the first field to the whole mapping; it goes where its field goes. Above an item it stays.
  const [first] = map.items;
  if (map.commentBefore && isScalar(first?.key) && typeof path.at(-1) === 'string') {
    first.key.commentBefore = map.commentBefore;
    delete map.commentBefore;
  }
  map.items = [...orderFields(kind, path, map.items, ({ key }) => (isScalar(key) ? String(key.value) : ''))];
  // An empty line above what is the first field now would part it from the dash of its item.
  const [top] = map.items;
  if (isScalar(top?.key)) delete top.key.spaceBefore;
}

/** Canonical spelling of one scalar; quotes written by hand go where they are not needed. */
function respellScalar(node: Scalar, kind: Kind, path: Path): void {
  const canonical = respell(kind, path, String(node.source ?? node.value), node.value);
  if (canonical === null || (typeof canonical === 'string' && node.value === canonical)) return;
  node.value = canonical;
  // What ends in a colon or begins with one is quoted by the writer.
  node.type = Scalar.PLAIN;
  if (typeof canonical === 'number') delete node.source;
}
