import { isUtf8 } from 'node:buffer';
import { isMap, type JsonTerm, parseJson, ServerCrash, type TermMap } from './json.ts';

/** What arrived on the wire, with header names in lower case. */
export interface RawRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
}

/** A request after the parsers: the method that counts, path segments, and query and body as one set of parameters. */
export type ParsedRequest = ReturnType<typeof parseRequest>;

/** The server reads 1,000,000 bytes at a time, so the edge of its 8 MB is soft (observed: recordings/limits). */
const largestBody = 8_001_500;
const bodyMethods = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);
const overridingMethods = new Set(['PUT', 'PATCH', 'DELETE']);

/** Runs the server's parsers; raises ServerCrash for broken JSON, invalid UTF-8 and a body that is too large. */
export function parseRequest(raw: RawRequest) {
  const local = raw.target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/#.*$/, '');
  const [path = '', query = ''] = local.split(/\?(.*)/s);
  const queryParams = parseForm(query);
  const body = bodyMethods.has(raw.method) ? parseBody(raw) : new Map<string, JsonTerm>();
  const params: TermMap = new Map([...queryParams, ...body]);
  const override = raw.method === 'POST' ? body.get('_method') : undefined;
  const asked = typeof override === 'string' ? override.toUpperCase() : '';
  const method = overridingMethods.has(asked) ? asked : raw.method === 'HEAD' ? 'GET' : raw.method;
  const segments = path.split('/').filter(Boolean).map(decodeSegment);
  return { method, segments, params, headers: raw.headers };
}

/** A type that does not parse (`a, b` included) means that no parser looks at the body. */
function parseBody({ headers, body }: RawRequest): TermMap {
  const [, written = '', parameters = ''] =
    /^\s*([\w!#$&^.+-]+\/[\w!#$&^.+-]+)\s*(;.*)?$/.exec(headers['content-type'] ?? '') ?? [];
  const type = /^(?:application\/(?:(json|.*\+json)|x-www-form-urlencoded)|multipart\/(form-data|mixed))$/i.exec(
    written,
  );
  if (type === null) return new Map();
  if (body.length > largestBody) throw new ServerCrash('body too large');
  const [, isJson, isMultipart] = type;
  if (isMultipart !== undefined) return parseMultipart(body, parameters);
  if (isJson === undefined) return parseForm(decodeUtf8(body));
  if (body.length === 0) return new Map();
  const term = parseJson(decodeUtf8(body));
  return isMap(term) ? term : new Map([['_json', term]]);
}

/** The segment with percent escapes resolved; a broken escape raises ServerCrash, bytes that are no UTF-8 stay as they are. */
function decodeSegment(segment: string): string {
  if (/%(?![0-9a-f]{2})/i.test(segment)) throw new ServerCrash('malformed path');
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Bytes to text; invalid UTF-8 raises ServerCrash as it does in the server's parsers. */
function decodeUtf8(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new ServerCrash('invalid UTF-8');
  return bytes.toString('utf8');
}

/** Percent-decodes a form component; a `%` without two hexadecimal digits stays as it is. */
function decodeComponent(text: string): string {
  const bytes = Buffer.from(text.replaceAll('+', ' ')).toString('latin1');
  const decoded = bytes.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return decodeUtf8(Buffer.from(decoded, 'latin1'));
}

/** Parses `a=1&rule[destination]=…` with nested keys, for queries and urlencoded bodies. */
function parseForm(text: string): TermMap {
  const params = new Map<string, JsonTerm>();
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const key = decodeComponent(equals < 0 ? pair : pair.slice(0, equals));
    const value = equals < 0 ? (key.endsWith(']') ? null : '') : decodeComponent(pair.slice(equals + 1));
    if (key !== '') assign(params, key, value);
  }
  return params;
}

/** Puts a value at `a[b][c]`; a broken key is a plain one. */
function assign(params: Map<string, JsonTerm>, key: string, value: JsonTerm): void {
  const [, head = key, rest] = /^([^[]+)((?:\[[^\]]*\])+)$/.exec(key) ?? [];
  assignAt(params, [head, ...(rest?.slice(1, -1).split('][') ?? [])], value);
}

/** `[]` appends to a list; the last of equal keys wins. */
function assignAt(map: Map<string, JsonTerm>, path: readonly string[], value: JsonTerm): void {
  const [name = '', ...below] = path;
  const present = map.get(name);
  if (below.length === 0) map.set(name, value);
  else if (below.length === 1 && below[0] === '') map.set(name, [...(Array.isArray(present) ? present : []), value]);
  else {
    const child = isMap(present) ? new Map(present) : new Map<string, JsonTerm>();
    map.set(name, child);
    assignAt(child, below, value);
  }
}

/** The text fields of a multipart body; a body that does not open with its boundary raises ServerCrash. */
function parseMultipart(bytes: Buffer, parameters: string): TermMap {
  const boundary = /;\s*boundary="?([^";]+)"?/i.exec(parameters)?.[1];
  if (boundary === undefined) throw new ServerCrash('multipart without boundary');
  const params = new Map<string, JsonTerm>();
  const text = bytes.toString('latin1');
  const parts = `\r\n${text}`.split(`\r\n--${boundary}`).slice(1);
  if (parts.length < 2 || !parts.at(-1)?.startsWith('--')) throw new ServerCrash('broken multipart body');
  for (const part of parts.slice(0, -1)) {
    const split = part.indexOf('\r\n\r\n');
    const name = /^content-disposition:.*?[;\s]name="([^"]*)"/im.exec(part.slice(0, Math.max(split, 0)));
    if (name?.[1] !== undefined) assign(params, name[1], decodeUtf8(Buffer.from(part.slice(split + 4), 'latin1')));
  }
  return params;
}
