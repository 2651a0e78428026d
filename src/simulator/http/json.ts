import { ServerCrash } from '../crash.ts';

/** A JSON number with a fraction or an exponent: the server tells 1.0 from 1. */
export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/** A request value as the server sees it; integers beyond 2^53 are bigint. */
export type JsonTerm = null | boolean | number | bigint | Float | string | readonly JsonTerm[] | TermMap;
export type TermMap = ReadonlyMap<string, JsonTerm>;

export const isMap = (term: JsonTerm | undefined): term is TermMap => term instanceof Map;

/** What stands in a route's wrapper; the real server raises for anything but an object. */
export function readObject(sent: JsonTerm): TermMap {
  if (!isMap(sent)) throw new ServerCrash('the wrapper is no object');
  return sent;
}

const numberPattern = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const plainPattern = /[ !#-[\]-\u{10ffff}]*/uy;
const spacePattern = /[ \t\n\r]*/y;
const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

type Frame = { kind: 'array'; items: JsonTerm[] } | { kind: 'object'; map: Map<string, JsonTerm>; key: string };

/** Parses as the server's decoder: of duplicate keys the first wins, floats stay floats. Raises ServerCrash where it is no JSON. */
export function parseJson(text: string): JsonTerm {
  return new Reader(text).document();
}

class Reader {
  readonly #text: string;
  #at = 0;
  readonly #frames: Frame[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  document(): JsonTerm {
    for (;;) {
      let value = this.#open();
      while (value !== undefined) {
        const frame = this.#frames.at(-1);
        if (frame === undefined) return this.#end(value);
        value = this.#add(frame, value);
      }
    }
  }

  #end(value: JsonTerm): JsonTerm {
    this.#space();
    return this.#at === this.#text.length ? value : this.#fail();
  }

  /** Reads a scalar or an empty container, or opens a container and returns undefined. */
  #open(): JsonTerm | undefined {
    this.#space();
    const char = this.#text[this.#at];
    if (char === '[') return this.#openArray();
    if (char === '{') return this.#openObject();
    if (char === '"') return this.#string();
    if (char === 't') return this.#word('true', true);
    if (char === 'f') return this.#word('false', false);
    if (char === 'n') return this.#word('null', null);
    return this.#number();
  }

  #openArray(): JsonTerm | undefined {
    this.#at++;
    if (this.#skip(']')) return [];
    this.#frames.push({ kind: 'array', items: [] });
    return undefined;
  }

  #openObject(): JsonTerm | undefined {
    this.#at++;
    if (this.#skip('}')) return new Map();
    this.#frames.push({ kind: 'object', map: new Map(), key: this.#key() });
    return undefined;
  }

  /** Puts a finished value into its container; returns the container once that is finished too. */
  #add(frame: Frame, value: JsonTerm): JsonTerm | undefined {
    if (frame.kind === 'array') frame.items.push(value);
    else if (!frame.map.has(frame.key)) frame.map.set(frame.key, value);
    if (this.#skip(',')) {
      if (frame.kind === 'object') frame.key = this.#key();
      return undefined;
    }
    if (!this.#skip(frame.kind === 'array' ? ']' : '}')) this.#fail();
    this.#frames.pop();
    return frame.kind === 'array' ? frame.items : frame.map;
  }

  #key(): string {
    this.#space();
    if (this.#text[this.#at] !== '"') this.#fail();
    const key = this.#string();
    if (!this.#skip(':')) this.#fail();
    return key;
  }

  #string(): string {
    this.#at++;
    let value = '';
    for (;;) {
      plainPattern.lastIndex = this.#at;
      value += plainPattern.exec(this.#text)?.[0] ?? '';
      this.#at = plainPattern.lastIndex;
      const char = this.#text[this.#at++];
      if (char === '"') return value;
      if (char !== '\\') this.#fail();
      value += this.#escape();
    }
  }

  #escape(): string {
    const char = this.#text[this.#at++] ?? '';
    if (char !== 'u') return escapes[char] ?? this.#fail();
    const unit = this.#unit();
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    if (unit > 0xdbff || this.#text.slice(this.#at, this.#at + 2) !== '\\u') return this.#fail();
    this.#at += 2;
    const low = this.#unit();
    return low >= 0xdc00 && low <= 0xdfff ? String.fromCharCode(unit, low) : this.#fail();
  }

  #unit(): number {
    const hex = this.#text.slice(this.#at, this.#at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(hex)) this.#fail();
    this.#at += 4;
    return Number.parseInt(hex, 16);
  }

  #number(): JsonTerm {
    numberPattern.lastIndex = this.#at;
    const match = numberPattern.exec(this.#text);
    if (match === null) return this.#fail();
    this.#at = numberPattern.lastIndex;
    if (match[1] !== undefined || match[2] !== undefined) {
      const value = Number(match[0]);
      return Number.isFinite(value) ? new Float(value) : this.#fail();
    }
    const value = Number(match[0]);
    return Number.isSafeInteger(value) ? value + 0 : BigInt(match[0]);
  }

  #word(word: string, value: JsonTerm): JsonTerm {
    if (!this.#text.startsWith(word, this.#at)) this.#fail();
    this.#at += word.length;
    return value;
  }

  #skip(char: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #space(): void {
    spacePattern.lastIndex = this.#at;
    spacePattern.exec(this.#text);
    this.#at = spacePattern.lastIndex;
  }

  #fail(): never {
    throw new ServerCrash(`not JSON at ${this.#at}`);
  }
}
