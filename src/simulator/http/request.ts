import { ServerCrash } from '../crash.ts';
import type { JsonTerm, TermMap } from './json.ts';
import { isMap, parseJson } from './json.ts';
import { decodeUtf8, parseForm, parseMultipart } from './params.ts';

/** What arrived on the wire, with header names in lower case. */
export interface RawRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
}

/** A request after the parsers: the method that counts, path segments, and query and body as one set of parameters. */
export interface ParsedRequest {
  readonly method: string;
  readonly segments: readonly string[];
  readonly params: TermMap;
  readonly headers: RawRequest['headers'];
}

/** The server reads 1,000,000 bytes at a time, so the edge of its 8 MB is soft (observed: recordings/limits). */
const largestBody = 8_001_500;
const bodyMethods = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);
const overridingMethods = new Set(['PUT', 'PATCH', 'DELETE']);

/** Runs the server's parsers; raises ServerCrash for broken JSON, invalid UTF-8 and a body that is too large. */
export function parseRequest(raw: RawRequest): ParsedRequest {
  const { path, query } = splitTarget(raw.target);
  const queryParams = parseForm(query);
  const body = bodyMethods.has(raw.method) ? parseBody(raw) : new Map<string, JsonTerm>();
  const params = new Map([...queryParams, ...body]);
  const override = raw.method === 'POST' ? body.get('_method') : undefined;
  const method = typeof override === 'string' ? override.toUpperCase() : '';
  return {
    method: overridingMethods.has(method) ? method : raw.method === 'HEAD' ? 'GET' : raw.method,
    segments: path
      .split('/')
      .filter((segment) => segment !== '')
      .map(decodeSegment),
    params,
    headers: raw.headers,
  };
}

function splitTarget(target: string): { path: string; query: string } {
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/#.*$/, '');
  const mark = local.indexOf('?');
  return mark < 0 ? { path: local, query: '' } : { path: local.slice(0, mark), query: local.slice(mark + 1) };
}

function parseBody({ headers, body }: RawRequest): TermMap {
  const parse = findParser(headers['content-type']);
  if (parse === undefined) return new Map();
  if (body.length > largestBody) throw new ServerCrash('body too large');
  return parse(body);
}

function jsonBody(bytes: Buffer): TermMap {
  if (bytes.length === 0) return new Map();
  const term = parseJson(decodeUtf8(bytes));
  return isMap(term) ? term : new Map([['_json', term]]);
}

/** Which parser takes the body; a type that does not parse (`a, b` included) means that no parser looks at it. */
function findParser(header: string | undefined): ((body: Buffer) => TermMap) | undefined {
  const match = /^\s*([\w!#$&^.+-]+\/[\w!#$&^.+-]+)\s*(;.*)?$/.exec(header ?? '');
  const type = match?.[1]?.toLowerCase() ?? '';
  if (/^application\/(?:json|.*\+json)$/.test(type)) return jsonBody;
  if (type === 'application/x-www-form-urlencoded') return (body) => parseForm(decodeUtf8(body));
  if (type !== 'multipart/form-data' && type !== 'multipart/mixed') return undefined;
  const boundary = /;\s*boundary="?([^";]+)"?/i.exec(match?.[2] ?? '')?.[1];
  return (body) => {
    if (boundary === undefined) throw new ServerCrash('multipart without boundary');
    return parseMultipart(body, boundary);
  };
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
