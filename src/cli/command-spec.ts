import type { RawValues, Run } from './command.ts';
import { namesOf, type OptionName } from './options.ts';
import type { Format } from './output.ts';

/** One command: its words, its options, and where its code is; loaded only when it runs. */
export interface CommandSpec {
  readonly name: string;
  readonly summary: string;
  /** Operands as `--help` shows them; `[NAME]` may be left out, `...` may be repeated. */
  readonly operands: string;
  /** Its options beside the common ones. */
  readonly options: readonly OptionName[];
  /** Two command lines that show it. */
  readonly examples: readonly [string, string];
  /** What `--output` may ask of it; empty: it prints one thing and has no `--output`. */
  readonly formats: readonly Format[];
  readonly load: () => Promise<{ readonly run: Run }>;
}

/** A parsed command line. */
export interface ParsedLine {
  readonly command: CommandSpec;
  readonly operands: readonly string[];
  readonly flags: RawValues;
}

/** All options that a command takes. */
export function listOptions(spec: CommandSpec): readonly OptionName[] {
  const common = spec.formats.length > 0 ? namesOf.common : namesOf.common.filter((name) => name !== 'output');
  return [...spec.options, ...common];
}
