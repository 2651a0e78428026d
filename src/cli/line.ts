import type { Answer, RawValues, Settings, SharedParts, Terminal } from './command.ts';
import { listOptions, type ParsedLine } from './command-spec.ts';
import { readCommandOutputs } from './output.ts';
import { keepSecrets, type PrintedSecrets } from './secrets-from.ts';
import { findSettingsFile, settle } from './settings.ts';
import type { WatchInvocation } from './watch/invocation.ts';

/** The answer of a command about one server. `adjust` sees its settings before they are used, and may change them. */
export async function answerLine(
  { command, flags, operands }: ParsedLine,
  started: Terminal,
  adjust: (read: Settings) => Settings,
  shared?: SharedParts,
): Promise<Answer> {
  const { terminal, renew } = keepSecrets(started);
  const asksServer = listOptions(command).includes('tokenFile');
  const settings = adjust(await loadSettings(flags, terminal, asksServer ? renew : null));
  readCommandOutputs(command, settings.output, terminal);
  const { run } = await command.load();
  return await run({ operands, settings, terminal, ...(shared === undefined ? {} : { shared }) });
}

/** A watch of one server: its settings are loaded later, and again on SIGHUP. */
export function makeWatch({ flags, operands }: ParsedLine, started: Terminal): WatchInvocation {
  const { terminal, renew } = keepSecrets(started);
  return { flags, operands, load: () => loadSettings(flags, terminal, renew), renewSecrets: renew, terminal };
}

/** The settings of one run, read again when it is told to (SIGHUP); `renew` gets the secrets that they name a command for. */
export async function loadSettings(
  flags: RawValues,
  terminal: Terminal,
  renew: PrintedSecrets['renew'] | null = null,
): Promise<Settings> {
  const sources = { flags, env: terminal.env, cwd: terminal.cwd };
  const path = findSettingsFile(sources);
  // Loaded on demand: most runs have no settings file, and its schema is not small.
  const file = path === null ? null : (await import('./settings-file.ts')).readSettingsFile(path);
  const settings = settle({ ...sources, file });
  if (file?.nested.secretsFrom === undefined || renew === null || settings.snapshot !== null) return settings;
  await renew(file);
  return settle({ ...sources, file });
}
