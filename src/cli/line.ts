import { resolve } from 'node:path';
import { answerError } from './answer.ts';
import type { Answer, ParsedLine, RawValues, Settings, SharedParts, Terminal } from './command.ts';
import { listOptions, makeFailure } from './command.ts';
import { readCommandOutputs } from './output.ts';
import { keepSecrets, type PrintedSecrets } from './secrets-from.ts';
import { settle } from './settings.ts';
import type { WatchInvocation } from './watch/invocation.ts';

/** The answer of a command about one server, and its settings where they are known. `adjust` may change these before they are used. */
export async function answerLine(
  { command, flags, operands }: ParsedLine,
  started: Terminal,
  adjust: (read: Settings) => Settings = (read) => read,
  shared?: SharedParts,
): Promise<{ readonly answer: Answer; readonly settings: Settings | null }> {
  let settings: Settings | null = null;
  try {
    const { terminal, renew } = keepSecrets(started);
    const secrets = listOptions(command).includes('tokenFile') ? renew : null;
    const load = command.name === 'status' ? loadFew : loadSettings;
    settings = adjust(await load(flags, terminal, secrets));
    readCommandOutputs(command, settings.output, terminal);
    // A line without the settings of the windows lacks their scope and guards too.
    if (settings.overrideWindow !== null && !settings.file?.nested.windows?.length)
      throw makeFailure('usage', 'there are no `windows` to override', 'name their settings: --config FILE');
    const { run } = await command.load();
    return { answer: await run({ operands, settings, terminal, ...(shared && { shared }) }), settings };
  } catch (error) {
    return { answer: await answerError(error, settings), settings };
  }
}

/** A watch of one server: its settings are loaded later, and again on SIGHUP. */
export function makeWatch({ flags, operands }: ParsedLine, started: Terminal): WatchInvocation {
  const { terminal, renew } = keepSecrets(started);
  return { flags, operands, load: () => loadSettings(flags, terminal, renew), renewSecrets: renew, terminal };
}

/** Of a sidecar one asks also while its settings are broken: what `status` uses of them, where they can be read; the probe uses none. */
async function loadFew(flags: RawValues, terminal: Terminal): Promise<Settings> {
  const env = { RECONCILE_LISTEN_TOKEN_FILE: terminal.env['RECONCILE_LISTEN_TOKEN_FILE'] };
  const few = { flags, env, cwd: terminal.cwd, file: null };
  return flags.probe ? settle(few) : await loadSettings(flags, terminal).catch(() => settle(few));
}

/** The settings of one run, read again when it is told to (SIGHUP); `renew` gets the secrets that they name a command for. */
export async function loadSettings(flags: RawValues, terminal: Terminal, renew: PrintedSecrets['renew'] | null = null) {
  const sources = { flags, env: terminal.env, cwd: terminal.cwd };
  const named = flags.config ?? (terminal.env['RECONCILE_CONFIG'] || null);
  // Loaded on demand: most runs have no settings file, and its schema is not small.
  const path = named === null ? null : resolve(terminal.cwd, String(named));
  const file = path === null ? null : (await import('./settings-file.ts')).readSettingsFile(path);
  const settings = settle({ ...sources, file });
  if (file?.nested.secretsFrom === undefined || renew === null || settings.snapshot !== null) return settings;
  await renew(file);
  return settle({ ...sources, file });
}
