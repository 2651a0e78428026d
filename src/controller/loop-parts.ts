import type { Outcome } from '../apply/outcome.ts';
import type { DesiredState } from '../model/state.ts';
import type { Approve, PassDependencies, PassResult } from '../pass/pass.ts';
import type { Window } from '../plan/guard/windows.ts';
import type { Clock, Logger, Source, SourceContent } from '../ports.ts';
import type { Lease } from './lease.ts';
import type { LoopObserver, Turn } from './observer.ts';
import type { LoopRecord, RecordStore } from './record.ts';
import type { Triggers } from './trigger.ts';

/** What a pass is to bring into effect, and what is known about it. */
export interface PassGoal extends Pick<PassDependencies, 'base' | 'waiting' | 'asked'> {
  readonly content: SourceContent;
  /**
   * It takes back what nobody confirmed, so that no guard holds it: by the content of the confirmed revision, or (`before`) by what
   * is recorded of the applies of the revision that the content names; after the former that is `rest`, with what that one `asked` for.
   */
  readonly back?: 'confirmed' | 'rest' | 'before' | undefined;
  readonly record: LoopRecord;
  /** The content waits to be confirmed, and was in effect already: what is written now is not its change. */
  readonly isHeld?: boolean | undefined;
}

/** What one pass of the loop asks of the pipeline. `part`: only that part; undefined: everything in scope. */
export interface LoopPassRequest extends PassGoal, Pick<PassDependencies, 'part' | 'stop'> {
  readonly serverWasDown: boolean;
  readonly approve: Approve;
  readonly onOutcome: (outcome: Outcome) => void;
}

/** What the operator set; re-read on SIGHUP. Times in ms. */
export interface LoopSettings {
  /** Between passes while all is well. */
  readonly intervalMs: number;
  /** Content must have been the same for this long before it counts; longer when rules would vanish. 0 for Git. */
  readonly quietMs: number;
  readonly deleteQuietMs: number;
  readonly requestTimeoutMs: number;
  readonly onDrift: 'correct' | 'report';
  readonly allowRewind: boolean;
  readonly suspended: boolean;
  /** How long a revision may wait to be confirmed; null: none has to be. */
  readonly confirmWithinMs: number | null;
  readonly windows: readonly Window[];
  /** So long before a rule begins or ends people are told. */
  readonly noticeMs: number;
}

export interface LoopParts {
  readonly source: Source;
  readonly pass: (request: LoopPassRequest) => Promise<PassResult>;
  /** Parses content that a pass may come to, so that the pass finds it parsed. Asks no server, says nothing, and never rejects. */
  readonly prepare: (content: SourceContent) => Promise<void>;
  /** The desired state of an earlier content, as of then (null: now), for attribution; null when it has errors. */
  readonly build: (content: SourceContent, at: number | null) => Promise<DesiredState | null>;
  /** Runs the command that confirms, once. Null: it ended with 0; otherwise what happened, for a person. Never rejects. */
  readonly confirm: (timeoutMs: number, signal: AbortSignal) => Promise<string | null>;
  readonly settings: () => LoopSettings;
  /** Why the operator's newest settings are not in force; null: they are. */
  readonly badSettings: () => string | null;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lease: Lease;
  /** Why this revision must not be begun yet, for people; null: it may be, and what is in force goes on. Absent: any may. */
  readonly hold?: (revision: string, stage: 'chosen' | 'first-write' | 'in-force') => string | null;
  readonly observer: LoopObserver;
  /** Tells people; returns at once and never throws. */
  readonly notify: (turn: Turn) => void;
  readonly store: RecordStore;
  readonly triggers: Triggers;
  /** The process ends. */
  readonly stop: AbortSignal;
  readonly version: string;
  /** The server's address, without credentials. */
  readonly server?: string;
  readonly degraded: () => boolean;
  readonly tokenExpiresAt: () => number | null;
}
