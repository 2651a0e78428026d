import type { Problem } from './model/problem.ts';
import type { WireRule } from './model/rule.ts';

/** An answer with a status and a readable body (undefined when empty). `body` is parsed JSON, not yet validated. */
export interface ApiAnswer {
  readonly kind: 'answer';
  readonly status: number;
  readonly body: unknown;
  /** From Retry-After (seconds or date), in ms from now; null without. */
  readonly retryAfterMs: number | null;
  /** The server's clock, from the Date header, ms since 1970; absent without one that can be read. */
  readonly serverTime?: number;
  /** Of a list: the same object for the same bytes. */
  readonly version?: object;
}

/** No usable answer. `sent: 'no'`: the request cannot have reached the server; `maybe`: it may have been carried out. */
export interface NoAnswer {
  readonly kind: 'no-answer';
  readonly sent: 'no' | 'maybe';
  /** Stable word: `refused`, `reset`, `timeout`, `dns`, `tls`, `torn-body`, `not-json`, `too-large`, `redirect`, `aborted`, `lease`. */
  readonly code: string;
  /** One clear sentence for a person, without secrets. */
  readonly message: string;
  /** Status of an answer whose body was unusable (an HTML login page with 200); null when none was seen. */
  readonly status: number | null;
}

export type ApiResult = ApiAnswer | NoAnswer;

/** The administration API, one call a method, no retries; never throws for what the network or server does. */
export interface LiveApi {
  /** `known`: the version of the last answer. The same bytes again come without a body: nothing has to be made of them. */
  listRules(signal: AbortSignal, known?: object): Promise<ApiResult>;
  getConfiguration(signal: AbortSignal): Promise<ApiResult>;
  listUsers(signal: AbortSignal): Promise<ApiResult>;
  createRule(rule: WireRule, signal: AbortSignal): Promise<ApiResult>;
  updateRule(id: string, fields: Partial<WireRule>, signal: AbortSignal): Promise<ApiResult>;
  deleteRule(id: string, signal: AbortSignal): Promise<ApiResult>;
  /** `body` may hold `Secret`s; only the adapter reveals them, into the request's bytes. */
  updateConfiguration(body: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ApiResult>;
}

/** Time and chance. `now` is monotonic (ms); `wallTime` is for people (ms since 1970); `random` is in [0, 1). */
export interface Clock {
  now(): number;
  wallTime(): number;
  random(): number;
  /** Resolves after `ms`, or at once when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export type LogFields = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** Structured log. Messages are constant sentences; what varies is in the fields. Never given a secret. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

/** One file of the source. `path` is relative to the manifest root, with `/`. */
export interface SourceFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  /** SHA-256 of the bytes, hex: the key under which parsed files are kept. */
  readonly hash: string;
}

/** The source's content at one revision: a commit id, or a digest of the directory's content. */
export interface SourceContent {
  readonly revision: string;
  /** The name of the commit's author, where there is a commit. */
  readonly author?: string;
  readonly files: readonly SourceFile[];
  /** On files beside the manifests that are not read. */
  readonly notes?: readonly Problem[];
  /** Whether a file that manifests name is a link in the commit, or lies behind one: it is not among the files. */
  readonly isLinked?: boolean;
}

/** What reading a source gave. Without content the problems say why. */
export interface SourceReading {
  readonly content: SourceContent | null;
  readonly problems: readonly Problem[];
  /** The revision that was seen, also when its content was not accepted (a commit with a bad signature). */
  readonly observed?: string;
}

/** When revisions were first seen, ms since 1970. Signatures are checked as of then; of any other revision, as of now. */
export type FirstSeen = Readonly<Record<string, number>>;

/** Where manifests come from. Problems (unreadable file, nothing there, too large) are collected, never thrown. */
export interface Source {
  readonly description: string;
  read(signal: AbortSignal, firstSeen?: FirstSeen): Promise<SourceReading>;
  /** The content of an earlier revision; the remote is asked only when it is not here. Absent where only the newest can be read. */
  readAt?(revision: string, signal: AbortSignal, firstSeen?: FirstSeen): Promise<SourceReading>;
  /** Whether `to` holds `from` in its history; absent where revisions have no order (a directory). */
  descends?(from: string, to: string, signal: AbortSignal): Promise<Descent>;
}

/** `unknown`: the history ends before it tells. `unasked`: the rest of the history could not be read just now. */
export type Descent = 'yes' | 'no' | 'unknown' | 'unasked';

/** Append-only record of steps before and after they are sent, synced to disk; holds no secret. */
export interface Journal {
  /** Where it lies, for messages. */
  readonly path: string;
  write(entry: JournalEntry): Promise<void>;
}

export interface JournalEntry {
  readonly event: 'pass-started' | 'window-overridden' | 'step-started' | 'step-ended' | 'pass-ended';
  /** Why no window had to be open. */
  readonly reason?: string;
  readonly step?: string;
  readonly method?: string;
  readonly path?: string;
  /** The rule's canonical key (`formatRuleKey`), so that a person can read the journal without the plan. */
  readonly rule?: string;
  /** What manifests call the rule, and where: `rules.yaml:3`. */
  readonly name?: string;
  readonly place?: string;
  /** The revision that asks for it, and the plan's digest. */
  readonly revision?: string;
  readonly plan?: string;
  /** The gap that the step opens or closes. */
  readonly gap?: string;
  /** With the first step of a gap: the rules whose creation closes it. */
  readonly owes?: readonly string[];
  readonly outcome?: string;
  readonly status?: number | null;
}
