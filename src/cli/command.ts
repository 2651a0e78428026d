import type { ParseFiles } from '../desired/parse-files.ts';
import type { RunReport } from '../report/run-report.ts';
import type { Settings } from './settings.ts';

/** What a process lends to a command; a test lends its own. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdinIsTerminal: boolean;
  readonly stdoutIsTerminal: boolean;
  readonly stderrIsTerminal: boolean;
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
  /** Aborts on SIGINT and SIGTERM. */
  readonly stop: AbortSignal;
  /** Nothing stops this run: signals are only answered. */
  readonly unstoppable?: true;
  /** Calls for each SIGINT and SIGTERM; what it returns ends that. */
  readonly onSignal?: (listener: () => void) => () => void;
}

/** What runs that belong together have in common. */
export interface SharedParts {
  /** The parser of these settings for what lies in `root`, or where Git has it. */
  readonly parser: (settings: Settings, root: string | null) => ParseFiles;
}

/** A parsed command line with its settings. */
export interface Invocation {
  readonly operands: readonly string[];
  readonly settings: Settings;
  readonly terminal: Terminal;
  /** Absent: it runs by itself. */
  readonly shared?: SharedParts;
  /** Asked before each write leaves; absent: it may. */
  readonly mayWrite?: () => Promise<boolean>;
}

export interface TextDisplay {
  readonly color: boolean;
  /** Columns of the terminal that it is for. */
  readonly width?: number;
  /** On stdout, where what the command showed before already stands; false in a file. */
  readonly onScreen?: boolean;
}

/** What a command came to; it is written out in one place, `writeAnswer`, in every format asked for. */
export interface Answer {
  readonly exit: number;
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
  /** What it came to, in a line; absent: `report` says it. */
  readonly result?: string;
  /** What belongs beside the text, on stderr. */
  readonly notes?: (color: boolean) => string;
}

/** Runs a command; throws `Failure` for what ends it at once, nothing else. */
export type Run = (invocation: Invocation) => Promise<Answer>;
