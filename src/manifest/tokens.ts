import { type CST, Lexer, type LineCounter, Parser } from 'yaml';
import type { Unplaced } from './reporter.ts';
import { suggest } from './suggest.ts';

/** After so many lexemes of a document its root is looked at: what cannot be a manifest is not read to its end. */
const lexemesToLook = 1_000;
/** Most lexemes of one document; a rule has about 44, and the parser takes about 200 bytes and 2 µs for each. */
const mostLexemes = 3_000_000;

/** Directives in one file; the parser keeps what is wrong with each. */
const mostDirectives = 200;
/** Items of a root that are looked at; a manifest has four. */
const mostItems = 64;

/** What the parser makes of a text, until a long document turns out to be no manifest, or too long for one. */
export function* documentTokens(
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

function noField(key: CST.Token | null, fields: readonly string[]): Unplaced {
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
export class Unread extends Error {
  readonly problem: Unplaced;
  readonly offset: number;

  constructor(problem: Unplaced, offset: number) {
    super(problem.summary);
    this.problem = problem;
    this.offset = offset;
  }
}

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
