import type { Problem } from '../model/problem.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import { exitCodes } from './exit-code.ts';

/** Ends a command at once: a problem for a person and the exit code. */
export class Failure extends Error {
  readonly problems: readonly Problem[];
  readonly exitCode: number;

  constructor(problems: readonly Problem[], exitCode: number = exitCodes.failed) {
    super(problems.map((problem) => problem.summary).join('; '));
    this.name = 'Failure';
    this.problems = problems;
    this.exitCode = exitCode;
  }
}

/** A failure of one problem: usage, settings, connection, token. Exit 1, unless another is named. */
export function makeFailure(code: ProblemCode, summary: string, hint?: string, exit?: number): Failure {
  return new Failure([{ code, severity: 'error', summary, ...(hint === undefined ? {} : { hint }) }], exit);
}
