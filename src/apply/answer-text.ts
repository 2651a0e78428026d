import { isObject } from '../model/result.ts';
import type { ApiAnswer, ApiResult } from '../ports.ts';

/** One sentence on an answer or its absence, for a person; holds the server's field messages, cleaned and shortened. */
export function describeAnswer(result: ApiResult, request: string, nameField = (field: string) => field): string {
  return result.kind === 'no-answer' ? result.message : `${request}: ${describe(result, request, nameField)}`;
}

/** The server's messages by field, from `{"errors": {field: [message, …]}}` in any nesting; empty for other bodies. */
export function readFieldMessages(body: unknown): ReadonlyMap<string, readonly string[]> {
  const messages = new Map<string, readonly string[]>();
  for (const [field, value] of Object.entries(readErrors(body))) collect(messages, clean(field), value);
  return messages;
}

/** What a refusal says is wrong, as the server nests it. */
export function readErrors(body: unknown): Readonly<Record<string, unknown>> {
  const errors = isObject(body) ? body['errors'] : undefined;
  return isObject(errors) ? errors : {};
}

/** Whether the server refused the rule because it holds one that overlaps (observed: recordings/rule_overlap). */
export function isOverlap({ status, body }: ApiAnswer): boolean {
  if (status !== 422 && status !== 409) return false;
  return [...readFieldMessages(body).values()].flat().some((text) => /overlap/i.test(text));
}

function describe({ status, body }: ApiAnswer, request: string, nameField: (field: string) => string): string {
  if (status === 401) return `401, ${unauthorized(body)}`;
  if (status === 403) return '403, this token may not do this';
  if (status === 404) return '404, not found';
  if (status === 429) return '429, the server limits the rate of requests';
  // What is wrong with stored values, a server tells by quoting them.
  const told = request === 'GET /v0/configuration' ? [] : [...readFieldMessages(body)];
  // Some messages begin with the field's name, some need it in front.
  const messages = told.map(([field, texts]) => {
    const text = texts.join(', ');
    return text.startsWith(field) ? text : `${nameField(field)} ${text}`;
  });
  if (messages.length > 0) return `${status}, ${messages.join('; ')}`;
  if (status === 500 && body === undefined)
    return '500 without a body (this server answers so to most requests it cannot take)';
  return status < 300 ? `${status}, an answer that cannot be read` : `${status}`;
}

/** The ways in which the server refuses a token (observed: recordings/auth). */
function unauthorized(body: unknown): string {
  const { auth } = readErrors(body);
  if (auth === 'no_resource_found') return 'the API token has expired, was deleted, or its owner was; make a new one';
  if (auth === 'invalid_token') return 'the API token is not valid here: wrong server, damaged, or expired';
  if (auth === 'unauthenticated') return 'the server saw no API token (does a proxy remove the Authorization header?)';
  if (isObject(body) && body['error'] === 'Unauthorized') return "the API token's owner is not an administrator";
  return 'the API token was refused';
}

function collect(messages: Map<string, readonly string[]>, path: string, value: unknown): void {
  if (typeof value === 'string') {
    const text = /(^|[.\]])(client_secret|metadata)$/.test(path) ? withoutQuotes(value) : clean(value);
    messages.set(path, [...(messages.get(path) ?? []), text]);
  } else if (Array.isArray(value)) {
    // A list of texts belongs to the field; a list of objects is one per provider.
    for (const [index, item] of value.entries()) collect(messages, isObject(item) ? `${path}[${index}]` : path, item);
  } else if (isObject(value)) {
    for (const [field, inner] of Object.entries(value)) collect(messages, `${path}.${clean(field)}`, inner);
  }
}

/** The server's words about a secret field without what they quote of it (observed: recordings/configuration_saml). */
function withoutQuotes(text: string): string {
  if (/^(can't be blank|is invalid|is reserved)$/.test(text)) return text;
  const [, line, column] = /\{:line, ([0-9]+)\}, \{:col, ([0-9]+)\}/.exec(text) ?? [];
  if (line !== undefined) return `is invalid at its line ${line}, column ${column}`;
  return "is refused (the server's words are not shown: they may quote the secret)";
}

/** Remote text in one line, without control or direction characters, at most 300 characters. */
function clean(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}
