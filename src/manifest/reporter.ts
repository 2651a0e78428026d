import type { Problem } from '../model/problem.ts';
import type { Locator } from './node.ts';

/** A problem before it has its place. */
export type Unplaced = Omit<Problem, 'place' | 'excerpt'>;

/** Collects the problems of one file. Warnings and notes may be switched off later; errors may not. */
export interface Reporter {
  readonly locator: Locator;
  /** Adds a problem at an offset, with the line for the caret where that is safe. */
  add(problem: Unplaced, offset: number): void;
  readonly problems: Problem[];
}

/** A problem whose place is still an offset. */
export interface Finding {
  readonly problem: Unplaced;
  readonly offset: number;
  /** The field that is missing here, or that was meant by another. */
  readonly missing?: string;
  readonly meant?: string;
}
