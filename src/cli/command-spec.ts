import type { Run } from './command.ts';
import type { OptionName } from './options.ts';
import type { Format } from './output.ts';
import type { RawValues } from './settings.ts';

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
  /** What its name says already: it is the command without a name, with these flags. */
  readonly implies?: RawValues;
  /** What a shell completes its operands with; absent: directories. */
  readonly completes?: 'files' | readonly string[];
  /** What `--output` may ask of it; empty: it prints one thing and has no `--output`. */
  readonly formats: readonly Format[];
  readonly load: () => Promise<{ readonly run: Run }>;
}
