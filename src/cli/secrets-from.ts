import { decodeJsonObject } from '../model/result.ts';
import { type Failure, makeFailure, type Terminal } from './command.ts';
import type { SettingsFile } from './settings-schema.ts';

const timeoutMs = 30_000;
const mostBytes = 1_000_000;

export type PrintedSecrets = ReturnType<typeof keepSecrets>;

/** Printed secrets stand beside the environment, where variables win. Only names of secrets count: no secret may change a setting. */
export function keepSecrets(terminal: Terminal) {
  // It inherits from the environment, so that all variables are found in it.
  const printed: Record<string, string> = Object.create(terminal.env);
  return {
    terminal: { ...terminal, env: printed },
    /** Runs the command of these settings, if they have one; throws a `Failure` that holds nothing of its output. */
    async renew(file: SettingsFile): Promise<void> {
      const command = file.nested.secretsFrom;
      const secrets = command === undefined ? new Map<string, string>() : await runCommand(command, file, terminal);
      for (const name of Object.keys(printed)) if (!secrets.has(name)) delete printed[name];
      for (const [name, value] of secrets) if ((terminal.env[name] ?? '') === '') printed[name] = value;
    },
  };
}

async function runCommand(
  [program = '', ...args]: readonly string[],
  { folder, path, nested, lines }: SettingsFile,
  { env, stop }: Terminal,
): Promise<ReadonlyMap<string, string>> {
  const isSecret = (name: string): boolean => /^RECONCILE_(TOKEN|SECRET_[A-Za-z0-9_]+)$/.test(name);
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) if (value !== undefined && !isSecret(name)) given[name] = value;
  // Loaded on demand: most runs have no such command.
  const { runProcess } = await import('../adapters/run-process.ts');
  const bounds = { timeoutMs, maxOutput: mostBytes, signal: stop };
  const run = await runProcess({ program, args, cwd: folder, env: given, ...bounds });
  const where = `${path}:${lines?.get('secretsFrom') ?? 1}`;
  const hint = `run ${program} by hand in ${folder} to see why; nothing that it prints is shown here`;
  const wrong = (reason: string): Failure =>
    makeFailure('bad-setting', `the command of secretsFrom (${where}) ${reason}`, hint);
  if (run.end !== 'exit') throw wrong(endings[run.end]);
  if (run.code !== 0) throw wrong(`ended with ${run.code ?? 'a signal'}`);
  const secrets = readSecrets(run.stdout.toString('utf8'));
  if (secrets === null) throw wrong('printed neither a JSON object of texts nor lines of NAME=VALUE');
  const allowed = new Set(nested.secrets?.env ?? []);
  const known = [...secrets].filter(([name]) => isSecret(name) || allowed.has(name));
  if (known.length === 0)
    throw wrong('printed no secret by a known name: RECONCILE_TOKEN, RECONCILE_SECRET_…, or one of secrets.env');
  return new Map(known);
}

const endings = {
  timeout: `did not end within ${timeoutMs / 1000} seconds`,
  aborted: 'was stopped',
  'too-much-output': `printed more than ${mostBytes} bytes`,
  'not-started': 'cannot be started',
} as const;

/** Secrets by name from JSON or dotenv; null for any other text. */
export function readSecrets(text: string): ReadonlyMap<string, string> | null {
  if (!text.trimStart().startsWith('{')) return readDotenv(text);
  const secrets = decodeJsonObject(text);
  if (secrets === null) return null;
  const entries = Object.entries(secrets);
  const texts = entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value] as const] : []));
  return texts.length === entries.length ? new Map(texts) : null;
}

function readDotenv(text: string): ReadonlyMap<string, string> | null {
  const secrets = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*(#|$)/.test(line)) continue;
    const [, name, value = ''] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line) ?? [];
    if (name === undefined) return null;
    secrets.set(name, unquote(value.trim()));
  }
  return secrets;
}

function unquote(value: string): string {
  const [, quote, inner = ''] = /^(["'])(.*)\1$/.exec(value) ?? [];
  if (quote === undefined) return value;
  const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };
  return quote === "'" ? inner : inner.replace(/\\(.)/g, (_, letter: string) => escapes[letter] ?? letter);
}
