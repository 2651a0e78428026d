import type { Verdict } from '../controller/failure.ts';

/** The exit codes; docs/reference/commands.md explains each. */
export const exitCodes = {
  ok: 0,
  failed: 1,
  pending: 2,
  refused: 3,
  invalid: 4,
  partial: 5,
} as const;

/** What a run came to; the exit code follows from nothing else. What is absent is false. */
export interface RunFacts {
  /** The manifests hold errors (with `--strict`, warnings too). */
  readonly invalid?: boolean;
  /** A guard, a policy test, `--fail-on`, `--max-exposure`, `--suspend`, a window or a stale saved plan said no. */
  readonly refused?: boolean;
  /** A write reached the server. */
  readonly wrote?: boolean;
  /** Something that should be done or enforced is not, or is not known to be. */
  readonly missing?: boolean;
  /** Anything else went wrong: usage, settings, connection, token, declined. */
  readonly failed?: boolean;
  /** The plan holds steps that were not carried out. */
  readonly pending?: boolean;
  /** `--detailed-exitcode` */
  readonly detailed?: boolean;
}

/** One exit code: when it is given, and what it says. */
interface ExitRow {
  readonly code: number;
  readonly when: (facts: RunFacts) => boolean | undefined;
  readonly meaning: string;
}

/** The one table of exit codes, for every command, one-shot or watching: the first row that applies counts. */
export const exitTable: readonly ExitRow[] = [
  {
    code: exitCodes.invalid,
    when: ({ invalid }) => invalid,
    meaning: 'the manifests have errors; nothing was written',
  },
  { code: exitCodes.refused, when: (facts) => facts.refused, meaning: 'a guard or a policy test refused the plan' },
  {
    code: exitCodes.partial,
    when: (facts) => facts.wrote && facts.missing,
    meaning: 'something was written, and something is missing or not enforced',
  },
  {
    code: exitCodes.failed,
    when: (facts) => facts.failed || facts.missing,
    meaning: 'anything else: usage, settings, connection, token, a "no" to the question',
  },
  {
    code: exitCodes.pending,
    when: (facts) => facts.pending && facts.detailed,
    meaning: 'changes are pending (--detailed-exitcode, drift, watch --once)',
  },
  { code: exitCodes.ok, when: () => true, meaning: 'all is well' },
];

/** The exit code of what a run came to; the same in every output mode. */
export function chooseExitCode(facts: RunFacts): number {
  return exitTable.find(({ when }) => when(facts) === true)?.code ?? exitCodes.failed;
}

const pendingOnce: RunFacts = { pending: true, detailed: true };

/** What the last pass of `watch --once` came to, by the reason that its verdict gives; any other reason failed. */
const factsByReason: Partial<Readonly<Record<Verdict['reason'], RunFacts>>> = {
  Suspended: pendingOnce,
  DriftReported: pendingOnce,
  Waiting: pendingOnce,
  SecretMissing: pendingOnce,
  OutsideWindow: { refused: true },
  ClockDiffers: { refused: true },
  NotConfirmed: { refused: true },
  ManifestsInvalid: { invalid: true },
  Refused: { refused: true },
  ApplyFailed: { wrote: true, missing: true },
  NotConverging: { wrote: true, missing: true },
};

/** The exit code of a watch that ends after its first pass; `seen` is what counts where the pass itself went well. */
export function chooseVerdictExitCode({ kind, reason }: Pick<Verdict, 'kind' | 'reason'>, seen: RunFacts = {}): number {
  return chooseExitCode(kind === 'good' ? seen : (factsByReason[reason] ?? { failed: true }));
}

/** The exit code when not all that the run had to say could be written: what is there must not be taken for the whole. */
export function replaceExitCode(code: number): number {
  return code === exitCodes.ok || code === exitCodes.pending ? exitCodes.failed : code;
}
