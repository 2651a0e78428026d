import { ServerCrash } from '../crash.ts';
import type { JsonTerm, TermMap } from './json.ts';
import { isMap } from './json.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Bytes to text; invalid UTF-8 raises ServerCrash as it does in the server's parsers. */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new ServerCrash('invalid UTF-8');
  }
}

/** Percent-decodes a form component; a `%` without two hexadecimal digits stays as it is. */
function decodeComponent(text: string): string {
  if (!/[%+]/.test(text)) return text;
  const bytes = Buffer.from(text.replaceAll('+', ' '), 'utf8');
  const out: number[] = [];
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] ?? 0;
    const hex = byte === 37 ? bytes.toString('latin1', index + 1, index + 3) : '';
    if (/^[0-9a-fA-F]{2}$/.test(hex)) {
      out.push(Number.parseInt(hex, 16));
      index += 2;
    } else out.push(byte);
  }
  return decodeUtf8(Uint8Array.from(out));
}

/** Parses `a=1&rule[destination]=…` with nested keys, for queries and urlencoded bodies. */
export function parseForm(text: string): TermMap {
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

/** Puts a value at `a[b][c]`; `[]` appends to a list; the last of equal keys wins; a broken key is a plain one. */
function assign(params: Map<string, JsonTerm>, key: string, value: JsonTerm): void {
  const match = /^([^[]+)((?:\[[^\]]*\])+)$/.exec(key);
  if (match === null) {
    params.set(key, value);
    return;
  }
  const [, head = '', rest = ''] = match;
  const path = [head, ...rest.slice(1, -1).split('][')];
  let map = params;
  for (const [index, name] of path.entries()) {
    if (index === path.length - 1) {
      map.set(name, value);
      return;
    }
    if (path[index + 1] === '' && index === path.length - 2) {
      const list = map.get(name);
      map.set(name, [...(Array.isArray(list) ? list : []), value]);
      return;
    }
    const next = map.get(name);
    const child = isMap(next) ? new Map(next) : new Map<string, JsonTerm>();
    map.set(name, child);
    map = child;
  }
}

/** The text fields of a multipart body; a body that does not open with its boundary raises ServerCrash. */
export function parseMultipart(bytes: Buffer, boundary: string): TermMap {
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
