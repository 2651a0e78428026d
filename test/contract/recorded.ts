import { readFileSync } from 'node:fs';

/** One recorded HTTP exchange of the real server; steps without a request are observations. */
export interface Recorded {
  readonly scenario: string;
  readonly step: string;
  readonly request?: RecordedRequest;
  readonly response?: RecordedResponse;
  readonly before?: unknown;
  readonly after?: unknown;
  readonly readback?: unknown;
  readonly changed?: Readonly<Record<string, readonly [unknown, unknown]>>;
  readonly updated_at_changed?: boolean;
  readonly discovery_hits?: unknown;
  readonly observation?: unknown;
}

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly raw_body?: string;
}

interface RecordedResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** An exchange for sure: request and response are there. */
export type Exchange = Recorded & { readonly request: RecordedRequest; readonly response: RecordedResponse };

export function load(name: string): readonly Recorded[] {
  const text = readFileSync(new URL(`./recordings/${name}.json`, import.meta.url), 'utf8');
  return JSON.parse(keepNumbers(text)) as Recorded[];
}

const MARK = '\\u0000number:';

/** Numbers that JSON.parse would change (1.0 becomes 1, large ones lose digits) become marked texts. */
function keepNumbers(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g, (token) =>
    token.startsWith('"') || String(Number(token)) === token ? token : `"${MARK}${token}"`,
  );
}

/** A recorded body as JSON text, its numbers as they were written. */
export function bodyText(body: unknown): string {
  return JSON.stringify(body).replace(/"\\u0000number:([^"]*)"/g, '$1');
}

export function exchanges(name: string): readonly Exchange[] {
  return load(name).filter((item): item is Exchange => item.request !== undefined && item.response !== undefined);
}
