import { attempt } from '../../model/result.ts';
import type { ApiAnswer, ApiResult, NoAnswer } from '../../ports.ts';
import type { BaseUrl } from './base-url.ts';
import type { RawAnswer } from './exchange.ts';

/** Makes something of the text of an answer; throws where it is no JSON. */
export type ParseBody = (text: string) => Pick<ApiAnswer, 'body' | 'version'>;

/** Objects, lists and commas in one answer: 150,000 rules have some 1,400,000. Parsing keeps less than 200 MB of so many. */
const mostParts = 2_000_000;

/** Whether parsing the text makes few values: 64 MB of `[],`, or of members with other names each, would become gigabytes. */
function isOfFewParts(text: string): boolean {
  let parts = 0;
  for (const mark of ['{', '[', ',']) {
    for (let at = text.indexOf(mark); at >= 0 && parts <= mostParts; at = text.indexOf(mark, at + 1)) parts++;
  }
  return parts <= mostParts;
}

/** Turns a response to `where` into an answer. A success, and a 404, count only as JSON; an error status with whatever body. */
export function readAnswer(where: string, answer: RawAnswer, base: BaseUrl, parse: ParseBody): ApiResult {
  const { status, headers, text } = answer;
  const lose = (code: string, because: string): NoAnswer => {
    return { kind: 'no-answer', sent: 'maybe', code, message: `${where}: ${because}`, status };
  };
  const serverTime = Date.parse(first(headers['date']) ?? '');
  const retryAfterMs = retryAfter(first(headers['retry-after']));
  const time = Number.isNaN(serverTime) ? {} : { serverTime };
  const bare: ApiAnswer = { kind: 'answer', status, body: undefined, retryAfterMs, ...time };
  if (status >= 300 && status < 400) {
    return lose('redirect', redirectText(first(headers['location']), base));
  }
  const tooLarge = lose('too-large', 'the answer is larger than the limit');
  if (!isOfFewParts(text)) return tooLarge;
  if (text === '') return bare;
  const bodyCounts = status < 300 || status === 404;
  const isJson = /^application\/([a-z0-9.+-]+\+)?json\s*(;|$)/i.test(first(headers['content-type']) ?? '');
  if (!isJson) {
    if (!bodyCounts) return bare;
    return lose('not-json', `the answer (${status}) is not JSON but ${kindOf(text)}; is the base URL right?`);
  }
  if (status >= 300 && text.length > 65_536) return bodyCounts ? tooLarge : bare;
  const torn = bodyCounts ? lose('torn-body', `the answer (${status}) is not complete JSON`) : bare;
  return attempt(() => ({ ...bare, ...parse(text) }), torn);
}

/** Only the host is told: a redirect's path and query may carry a session. */
function redirectText(location: string | undefined, base: BaseUrl): string {
  const here = `${base.origin}${base.prefix}/`;
  if (location === undefined || !URL.canParse(location, here)) return 'the server answered with a redirect to nowhere';
  const target = new URL(location, here);
  const where = target.host === base.host ? `${target.protocol}//${target.host} itself` : target.host;
  return `the server redirects to ${where}; redirects are not followed, so give the final base URL`;
}

function kindOf(text: string): string {
  return /^\s*(<!doctype html|<html)/i.test(text) ? 'an HTML page' : 'something else';
}

function first(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

/** Retry-After in ms from now: seconds, or a date. Null when absent or unreadable. */
function retryAfter(header: string | undefined): number | null {
  if (header === undefined) return null;
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - Date.now());
}
