import { CST, Lexer, Parser } from 'yaml';
import { formatCount } from '../model/printable.ts';
import { makeError } from '../model/problem.ts';
import type { Unplaced } from './node.ts';
import { suggest } from './suggest.ts';

/** After so many lexemes of a document its root is looked at: what cannot be a manifest is not read to its end. */
const lexemesToLook = 1_000;
/** Deepest nesting of collections; manifests need six. */
export const deepest = 64;
/** Directives in one file; the parser keeps what is wrong with each. */
const mostDirectives = 200;
/** Items of a root that are looked at; a manifest has four. */
const mostItems = 64;

/** Problems after which the rest of a file is not read: nobody reads more. */
export const mostProblems = 1_000;
/** What reading costs, the same on every machine: one a lexeme and one a value; each takes about 2 µs and 200 bytes. */
export interface Work {
  spent: number;
  /** Reading ends when more is spent. */
  readonly most: number;
}

/** What reading one file may cost without another limit: about 75,000 rules. */
export const defaultFileWork = 4_000_000;

/** Of what a flow collection holds the parser keeps twice as much: its commas count for more. */
const workOfComma = 3;

export interface Reading {
  readonly text: string;
  /** The fields that a manifest has at its top; undefined when the text is none. */
  readonly fields: readonly string[] | undefined;
  readonly work: Work;
}

/** What the parser makes of a text, until a long document turns out to be no manifest, or too long for one. */
export function* readTokens(reading: Reading): Generator<CST.Token> {
  const { text, fields, work } = reading;
  const parser = new Parser();
  let lexemes = 0;
  let directives = 0;
  for (const lexeme of new Lexer().lex(text)) {
    work.spent += lexeme === ',' ? workOfComma : 1;
    if (work.spent > work.most) throw new Unread(describeSpentWork(work), parser.offset);
    for (const token of parser.next(lexeme)) {
      lexemes = 0;
      if (token.type === 'directive' && ++directives > mostDirectives)
        throw new Unread(tooManyDirectives, token.offset);
      yield token;
    }
    if (++lexemes % lexemesToLook === 0) lookAt(parser.stack, fields);
  }
  yield* parser.end();
}

/** Ends the reading of a file whose long document is no manifest. The root is as far as it was parsed. */
function lookAt(stack: readonly CST.Token[], fields: readonly string[] | undefined): void {
  const [document, root] = stack;
  refuseMarks(stack, document);
  if (root === undefined) return;
  // Above the innermost collection there is the document, and at most a scalar.
  const tooFarIn = stack[deepest + 2];
  if (tooFarIn !== undefined) throw new Unread(tooDeep, tooFarIn.offset);
  if (root.type === 'block-seq' || (root.type === 'flow-collection' && root.start.source === '[')) {
    throw new Unread(aList, root.offset);
  }
  if (fields !== undefined && (root.type === 'block-map' || root.type === 'flow-collection'))
    refuseFields(root, fields);
}

/** Ends the reading at a field of the root that no manifest has. */
function refuseFields(root: CST.BlockMap | CST.FlowCollection, fields: readonly string[]): void {
  // A key is complete once its colon is there; comments may stand as items without either.
  const complete = root.items.slice(0, mostItems).filter(({ sep }) => sep !== undefined && sep.length > 0);
  for (const [index, { key = null }] of complete.entries()) {
    if (index < fields.length && key !== null && isAmong(key, fields)) continue;
    throw new Unread(noField(key, fields), key?.offset ?? root.offset);
  }
}

function refuseMarks(stack: readonly CST.Token[], document: CST.Token | undefined): void {
  const innermost = stack.findLast((token) => CST.isCollection(token));
  const item = innermost?.items.at(-1);
  const hasMany =
    (document?.type === 'document' && hasManyMarks(document)) || (item !== undefined && hasManyMarks(item));
  if (hasMany) throw new Unread(tooManyMarks, innermost?.offset ?? document?.offset ?? 0);
}

/** Colons, tags and anchors one after the other: the parser keeps them all for one item, and looks at all for each. */
function hasManyMarks({ start, sep = [] }: Pick<CST.CollectionItem, 'start' | 'sep'>): boolean {
  return [start, sep].some((tokens) => {
    if (tokens.length < mostMarks) return false;
    const marks = tokens
      .slice(-1_000)
      .filter(({ type }) => type !== 'space' && type !== 'newline' && type !== 'comment');
    return marks.length > mostMarks;
  });
}

const mostMarks = 100;

const tooManyMarks = makeError(
  'too-expensive',
  'This document has hundreds of colons, tags or anchors in one place; the rest of the file was not read.',
  'Remove them: a field has one colon.',
);

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
  const hint = `It has ${fields.map((field) => `\`${field}\``).join(', ')}; move the file out of the directory if it is none.`;
  return makeError('not-a-manifest', `A manifest has ${name}; the rest of the file was not read.`, hint);
}

export class Unread extends Error {
  readonly problem: Unplaced;
  readonly offset: number;

  constructor(problem: Unplaced, offset: number) {
    super(problem.summary);
    this.problem = problem;
    this.offset = offset;
  }
}

const aList = makeError(
  'not-a-manifest',
  'This document is a list, not a manifest; the rest of the file was not read.',
  'Start a manifest with `apiVersion: firezone/v0` and `kind: RuleSet`; move the file out of the directory if it is not one.',
);

/** The problem of a file that costs more than it may. */
export function describeSpentWork({ most }: Work): Unplaced {
  const summary = `Reading this file takes more than ${formatCount(most)} units of work (\`limits.fileWork\`): it was not read further.`;
  return makeError('too-expensive', summary, 'Split it into several files; 60,000 rules fit into one.');
}

const tooManyDirectives = makeError(
  'too-expensive',
  'This file has hundreds of directives (lines that begin with `%`); the rest of it was not read.',
  'Remove them: manifests need none.',
);

/** Also what a stack that is exhausted comes from. */
export const tooDeep = makeError('too-deep', 'This is nested too deeply.', `A manifest has at most ${deepest} levels.`);
