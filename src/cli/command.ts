import type { Verdict } from '../controller/pass-ending.ts';
import type { ParseFiles } from '../desired/parse-files.ts';
import type { Problem } from '../model/problem.ts';
import type { ProblemCode } from '../model/problem-code.ts';
import type { Result } from '../model/result.ts';
import type { LogFields } from '../ports.ts';
import type { RunReport } from '../report/run-report.ts';
import { listGroup, type OptionName, type OptionSpec, type OptionsTable } from './options.ts';
import type { SettingsFile } from './settings-schema.ts';

type Plain = { switch: boolean; list: readonly string[]; paths: readonly string[]; count: number; duration: number };
type GivenValue<S extends OptionSpec> = S extends { readonly choices: readonly (infer C)[] }
  ? S['kind'] extends 'list'
    ? readonly C[]
    : C
  : S['kind'] extends keyof Plain
    ? Plain[S['kind']]
    : string;
/** What is neither given nor has a default is null; a switch is off then, and a list empty. */
type ValueOf<S extends OptionSpec> = S extends
  | { readonly default: unknown }
  | { readonly kind: 'switch' | 'list' | 'paths' }
  ? GivenValue<S>
  : GivenValue<S> | null;

export type OptionValues = { readonly [K in OptionName]: ValueOf<OptionsTable[K]> };

/** Every option's value: flag, then `RECONCILE_…`, then the settings file, then the default. Paths are absolute. */
export interface Settings extends OptionValues {
  /** What only the settings file can say; null without one. */
  readonly file: SettingsFile | null;
  /** Where each option was given that was not left to its default: the flag, the variable, or FILE:LINE. */
  readonly origins: ReadonlyMap<OptionName, string>;
}

/** Values by option name as a flag, a variable or the settings file gave them, before they are checked. */
export type RawValues = Readonly<Partial<Record<OptionName, unknown>>>;

/** What a process lends to a command; a test lends its own. */
export interface Terminal extends Readonly<Record<`${'stdin' | 'stdout' | 'stderr'}IsTerminal`, boolean>> {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Columns of the terminal, where stdout or stderr is one. */
  readonly columns?: number;
  readonly stdout: (text: string) => void;
  /** Resolves when whoever reads stdout has taken what was written: for a text too long to be kept. */
  readonly stdoutTaken?: () => Promise<void>;
  readonly stderr: (text: string) => void;
  /** Shows the question and reads one line; null when input ends or a signal comes first. A function gives it anew each second. */
  readonly ask: (question: string | (() => string), signal: AbortSignal) => Promise<string | null>;
  /** All of stdin; null when it is larger than `largest` bytes. */
  readonly readStdin?: (largest: number) => Promise<Uint8Array | null>;
  /** Aborts on SIGINT and SIGTERM, and when the terminal goes away. */
  readonly stop: AbortSignal;
  /** Nothing stops this run: signals are only answered. */
  readonly unstoppable?: true;
  /** Calls for each SIGINT and SIGTERM; what it returns ends that. */
  readonly onSignal?: (listener: () => void) => () => void;
  /** Calls for each SIGHUP, which then stops nothing; what it returns ends that. */
  readonly onHangUp?: (listener: () => void) => () => void;
}

/** What runs that belong together have in common. */
export interface SharedParts {
  /** The parser of these settings for what lies in `root`, or where Git has it. */
  readonly parser: (settings: Settings, root: string | null) => ParseFiles;
  /** What each line of its log says of it. */
  readonly labels?: LogFields;
}

export interface Invocation {
  readonly operands: readonly string[];
  readonly settings: Settings;
  readonly terminal: Terminal;
  /** Absent: it runs by itself. */
  readonly shared?: SharedParts;
  /** Asked before each write leaves (null: nobody can tell); absent: it may. */
  readonly mayWrite?: () => Promise<boolean | null>;
}

export interface TextDisplay {
  readonly color: boolean;
  readonly width?: number;
  /** On stdout, where what the command showed before already stands; false in a file. */
  readonly onScreen?: boolean;
}

/** What a command came to; it is written out in one place, `writeAnswer`, in every format asked for. */
export interface Answer {
  /** Absent: all is well. */
  readonly exit?: number;
  /** Rows of cells, the first being headings: the text, CSV and Markdown of an answer that is a table. */
  readonly table?: () => readonly (readonly string[])[];
  /** For a person; absent where the command streamed what it had to say. */
  readonly text?: (display: TextDisplay) => string;
  /** There is only what went wrong: the text goes to stderr instead of stdout. */
  readonly failed?: boolean;
  /** The JSON document; absent: that of `report`. */
  readonly document?: () => string;
  /** For Markdown and GitHub. */
  readonly report?: () => RunReport;
  /** In formats that it has words of its own for. */
  readonly rendered?: Readonly<Record<string, () => string>>;
  /** What it came to, in a line; absent: `report` says it. */
  readonly result?: string;
  /** What belongs beside the text, on stderr. */
  readonly notes?: (color: boolean) => string;
}

export type Format = OptionsTable['output']['words'][number];

/** One command: its words, its options, and where its code is; loaded only when it runs. */
export interface CommandSpec {
  readonly name: string;
  readonly summary: string;
  /** Operands as `--help` shows them; `[NAME]` may be left out, `...` may be repeated. */
  readonly operands: string;
  /** Its options beside the common ones. */
  readonly options: readonly OptionName[];
  readonly examples: readonly [string, string];
  /** What `--output` may ask of it; empty: it prints one thing and has no `--output`. */
  readonly formats: readonly Format[];
  /** `run` throws a `Failure` for what ends the command at once, nothing else. */
  readonly load: () => Promise<{ readonly run: (invocation: Invocation) => Promise<Answer> }>;
}

export interface ParsedLine {
  readonly command: CommandSpec;
  readonly operands: readonly string[];
  readonly flags: RawValues;
}

export function listOptions(spec: CommandSpec): readonly OptionName[] {
  const common = listGroup('common').filter((name) => name !== 'output' || spec.formats.length > 0);
  return [...spec.options, ...common];
}

export const exitCodes = { ok: 0, failed: 1, pending: 2, refused: 3, invalid: 4, partial: 5 } as const;

/** What a run came to; the exit code follows from nothing else. What is absent is false. */
export interface RunFacts {
  /** The manifests hold errors (with `--strict`, warnings too). */
  readonly invalid?: boolean;
  /** A guard, a policy test, `--fail-on`, `--max-exposure`, `--suspend`, a window or a stale saved plan said no. */
  readonly refused?: boolean;
  readonly wrote?: boolean;
  /** Something that should be done or enforced is not, or is not known to be. */
  readonly missing?: boolean;
  /** Anything else went wrong: usage, settings, connection, token, declined. */
  readonly failed?: boolean;
  /** The plan holds steps that were not carried out. */
  readonly pending?: boolean;
  readonly detailed?: boolean;
}

/** The one table of exit codes, for every command, one-shot or watching: the first row that applies counts. */
export const exitTable = [
  { code: exitCodes.invalid, when: (facts) => facts.invalid, meaning: 'manifests have errors; nothing was written' },
  { code: exitCodes.refused, when: (facts) => facts.refused, meaning: 'refused by a guard, test or window; went back' },
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
] satisfies readonly { code: number; when: (facts: RunFacts) => boolean | undefined; meaning: string }[];

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

/** Ends a command at once: a problem for a person and the exit code. */
export class Failure extends Error {
  override readonly name = 'Failure';
  readonly problems: readonly Problem[];
  readonly exitCode: number;

  constructor(problems: readonly Problem[], exitCode: number = exitCodes.failed) {
    super(problems.map((problem) => problem.summary).join('; '));
    this.problems = problems;
    this.exitCode = exitCode;
  }
}

/** A failure of one problem: usage, settings, connection, token. Exit 1, unless another is named. */
export function makeFailure(code: ProblemCode, summary: string, hint?: string, exit?: number): Failure {
  return new Failure([{ code, severity: 'error', summary, ...(hint === undefined ? {} : { hint }) }], exit);
}

/** Whether a job of CI runs this. */
export function isJob(env: Terminal['env']): boolean {
  return !['', 'false', undefined].includes(env['CI']);
}

/** The value; throws a `Failure` with the problem that stands in its place. */
export function mustRead<T>(result: Result<T, Problem>): T {
  if (result.ok) return result.value;
  throw new Failure([result.error]);
}

/** The value; throws a `Failure` with the sentence that stands in its place. */
export function mustHave<T>(result: Result<T, string>, code: ProblemCode, hint?: string): T {
  if (result.ok) return result.value;
  throw makeFailure(code, result.error, hint);
}
