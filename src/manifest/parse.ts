import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  Parser,
  Scalar,
} from 'yaml';
import type { Problem } from '../model/problem.ts';
import { createExcerpts } from './excerpt.ts';
import { createLocator, type Entry, type Locator, type Node, type ScalarNode } from './node.ts';
import { substitute, typedScalar } from './scalar.ts';
import { suggest } from './suggest.ts';
import { describeYamlFault } from './yaml-faults.ts';

/** Deepest nesting of collections; manifests need six. */
const deepest = 64;
/** Most values that a document may have once its aliases are followed (an alias bomb has billions). */
const mostValues = 2_000_000;
/** Syntax errors reported for one file; what follows the first few is mostly their echo. */
const mostSyntaxErrors = 5;
/** Problems after which the rest of a file is not read: nobody reads more. */
const mostProblems = 1_000;
/** Keys whose direct scalar may be a secret: never substituted, never quoted. */
const secretKeys: ReadonlySet<string> = new Set(['client_secret', 'metadata']);

/** Collects the problems of one file. Warnings and notes may be switched off later; errors may not. */
export interface Reporter {
  readonly locator: Locator;
  /** Adds a problem at an offset, with the line for the caret where that is safe. */
  add(problem: Omit<Problem, 'place' | 'excerpt'>, offset: number): void;
  readonly problems: Problem[];
}

/** One YAML document of a file. */
export interface ParsedDocument {
  readonly root: Node;
}

export interface ParseRequest {
  /** Path of the file relative to the manifest root. */
  readonly path: string;
  readonly text: string;
  /** Values for `${name}`; null leaves scalars as they are. */
  readonly values: ReadonlyMap<string, string> | null;
  /** The fields that a document may have at its top; a long document with another is not read to its end. */
  readonly fields?: readonly string[];
  /** Called with each document that has content and no error, in order; documents are not kept. */
  readonly onDocument: (document: ParsedDocument, reporter: Reporter) => void;
}

/**
 * Parses a file's documents one at a time (YAML 1.2, core schema). Invalid YAML, duplicate keys, unknown tags, other YAML
 * versions, `__proto__`, unsafe integers, alias bombs and endless nesting are problems.
 */
export function parseFile(request: ParseRequest): readonly Problem[] {
  const lines = new LineCounter();
  const locator = createLocator(request.path, request.text, lines.lineStarts);
  const excerpt = createExcerpts(request.text, (line) => locator.line(line));
  const problems: Problem[] = [];
  let yamlIsBroken = false;
  const reporter: Reporter = {
    locator,
    problems,
    add(problem, offset) {
      const place = locator.place(offset);
      const line = excerpt(place.line, yamlIsBroken);
      problems.push({ ...problem, place, ...(line === undefined ? {} : { excerpt: line }) });
    },
  };
  try {
    for (const document of composed(request, lines)) {
      yamlIsBroken = document.errors.length > 0;
      const root = convert(document, { reporter, values: request.values, text: request.text });
      yamlIsBroken = false;
      if (root !== null) request.onDocument({ root }, reporter);
      if (problems.length > mostProblems) throw new Unread(tooManyProblems, document.range[2]);
    }
  } catch (error) {
    if (error instanceof Unread) {
      yamlIsBroken = true; // for all that is known: the line is not shown
      reporter.add(error.problem, error.offset);
      return problems;
    }
    // The parser recurses; nesting that exhausts the stack ends here.
    if (!(error instanceof RangeError)) throw error;
    reporter.add(tooDeep, 0);
  }
  return problems;
}

const bareReference = {
  code: 'invalid-yaml',
  severity: 'error',
  summary: 'This is not valid YAML. Inside `{…}` and `[…]` a brace begins a mapping, after a `$` too.',
  hint: 'Put the text with the reference to a value in quotes.',
} as const;

const tooDeep = {
  code: 'too-deep',
  severity: 'error',
  summary: 'Collections are nested too deeply.',
  hint: `A manifest nests at most ${deepest} levels.`,
} as const;

const aList = {
  code: 'not-a-manifest',
  severity: 'error',
  summary: 'This document is a list, not a manifest; the rest of the file was not read.',
  hint: 'A manifest begins with `apiVersion: firezone/v0` and `kind: Rule`; move the file out of the directory if it is none.',
} as const;

const tooLong = {
  code: 'too-expensive',
  severity: 'error',
  summary: 'This document is too long to be read at once; the rest of the file was not read.',
  hint: 'Split it into several documents (`---`) or files; 60,000 rules of a set fit into one document.',
} as const;

const tooManyDirectives = {
  code: 'too-expensive',
  severity: 'error',
  summary: 'This file has hundreds of directives (lines that begin with `%`); the rest of it was not read.',
  hint: 'Remove them: manifests need none.',
} as const;

const tooManyProblems = {
  code: 'too-many-problems',
  severity: 'error',
  summary: `More than ${mostProblems.toLocaleString('en')} problems; the rest of the file was not read.`,
  hint: 'Mend the first ones, or move the file out of the directory if it is no manifest.',
} as const;

/** The documents of a text, with line starts collected in `lines`. */
function composed({ text, fields }: ParseRequest, lines: LineCounter): Iterable<Document.Parsed> {
  const composer = new Composer({
    version: '1.2',
    schema: 'core',
    merge: false,
    resolveKnownTags: false,
    // Quadratic in the library; checked below instead.
    uniqueKeys: false,
    stringKeys: true,
    // Pretty errors quote the source.
    prettyErrors: false,
  });
  return composer.compose(documentTokens(text, fields, lines), false, text.length);
}

/** After so many lexemes of a document its root is looked at: what cannot be a manifest is not read to its end. */
const lexemesToLook = 1_000;
/** Most lexemes of one document; a rule has about 44, and the parser takes about 200 bytes and 2 µs for each. */
const mostLexemes = 3_000_000;

/** Directives in one file; the parser keeps what is wrong with each. */
const mostDirectives = 200;
/** Items of a root that are looked at; a manifest has four. */
const mostItems = 64;

/** What the parser makes of a text, until a long document turns out to be no manifest, or too long for one. */
function* documentTokens(
  text: string,
  fields: readonly string[] | undefined,
  lines: LineCounter,
): Generator<CST.Token> {
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  let lexemes = 0;
  let directives = 0;
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) {
      lexemes = 0;
      if (token.type === 'directive' && ++directives > mostDirectives)
        throw new Unread(tooManyDirectives, token.offset);
      yield token;
    }
    lexemes++;
    if (lexemes % lexemesToLook === 0) lookAt(parser.stack[1], lexemes, fields);
  }
  yield* parser.end();
}

/** Ends the reading of a file whose long document is no manifest. `root` is as far as it was parsed. */
function lookAt(root: CST.Token | undefined, lexemes: number, fields: readonly string[] | undefined): void {
  if (root === undefined) return;
  if (root.type === 'block-seq' || (root.type === 'flow-collection' && root.start.source === '[')) {
    throw new Unread(aList, root.offset);
  }
  if (lexemes > mostLexemes) throw new Unread(tooLong, root.offset);
  if (fields === undefined || (root.type !== 'block-map' && root.type !== 'flow-collection')) return;
  // A key is complete once its colon is there; comments may stand as items without either.
  const complete = root.items.slice(0, mostItems).filter(({ sep }) => sep !== undefined && sep.length > 0);
  for (const [index, { key = null }] of complete.entries()) {
    if (index < fields.length && key !== null && isAmong(key, fields)) continue;
    throw new Unread(noField(key, fields), key?.offset ?? root.offset);
  }
}

/** A quoted key is compared when it is resolved. */
function isAmong(key: CST.Token, fields: readonly string[]): boolean {
  if (key.type === 'double-quoted-scalar' || key.type === 'single-quoted-scalar') return true;
  return key.type === 'scalar' && fields.includes(key.source);
}

function noField(key: CST.Token | null, fields: readonly string[]): Omit<Problem, 'place' | 'excerpt'> {
  const written = key?.type === 'scalar' ? key.source : null;
  // Misplaced text may be a piece of a secret: only what resembles a field is quoted.
  const resembles = written !== null && suggest(written, fields) !== null;
  const name =
    written !== null && fields.includes(written)
      ? 'each field once'
      : `no ${resembles ? `field \`${written}\`` : 'such field'} at its top`;
  return {
    code: 'not-a-manifest',
    severity: 'error',
    summary: `A manifest has ${name}; the rest of the file was not read.`,
    hint: `It has ${fields.map((field) => `\`${field}\``).join(', ')}; move the file out of the directory if it is none.`,
  };
}

/** Ends the reading of a file. */
class Unread extends Error {
  readonly problem: Omit<Problem, 'place' | 'excerpt'>;
  readonly offset: number;

  constructor(problem: Omit<Problem, 'place' | 'excerpt'>, offset: number) {
    super(problem.summary);
    this.problem = problem;
    this.offset = offset;
  }
}

interface Conversion {
  readonly text: string;
  readonly reporter: Reporter;
  readonly values: ReadonlyMap<string, string> | null;
}

function convert(document: Document.Parsed, conversion: Conversion): Node | null {
  const { reporter, text } = conversion;
  const before = reporter.problems.length;
  for (const error of document.errors.slice(0, mostSyntaxErrors)) {
    const [offset] = error.pos;
    if (text.startsWith('${', offset - 1)) {
      // The rest of the document's errors follow from this one.
      reporter.add(bareReference, offset - 1);
      break;
    }
    if (error.code === 'RESOURCE_EXHAUSTION') reporter.add(tooDeep, offset);
    else reporter.add({ code: 'invalid-yaml', severity: 'error', ...describeYamlFault(error.code) }, offset);
    if (error.code === 'RESOURCE_EXHAUSTION') break;
  }
  for (const warning of document.warnings) {
    const isTag = warning.code === 'TAG_RESOLVE_FAILED';
    reporter.add(
      {
        code: isTag ? 'unknown-tag' : 'invalid-yaml',
        severity: 'error',
        summary: isTag ? 'This YAML tag (`!…`) is not known here.' : describeYamlFault(warning.code).summary,
        hint: isTag ? 'Remove the tag; quote a value that starts with `!`.' : describeYamlFault(warning.code).hint,
      },
      warning.pos[0],
    );
  }
  const { yaml } = document.directives;
  if (yaml.version !== '1.2') {
    const offset = Math.max(0, (document.contents?.range[0] ?? document.range[0]) - 1);
    reporter.add(
      {
        code: 'yaml-version',
        severity: 'error',
        summary: `Manifests are YAML 1.2, and this document says %YAML ${yaml.version}.`,
        hint: 'Remove the %YAML directive.',
      },
      offset,
    );
  }
  if (reporter.problems.length > before || document.contents === null) return null;
  const contents = document.contents;
  if (isScalar(contents) && contents.value === null && contents.source === '') return null;
  const root = new Converter(conversion).node(contents, 0, false);
  return reporter.problems.length > before ? null : root;
}

type YamlNode = NonNullable<Document.Parsed['contents']>;

/** Turns the parser's nodes of one document into ours; stateful because of anchors and the count of values. */
class Converter {
  readonly #conversion: Conversion;
  readonly #anchors = new Map<string, { readonly node: Node; readonly values: number }>();
  #values = 0;
  #tooMany = false;

  constructor(conversion: Conversion) {
    this.#conversion = conversion;
  }

  node(source: YamlNode, depth: number, secret: boolean): Node {
    const [start, end] = source.range;
    const before = this.#values;
    this.#count(1, start);
    if (depth > deepest) {
      this.#error(tooDeep, start);
      return absent(start);
    }
    if (isAlias(source)) return this.#alias(source.source, start);
    const node = isScalar(source)
      ? this.#scalar(source, secret)
      : isMap(source)
        ? ({ type: 'map', entries: this.#entries(source.items as never, depth), start, end } as const)
        : isSeq(source)
          ? ({ type: 'seq', items: this.#items(source.items as YamlNode[], depth), start, end } as const)
          : absent(start);
    if (source.anchor !== undefined) this.#anchors.set(source.anchor, { node, values: this.#values - before });
    return node;
  }

  #items(items: readonly YamlNode[], depth: number): readonly Node[] {
    return items.map((item) => this.node(item, depth + 1, false));
  }

  #entries(pairs: readonly { readonly key: Scalar.Parsed; readonly value: YamlNode | null }[], depth: number): Entry[] {
    const seen = new Map<string, number>();
    const entries: Entry[] = [];
    for (const { key: keyNode, value } of pairs) {
      const key = String(keyNode.value);
      const keyStart = keyNode.range[0];
      const first = seen.get(key);
      if (first !== undefined) this.#duplicate(key, keyStart, first);
      else if (key === '__proto__') this.#error(forbiddenKey, keyStart);
      else {
        seen.set(key, keyStart);
        const node = value === null ? absent(keyStart) : this.node(value, depth + 1, secretKeys.has(key));
        if (node.type === 'scalar' && node.value === null && node.text === '' && node.plain) {
          this.#error(emptyField, keyStart);
        }
        entries.push({ key, keyStart, value: node });
      }
    }
    return entries;
  }

  #duplicate(key: string, offset: number, first: number): void {
    const { locator } = this.#conversion.reporter;
    this.#error(
      {
        code: 'duplicate-key',
        severity: 'error',
        summary: 'The same key stands twice in one mapping.',
        hint: secretKeys.has(key)
          ? 'Keep one of the two.'
          : 'Keep one of the two, or separate the documents with `---`.',
        related: [{ place: locator.place(first), note: 'the first one' }],
      },
      offset,
    );
  }

  #alias(name: string, offset: number): Node {
    const anchor = this.#anchors.get(name);
    if (anchor === undefined) {
      const { summary, hint } = describeYamlFault('BAD_ALIAS');
      this.#error({ code: 'invalid-yaml', severity: 'error', summary, hint }, offset);
      return absent(offset);
    }
    this.#count(anchor.values, offset);
    return anchor.node;
  }

  #scalar(source: Scalar.Parsed, secret: boolean): ScalarNode {
    const [start, end] = source.range;
    const plain = source.type === Scalar.PLAIN;
    // Of a plain text over several lines the source has the line breaks, the value has them folded.
    let text = plain && typeof source.value !== 'string' ? source.source : String(source.value);
    let value = source.value as ScalarNode['value'];
    const { values } = this.#conversion;
    if (values !== null && !secret) {
      const substituted = substitute(text, values);
      if (substituted.malformed !== null) this.#error(malformedReference(substituted.malformed), start);
      else if (substituted.missing !== null) this.#undefinedValue(substituted.missing, start, values);
      else if (substituted.changed) {
        text = substituted.text;
        value = plain ? typedScalar(text) : text;
      }
    }
    if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) this.#error(unsafeInteger, start);
    return { type: 'scalar', value, text, plain, start, end };
  }

  #undefinedValue(name: string, offset: number, values: ReadonlyMap<string, string>): void {
    const known = [...values.keys()].slice(0, 10).join(', ');
    this.#error(
      {
        code: 'undefined-value',
        severity: 'error',
        summary: `There is no value named \`${name}\`.`,
        hint: `Add it to the values file${known === '' ? '' : ` (it has ${known})`}, or write \`$\${\` for a literal \`\${\`.`,
      },
      offset,
    );
  }

  #count(values: number, offset: number): void {
    this.#values += values;
    if (this.#values <= mostValues || this.#tooMany) return;
    this.#tooMany = true;
    this.#error(
      {
        code: 'too-expensive',
        severity: 'error',
        summary: `This document has more than ${mostValues.toLocaleString('en')} values once its aliases are followed.`,
        hint: 'Split the document, or use a RuleSet instead of aliases.',
      },
      offset,
    );
  }

  #error(problem: Omit<Problem, 'place' | 'excerpt'>, offset: number): void {
    this.#conversion.reporter.add(problem, offset);
  }
}

function malformedReference(text: string): Omit<Problem, 'place' | 'excerpt'> {
  return {
    code: 'undefined-value',
    severity: 'error',
    summary: `\`${text}\` is no name of a value.`,
    hint: 'Write letters, digits and `_ . -` between the braces, without spaces; or `$${` for a literal `${`.',
  };
}

const forbiddenKey = {
  code: 'forbidden-key',
  severity: 'error',
  summary: 'The key `__proto__` is not allowed.',
  hint: 'Remove it; no kind has such a field.',
} as const;

const emptyField = {
  code: 'empty-field',
  severity: 'error',
  summary: 'This field has no value.',
  hint: 'Write one; `null` where nothing is meant, `[]` for an empty list.',
} as const;

const unsafeInteger = {
  code: 'unsafe-integer',
  severity: 'error',
  summary: 'This number is too large to be exact.',
  hint: 'Put it in quotes if it is a text.',
} as const;

function absent(offset: number): ScalarNode {
  return { type: 'scalar', value: null, text: '', plain: true, start: offset, end: offset };
}
