/** The exit codes; docs/reference.md explains each. */
export const exitCodes = {
  ok: 0,
  failed: 1,
  pending: 2,
  refused: 3,
  invalid: 4,
  partial: 5,
} as const;

/** What a run came to; the exit code follows from nothing else. */
export interface RunFacts {
  /** The manifests hold errors (with `--strict`, warnings too). */
  readonly invalid: boolean;
  /** A guard, a policy test, `--fail-on`, `--max-exposure`, or a stale saved plan said no. */
  readonly refused: boolean;
  /** A write reached the server. */
  readonly wrote: boolean;
  /** Something that should be done is not, or is not known to be. */
  readonly missing: boolean;
  /** Anything else went wrong: usage, settings, connection, token, declined. */
  readonly failed: boolean;
  /** The plan holds steps that were not carried out. */
  readonly pending: boolean;
  /** `--detailed-exitcode` */
  readonly detailed: boolean;
}

/** The first that applies: 4, 3, 5, 1, 2, 0; the same in every output mode. */
export function exitCodeOf(facts: RunFacts): number {
  if (facts.invalid) return exitCodes.invalid;
  if (facts.refused) return exitCodes.refused;
  if (facts.wrote && facts.missing) return exitCodes.partial;
  if (facts.failed || facts.missing) return exitCodes.failed;
  if (facts.pending && facts.detailed) return exitCodes.pending;
  return exitCodes.ok;
}

/** The exit code when not all that the run had to say could be written: what is there must not be taken for the whole. */
export function unwritten(code: number): number {
  return code === exitCodes.ok || code === exitCodes.pending ? exitCodes.failed : code;
}
