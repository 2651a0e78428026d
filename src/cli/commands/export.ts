import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import { makeFolder } from '../../adapters/make-folder.ts';
import { replaceFile } from '../../adapters/replace-file.ts';
import { defaultApplyLimits } from '../../apply/context.ts';
import { type ReadContext, readLive, readUsers } from '../../apply/read.ts';
import {
  describeCopies,
  type ExportedFile,
  exportRules,
  findNameableEmails,
  removeCopies,
} from '../../desired/export.ts';
import { type ExportedConfiguration, exportConfiguration } from '../../desired/export-configuration.ts';
import { inScope } from '../../desired/scope.ts';
import type { LiveUser } from '../../live/live-rules.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import { compareText, type Problem } from '../../model/problem.ts';
import type { LiveRule } from '../../model/rule.ts';
import type { LiveState } from '../../model/state.ts';
import { problemsText } from '../../report/problems.ts';
import { count } from '../../report/summary.ts';
import type { Invocation } from '../command.ts';
import { exitCodes } from '../exit-code.ts';
import { Failure, failure } from '../failure.ts';
import { loggerOf } from '../logger.ts';
import { wantsColor } from '../output.ts';
import { profileOf, scopeOf } from '../plan-settings.ts';
import { explainReadFailure } from '../read-failure.ts';
import { wireApi } from '../wire.ts';

/**
 * `reconcile export [--out DIR]`: the live state in scope as manifests; a plan of them is empty. Without `--out` the YAML goes to
 * stdout. Files that say something else already are not overwritten without `--force`.
 */
export async function run(invocation: Invocation): Promise<number> {
  const { settings, terminal } = invocation;
  const profile = profileOf(settings);
  const { live, users } = await readServer(invocation);
  const selected = selectRules(live.rules, users, settings.user);
  const wanted = removeCopies(selected);
  const emails = findNameableEmails(users);
  const mayCollide = !profile.refusesCollisions;
  const rules = scopeOf(settings).rules ? exportRules(wanted, { emails, mayCollide }) : [];
  const withConfiguration = live.configuration !== null && settings.user.length === 0;
  const configuration = withConfiguration ? exportConfiguration(live.configuration.fields, profile) : nothing;
  if (settings.out === null) toStdout(invocation, [...configuration.files, ...rules]);
  else await toDirectory(invocation, settings.out, [...configuration.files, ...rules]);
  const color = wantsColor(settings, terminal, terminal.stderrIsTerminal);
  const problems = [...describeCopies(selected.length - wanted.length), ...configuration.problems];
  terminal.stderr(problemsText(problems, color) + secretsText(configuration));
  return exitCodes.ok;
}

const nothing: ExportedConfiguration = { files: [], problems: [], unfit: [], secrets: [] };

interface ServerState {
  readonly live: LiveState;
  readonly users: readonly LiveUser[];
}

async function readServer(invocation: Invocation): Promise<ServerState> {
  const { settings, terminal } = invocation;
  const { api, token } = wireApi(invocation);
  const context: ReadContext = {
    api,
    clock: systemClock,
    logger: await loggerOf(invocation),
    attempts: defaultApplyLimits.attempts,
    signal: terminal.stop,
  };
  try {
    const scope = scopeOf(settings);
    const read = await readLive(context, { ...scope, configuration: scope.configuration && !settings.rulesOnly }, null);
    if (!read.ok) throw new Failure([explainReadFailure(read.error, token.read, systemClock.wallTime())]);
    const live = { ...read.value.live, rules: read.value.live.rules.filter(({ rule }) => inScope(rule, scope)) };
    const namesUsers = profileOf(settings).listsUsers && live.rules.some(({ rule }) => rule.userId !== null);
    const users = namesUsers ? await readUsers(context) : null;
    // Without the list of users rules name them by UUID, which means the same.
    return { live, users: users?.ok === true ? users.value : [] };
  } finally {
    await api.close();
  }
}

/** The rules of the users asked for (an e-mail address, a UUID, or `nobody` for global rules); all without a wish. */
function selectRules(
  rules: readonly LiveRule[],
  users: readonly LiveUser[],
  wishes: readonly string[],
): readonly LiveRule[] {
  if (wishes.length === 0) return rules;
  const ids = new Set(
    wishes.map((wish) => {
      if (wish === 'nobody') return null;
      const id = users.find((user) => user.email === wish.toLowerCase())?.id ?? wish.toLowerCase();
      if (users.some((user) => user.id === id) || rules.some(({ rule }) => rule.userId === id)) return id;
      throw failure('unknown-user', `no rule is for ${wish}`, 'name a user by e-mail address or UUID, or `nobody`');
    }),
  );
  return rules.filter(({ rule }) => ids.has(rule.userId));
}

function toStdout({ terminal }: Invocation, files: readonly ExportedFile[]): void {
  const isManifest = ({ path }: ExportedFile): boolean => path.endsWith('.yaml');
  terminal.stdout(
    files
      .filter(isManifest)
      .map(({ text }) => text)
      .join('---\n'),
  );
  const left = files.filter((file) => !isManifest(file)).map(({ path }) => path);
  if (left.length > 0) terminal.stderr(`Not written without --out: ${left.join(', ')}\n`);
}

async function toDirectory(
  { settings, terminal }: Invocation,
  out: string,
  files: readonly ExportedFile[],
): Promise<void> {
  const differing = files.filter(({ path, text }) => (contentAt(join(out, path)) ?? text) !== text);
  if (differing.length > 0 && !settings.force) {
    throw failure(
      'would-overwrite',
      `${differing.map(({ path }) => join(out, path)).join(', ')} would be overwritten`,
      'export to an empty directory and compare, or give --force',
    );
  }
  for (const { path, text } of files) {
    if (contentAt(join(out, path)) !== text) await writeExported(join(out, path), text);
    terminal.stdout(`${join(out, path)}\n`);
  }
  terminal.stderr(`${count(files.length, 'file')} written to ${out}.\n`);
  const others = otherManifests(
    out,
    files.map(({ path }) => path),
  );
  if (others.length === 0) return;
  const color = wantsColor(settings, terminal, terminal.stderrIsTerminal);
  const shown = others.slice(0, 5).join(', ') + (others.length > 5 ? ` and ${others.length - 5} more` : '');
  const problem: Problem = {
    code: 'other-manifests',
    severity: 'warning',
    summary: `${out} holds ${count(others.length, 'manifest')} that this export did not write: ${shown}.`,
    hint: 'A plan of the directory counts them too: delete what is left of an earlier export.',
  };
  terminal.stderr(problemsText([problem], color));
}

async function writeExported(path: string, text: string): Promise<void> {
  try {
    await makeFolder(dirname(path));
    // SAML metadata is treated as a secret everywhere else, so here too.
    await replaceFile(path, text, path.endsWith('.yaml') ? 0o644 : 0o600);
  } catch (error) {
    throw unwritable(path, error);
  }
}

function unwritable(path: string, error: unknown): Failure {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  const why = code === 'ENOTDIR' || code === 'EEXIST' ? ': a file stands where a directory should be' : ` (${code})`;
  return failure('output', `${path} cannot be written${why}`, 'check --out');
}

/** Manifests below the directory that are not among the paths given; those that a source would read. */
function otherManifests(out: string, written: readonly string[]): readonly string[] {
  const known = new Set(written);
  return readdirSync(out, { recursive: true, encoding: 'utf8' })
    .map((path) => path.split(sep).join('/'))
    .filter((path) => isManifestPath(path) && !known.has(path) && !path.split('/').some((part) => part.startsWith('.')))
    .sort(compareText);
}

function contentAt(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw unwritable(path, error);
  }
}

function secretsText({ secrets }: ExportedConfiguration): string {
  if (secrets.length === 0) return '';
  const names = secrets.map((name) => `  ${name}\n`).join('');
  return `Client secrets are not exported. Until you change a provider nothing needs them; then set:\n${names}`;
}
