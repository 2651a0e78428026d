import { parseArguments } from '../../src/cli/arguments.ts';
import type { Settings } from '../../src/cli/command.ts';
import { settle } from '../../src/cli/settings.ts';

/** Takes a command line of a shipped file as the command itself would; throws where it would refuse it. */
export function settingsOf(argv: readonly string[]): Settings & { readonly command: string } {
  const parsed = parseArguments(argv);
  if (parsed.kind !== 'run') throw new Error(`not a command to run: ${argv.join(' ')}`);
  return { ...settle({ flags: parsed.flags, env: {}, cwd: '/', file: null }), command: parsed.command.name };
}
