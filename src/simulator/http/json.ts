/** The real server raised here: a 500 with only `content-length: 0`, and no change (observed: recordings/errors_by_accept). */
export class ServerCrash extends Error {}

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

type Container = JsonTerm[] | Map<string, JsonTerm>;

/** Parses as the server's decoder: of duplicate keys the first wins, floats stay floats. Raises ServerCrash where it is no JSON. */
export function parseJson(text: string): JsonTerm {
  try {
    JSON.parse(text);
  } catch {
    throw new ServerCrash('not JSON');
  }
  const whole: JsonTerm[] = [];
  const open: Container[] = [whole];
  let key: string | null = null;
  for (const token of tokensOf(text)) {
    const inside = open.at(-1) ?? whole;
    if (token === ']' || token === '}') open.pop();
    else if (!Array.isArray(inside) && key === null) key = readString(token);
    else {
      const container = makeContainer(token);
      const term = container ?? readScalar(token);
      if (Array.isArray(inside)) inside.push(term);
      else if (key !== null && !inside.has(key)) inside.set(key, term);
      key = null;
      // The tokens that follow fill it.
      if (container !== null) open.push(container);
    }
  }
  return whole[0] ?? null;
}

function makeContainer(token: string): Container | null {
  if (token === '[') return [];
  return token === '{' ? new Map() : null;
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

function readScalar(token: string): JsonTerm {
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
