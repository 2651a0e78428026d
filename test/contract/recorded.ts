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

export interface RecordedResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** An exchange for sure: request and response are there. */
export type Exchange = Recorded & { readonly request: RecordedRequest; readonly response: RecordedResponse };

export function load(name: string): readonly Recorded[] {
  return JSON.parse(readFileSync(new URL(`./recordings/${name}.json`, import.meta.url), 'utf8')) as Recorded[];
}

export function exchanges(name: string): readonly Exchange[] {
  return load(name).filter((item): item is Exchange => item.request !== undefined && item.response !== undefined);
}
