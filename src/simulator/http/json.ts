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

type Frame =
  | { readonly kind: 'array'; readonly items: JsonTerm[] }
  | { readonly kind: 'object'; readonly map: Map<string, JsonTerm>; key: string | null };

/** Parses as the server's decoder: of duplicate keys the first wins, floats stay floats. Raises ServerCrash where it is no JSON. */
export function parseJson(text: string): JsonTerm {
  try {
    JSON.parse(text);
  } catch {
    throw new ServerCrash('not JSON');
  }
  const whole: JsonTerm[] = [];
  const open: Frame[] = [{ kind: 'array', items: whole }];
  for (const token of tokensOf(text)) {
    const frame = open.at(-1);
    if (token === ']' || token === '}') open.pop();
    else if (frame?.kind === 'object' && frame.key === null) frame.key = readString(token);
    else if (frame !== undefined) add(frame, readTerm(token, open));
  }
  return whole[0] ?? null;
}

/** Strings, brackets, and the other scalars of a text that is known to be JSON. */
function* tokensOf(text: string): Generator<string> {
  const pattern = /["[\]{}]|[^\s,:[\]{}"]+/g;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    if (match[0] === '"') pattern.lastIndex = findStringEnd(text, match.index);
    yield text.slice(match.index, pattern.lastIndex);
  }
}

/** No pattern: one that repeats a group runs out of stack on a string of megabytes. */
function findStringEnd(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    at = text.indexOf('"', at);
    let escapes = at - 1;
    while (text[escapes] === '\\') escapes--;
    if ((at - escapes) % 2 === 1) return at + 1;
  }
}

function add(frame: Frame, value: JsonTerm): void {
  if (frame.kind === 'array') frame.items.push(value);
  else {
    if (frame.key !== null && !frame.map.has(frame.key)) frame.map.set(frame.key, value);
    frame.key = null;
  }
}

/** A scalar, or a container that is filled by the tokens that follow. */
function readTerm(token: string, open: Frame[]): JsonTerm {
  if (token === '[') {
    const items: JsonTerm[] = [];
    open.push({ kind: 'array', items });
    return items;
  }
  if (token === '{') {
    const map = new Map<string, JsonTerm>();
    open.push({ kind: 'object', map, key: null });
    return map;
  }
  if (token.startsWith('"')) return readString(token);
  return token === 'null' ? null : token === 'true' || token === 'false' ? token === 'true' : readNumber(token);
}

function readString(token: string): string {
  const value = String(JSON.parse(token));
  // The server's decoder takes no half of a surrogate pair.
  if (/\p{Surrogate}/u.test(value)) throw new ServerCrash('not JSON: half a surrogate pair');
  return value;
}

function readNumber(token: string): JsonTerm {
  const value = Number(token);
  if (!/[.eE]/.test(token)) return Number.isSafeInteger(value) ? value + 0 : BigInt(token);
  if (!Number.isFinite(value)) throw new ServerCrash('not JSON: a float beyond all');
  return new Float(value);
}
