import type { ProblemCode } from './problem-code.ts';
/** `error` stops the run (exit 4), `warning` does not unless `--strict`, `note` informs. */
export type Severity = 'error' | 'warning' | 'note';

/** A place in a manifest. `line` and `column` count from 1 (0: no manifest has it); `file` is relative to the root, with `/`. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** A finding for a person: a stable `code` that the docs explain, one sentence, and what to do. No part of it ever holds a secret. */
export interface Problem {
  readonly code: ProblemCode;
  readonly severity: Severity;
  readonly summary: string;
  readonly hint?: string;
  readonly place?: Place;
  /** Other places that matter, such as the first of two duplicates. */
  readonly related?: readonly { readonly place: Place; readonly note: string }[];
  /** The manifest line at `place` for the caret display; absent when the line may hold a secret. */
  readonly excerpt?: string;
}

/** An error for a person; without a place it stands nowhere in a manifest. */
export function makeError(code: ProblemCode, summary: string, hint: string, place?: Place): Problem {
  return { code, severity: 'error', summary, hint, ...(place && place.line > 0 && { place }) };
}

export function makeWarning(...told: Parameters<typeof makeError>): Problem {
  return { ...makeError(...told), severity: 'warning' };
}

export function makeNote(...told: Parameters<typeof makeError>): Problem {
  return { ...makeError(...told), severity: 'note' };
}

/** The problem with another place that matters, and what that is: of something that stands in two places, the first of them. */
export function relateTo(problem: Problem, place: Place, note = 'the first one'): Problem {
  return { ...problem, related: [{ place, note }] };
}

/** Whether any problem stops the run. */
export function hasErrors(problems: readonly Problem[]): boolean {
  return problems.some((problem) => problem.severity === 'error');
}

export function raiseWarnings(problems: readonly Problem[]): readonly Problem[] {
  return problems.map((problem) => (problem.severity === 'warning' ? { ...problem, severity: 'error' } : problem));
}

/** Orders problems by file, line, column, code, summary: the one order of every output. */
export function compareProblems(a: Problem, b: Problem): number {
  return (
    compareText(a.place?.file ?? '', b.place?.file ?? '') ||
    (a.place?.line ?? 0) - (b.place?.line ?? 0) ||
    (a.place?.column ?? 0) - (b.place?.column ?? 0) ||
    compareText(a.code, b.code) ||
    compareText(a.summary, b.summary)
  );
}

/** Compares two texts by code unit: the same on every machine and in every locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
