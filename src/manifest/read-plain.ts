import type { Entry, MapNode, Node, ScalarNode, ScalarValue, SeqNode } from './node.ts';
import { deepest, type Reading } from './read-tokens.ts';
import { resolveScalar } from './scalar.ts';

export interface PlainDocument {
  readonly root: MapNode;
  /** Where it ends. */
  readonly end: number;
}

interface PlainRequest extends Reading {
  /** Most documents. */
  readonly documents: number;
}

/**
 * Reads manifests in the form in which nearly all are written: mappings, lists, `[…]` and `{…}` on one line, scalars on one line,
 * comments. It has one meaning, needs no library and takes a tenth of its time. Null for any other text, one with an error too:
 * the library reads that, and says what is wrong. `test/manifest/plain.test.ts` compares the two.
 */
export function readPlain(request: PlainRequest): readonly PlainDocument[] | null {
  const { text, work } = request;
  // Tabs, other line ends, and marks that the parser's lexer uses itself.
  if (/[^\n\r -~\u0080-\ufefe\uff00-\uffff]|\r(?!\n)/.test(text)) return null;
  const reader = new PlainReader(request);
  try {
    const documents = reader.read();
    work.spent += reader.units;
    return documents;
  } catch (error) {
    if (error instanceof NotPlain) return null;
    throw error;
  }
}

class NotPlain extends Error {}

/** What reading costs, in units of `Work`: about as many as by the library, so that limits mean the same. */
const [unitsOfLine, unitsOfValue] = [2, 6];

const keyPattern = /[A-Za-z0-9_][A-Za-z0-9_.@+/-]{0,200}:(?=[ \r\n]|$)/y;
/** A scalar without quotes in a block, and one between brackets; a longer one is left to the library. */
const blockPattern = /(?:[A-Za-z0-9_/]|:(?=[:0-9A-Fa-f]))(?:[^ :\r\n]|:(?=[^ \r\n])| (?=[^ #\r\n])){0,1000}/y;
const flowPattern = /[A-Za-z0-9_/](?:[A-Za-z0-9_.@+/-]|:(?=[A-Za-z0-9:/])| (?=[A-Za-z0-9])){0,1000}/y;

const [space, hash, dash, doubleQuote, singleQuote] = [0x20, 0x23, 0x2d, 0x22, 0x27];
const [comma, openList, closeList, openMap, closeMap, lineReturn] = [0x2c, 0x5b, 0x5d, 0x7b, 0x7d, 0x0d];

class PlainReader {
  readonly #request: PlainRequest;
  readonly #text: string;
  /** Where the next line begins, and the present one. */
  #next = 0;
  #lineStart = 0;
  /** What is left of the present line. */
  #at = 0;
  #end = 0;
  /** The column in which the present content begins; -1 at the end of a document. */
  #indent = -1;
  #isLast = false;
  units = 0;

  constructor(request: PlainRequest) {
    this.#request = request;
    this.#text = request.text;
  }

  read(): readonly PlainDocument[] {
    const documents: PlainDocument[] = [];
    this.#advance();
    for (let count = 1; ; count++) {
      if (count > this.#request.documents) throw new NotPlain();
      if (this.#indent >= 0) documents.push(this.#document());
      if (this.#isLast) return documents;
      this.#advance();
    }
  }

  #document(): PlainDocument {
    const { fields } = this.#request;
    const root = this.#mapping(0);
    const isForeign = fields !== undefined && root.entries.some(({ key }) => !fields.includes(key));
    if (isForeign || this.#indent >= 0) throw new NotPlain();
    return { root, end: this.#lineStart };
  }

  /** Goes to the next line that has content. */
  #advance(): void {
    const text = this.#text;
    while (this.#next < text.length) {
      const start = this.#next;
      const feed = text.indexOf('\n', start);
      const end = feed < 0 ? text.length : feed;
      this.#next = end + 1;
      this.#lineStart = start;
      this.#end = end > start && text.charCodeAt(end - 1) === lineReturn ? end - 1 : end;
      this.#at = start;
      this.#spend(unitsOfLine);
      this.#skipSpaces();
      if (this.#isAtEnd()) continue;
      this.#indent = this.#at - start;
      if (this.#indent === 0 && text.startsWith('---', start)) {
        if (this.#end - start > 3) throw new NotPlain();
        this.#indent = -1;
      }
      return;
    }
    this.#indent = -1;
    this.#isLast = true;
    this.#lineStart = text.length;
  }

  #spend(units: number): void {
    const { most, spent } = this.#request.work;
    this.units += units;
    if (spent + this.units > most) throw new NotPlain();
  }

  #skipSpaces(): void {
    while (this.#text.charCodeAt(this.#at) === space) this.#at++;
  }

  /** Whether nothing but a comment is left of the line; a `#` needs space before it. */
  #isAtEnd(): boolean {
    if (this.#at >= this.#end) return true;
    if (this.#text.charCodeAt(this.#at) !== hash) return false;
    return this.#at === this.#lineStart || this.#text.charCodeAt(this.#at - 1) === space;
  }

  #isItem(): boolean {
    const after = this.#at + 1;
    return this.#text.charCodeAt(this.#at) === dash && (after >= this.#end || this.#text.charCodeAt(after) === space);
  }

  #isKey(): boolean {
    keyPattern.lastIndex = this.#at;
    return keyPattern.test(this.#text);
  }

  #collection(depth: number): MapNode | SeqNode {
    return this.#isItem() ? this.#list(depth) : this.#mapping(depth);
  }

  #mapping(depth: number): MapNode {
    if (depth >= deepest) throw new NotPlain();
    const [indent, start] = [this.#indent, this.#at];
    const entries: Entry[] = [];
    while (this.#indent === indent) {
      const keyStart = this.#at;
      const key = this.#key();
      entries.push({ key, keyStart, value: this.#value(indent, depth + 1) });
    }
    return { type: 'map', entries: checkFields(entries), start };
  }

  /** Reads a field's name and its colon. */
  #key(): string {
    const start = this.#at;
    if (!this.#isKey()) throw new NotPlain();
    this.#at = keyPattern.lastIndex;
    return this.#text.slice(start, this.#at - 1);
  }

  /** What stands behind a colon, or below. */
  #value(indent: number, depth: number): Node {
    this.#skipSpaces();
    if (!this.#isAtEnd()) return this.#inline(depth);
    this.#advance();
    if (this.#indent > indent || (this.#indent === indent && this.#isItem())) return this.#collection(depth);
    throw new NotPlain();
  }

  #list(depth: number): SeqNode {
    if (depth >= deepest) throw new NotPlain();
    const [indent, start] = [this.#indent, this.#at];
    const items: Node[] = [];
    while (this.#indent === indent && this.#isItem()) {
      this.#at++;
      this.#skipSpaces();
      // A mapping that begins behind the dash has its fields in that column.
      this.#indent = this.#at - this.#lineStart;
      items.push(this.#isItem() || this.#isKey() ? this.#collection(depth + 1) : this.#inline(depth + 1));
    }
    return { type: 'seq', items, start };
  }

  /** The value that fills the rest of the line. */
  #inline(depth: number): Node {
    const node = this.#flow(depth, blockPattern);
    this.#skipSpaces();
    if (!this.#isAtEnd()) throw new NotPlain();
    this.#advance();
    return node;
  }

  #flow(depth: number, pattern: RegExp): Node {
    this.#spend(unitsOfValue);
    const first = this.#text.charCodeAt(this.#at);
    if (first === openMap) return this.#flowMap(depth);
    if (first === openList) return this.#flowList(depth);
    return this.#scalar(first, pattern);
  }

  #flowMap(depth: number): MapNode {
    const start = this.#at;
    const entries: Entry[] = [];
    this.#members(depth, closeMap, () => {
      const keyStart = this.#at;
      const key = this.#key();
      this.#skipSpaces();
      entries.push({ key, keyStart, value: this.#flow(depth + 1, flowPattern) });
    });
    return { type: 'map', entries: checkFields(entries), start };
  }

  #flowList(depth: number): SeqNode {
    const start = this.#at;
    const items: Node[] = [];
    this.#members(depth, closeList, () => items.push(this.#flow(depth + 1, flowPattern)));
    return { type: 'seq', items, start };
  }

  /** Reads what stands between brackets on one line. */
  #members(depth: number, close: number, read: () => void): void {
    if (depth >= deepest) throw new NotPlain();
    this.#at++;
    this.#skipSpaces();
    while (this.#text.charCodeAt(this.#at) !== close) {
      read();
      this.#skipSpaces();
      if (this.#text.charCodeAt(this.#at) === comma) {
        this.#at++;
        this.#skipSpaces();
      } else if (this.#text.charCodeAt(this.#at) !== close) throw new NotPlain();
    }
    this.#at++;
  }

  #scalar(first: number, pattern: RegExp): ScalarNode {
    const start = this.#at;
    if (first === doubleQuote || first === singleQuote) {
      const quoted = this.#quoted(first);
      return { type: 'scalar', value: quoted, text: quoted, plain: false, start };
    }
    pattern.lastIndex = start;
    if (!pattern.test(this.#text)) throw new NotPlain();
    this.#at = pattern.lastIndex;
    const text = this.#text.slice(start, this.#at);
    const value: ScalarValue = resolveScalar(text);
    if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) throw new NotPlain();
    return { type: 'scalar', value, text, plain: true, start };
  }

  /** A text in quotes without escapes. */
  #quoted(quote: number): string {
    const start = this.#at + 1;
    const end = this.#text.indexOf(quote === doubleQuote ? '"' : "'", start);
    const text = this.#text.slice(start, end);
    if (end < 0 || end >= this.#end || (quote === doubleQuote && text.includes('\\'))) throw new NotPlain();
    this.#at = end + 1;
    return text;
  }
}

/** The fields of a mapping, each of which may be there once. */
function checkFields(entries: readonly Entry[]): readonly Entry[] {
  const keys = new Set(entries.map(({ key }) => key));
  if (keys.size < entries.length || keys.has('__proto__')) throw new NotPlain();
  return entries;
}
