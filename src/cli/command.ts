import type { Settings } from './settings.ts';

/** What a process lends to a command; a test lends its own. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdinIsTerminal: boolean;
  readonly stdoutIsTerminal: boolean;
  readonly stderrIsTerminal: boolean;
  readonly stdout: (text: string) => void;
  /** Resolves when whoever reads stdout has taken what was written: for a text too long to be kept. */
  readonly stdoutTaken?: () => Promise<void>;
  readonly stderr: (text: string) => void;
  /** Shows the question and reads one line; null when input ends or a signal comes first. */
  readonly ask: (question: string, signal: AbortSignal) => Promise<string | null>;
  /** Aborts on SIGINT and SIGTERM. */
  readonly stop: AbortSignal;
}

/** A parsed command line with its settings. */
export interface Invocation {
  readonly operands: readonly string[];
  readonly settings: Settings;
  readonly terminal: Terminal;
}

/** Runs a command and gives the exit code; throws `Failure` for what ends it at once, nothing else. */
export type Run = (invocation: Invocation) => Promise<number>;
