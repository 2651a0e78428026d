import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { readLive, readUsers } from '../../apply/read.ts';
import {
  addEditorSchema,
  describeCopies,
  type ExportedFile,
  exportRules,
  findNameableEmails,
  removeCopies,
} from '../../desired/export.ts';
import { type ExportedConfiguration, exportConfiguration } from '../../desired/export-configuration.ts';
import type { LiveUser } from '../../live/live-rules.ts';
import { makeManifestSchema, printSchema } from '../../manifest/json-schema.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import { joinSome } from '../../model/printable.ts';
import { compareText, makeWarning } from '../../model/problem.ts';
import { getErrorCode } from '../../model/result.ts';
import type { LiveRule } from '../../model/rule.ts';
import { isInScope, type Scope } from '../../model/state.ts';
import { renderProblems } from '../../report/problems.ts';
import { count } from '../../report/summary.ts';
import { type Answer, type Invocation, makeFailure } from '../command.ts';
import { readPlanScope, readProfile } from '../plan-settings.ts';
import { explainUnwritable, replaceNamed } from '../read-file.ts';
import { askServer } from '../wire.ts';

/** `reconcile export [--out DIR]`: the live state as manifests. Existing files of other content only with `--force`. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { out, force } = invocation.settings;
  const { files, problems, configuration } = await exportServer(invocation);
  const shown = out === null ? textOf(files) : await writeTo(out, addSchemas(files), force, invocation.terminal.cwd);
  return {
    text: () => shown.text,
    notes: (color) =>
      `${shown.note}${renderProblems([...shown.problems, ...problems], color)}${describeSecrets(configuration)}`,
  };
}

/** The manifests with their schema beside them, for editors. */
export function addSchemas(files: readonly ExportedFile[]): readonly ExportedFile[] {
  return addEditorSchema(files, printSchema(makeManifestSchema()));
}

/** Reads the server, and writes what is in scope as manifests. */
export async function exportServer(invocation: Invocation) {
  const { settings } = invocation;
  const [profile, scope] = [readProfile(settings), readPlanScope(settings)];
  const { live, users } = await readServer(invocation, scope);
  const selected = selectRules(live.rules, users, settings.user);
  const wanted = removeCopies(selected);
  const emails = findNameableEmails(users);
  const mayCollide = !profile.refusesCollisions;
  const rules = scope.rules ? exportRules(wanted, { emails, mayCollide }) : [];
  const stored = settings.user.length === 0 ? live.configuration : null;
  const configuration = stored === null ? nothing : exportConfiguration(stored.fields, profile);
  return {
    files: [...configuration.files, ...rules],
    problems: [...describeCopies(selected.length - wanted.length), ...configuration.problems],
    configuration,
    live,
  };
}

const nothing: ExportedConfiguration = { files: [], problems: [], unfit: [], secrets: [] };

function readServer(invocation: Invocation, scope: Scope) {
  const { settings } = invocation;
  return askServer(invocation, async (context, must) => {
    const wanted = { ...scope, configuration: scope.configuration && !settings.rulesOnly };
    const { live } = must(await readLive(context, wanted, null));
    const rules = live.rules.filter(({ rule }) => isInScope(rule, scope));
    const namesUsers = readProfile(settings).listsUsers && rules.some(({ rule }) => rule.userId !== null);
    const users = namesUsers ? await readUsers(context) : null;
    // Without the list of users rules name them by UUID, which means the same.
    return { live: { ...live, rules }, users: users?.ok === true ? users.value : [] };
  });
}

/** The rules of the users asked for (an e-mail address, a UUID, or `nobody` for global rules); all without a wish. */
function selectRules(rules: readonly LiveRule[], users: readonly LiveUser[], wishes: readonly string[]) {
  if (wishes.length === 0) return rules;
  const ids = new Set(
    wishes.map((wish) => {
      if (wish === 'nobody') return null;
      const id = users.find((user) => user.email === wish.toLowerCase())?.id ?? wish.toLowerCase();
      if (users.some((user) => user.id === id) || rules.some(({ rule }) => rule.userId === id)) return id;
      throw makeFailure('unknown-user', `no rule is for ${wish}`, 'name a user by e-mail address or UUID, or `nobody`');
    }),
  );
  return rules.filter(({ rule }) => ids.has(rule.userId));
}

function textOf(files: readonly ExportedFile[]) {
  const isManifest = ({ path }: ExportedFile): boolean => path.endsWith('.yaml');
  const manifests = files.filter(isManifest).map(({ text }) => text);
  const left = files.filter((file) => !isManifest(file)).map(({ path }) => path);
  const note = left.length > 0 ? `Not written without --out: ${left.join(', ')}\n` : '';
  return { text: manifests.join('---\n'), note, problems: [] };
}

async function writeTo(out: string, files: readonly ExportedFile[], force: boolean, cwd: string) {
  const differing = files.filter(({ path, text }) => (contentAt(join(out, path)) ?? text) !== text);
  if (differing.length > 0 && !force) {
    const summary = `${differing.map(({ path }) => join(out, path)).join(', ')} would be overwritten`;
    throw makeFailure('would-overwrite', summary, 'export to an empty directory and compare, or give --force');
  }
  const paths = files.map(({ path }) => path);
  for (const { path, text } of files)
    if (contentAt(join(out, path)) !== text) await replaceNamed(join(out, path), text, '--out');
  const [others, shown] = [listOtherManifests(out, paths), relative(cwd, out) || '.'];
  const summary = `${shown} holds ${count(others.length, 'manifest')} that this export did not write: ${joinSome(others, 5)}.`;
  const hint = 'A plan of the directory counts them too: delete what is left of an earlier export.';
  return {
    text: paths.map((path) => `${join(shown, path)}\n`).join(''),
    note: `${count(files.length, 'file')} written to ${shown}.\n`,
    problems: others.length === 0 ? [] : [makeWarning('other-manifests', summary, hint)],
  };
}

/** Manifests below the directory that are not among the paths given; those that a source would read. */
export function listOtherManifests(out: string, written: readonly string[]): readonly string[] {
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
    if (getErrorCode(error) === 'ENOENT') return null;
    throw explainUnwritable(path, getErrorCode(error), '--out');
  }
}

/** The secrets that an export left out; empty where there is none. */
export function describeSecrets({ secrets }: ExportedConfiguration): string {
  if (secrets.length === 0) return '';
  const names = secrets.map((name) => `  ${name}\n`).join('');
  return `Client secrets are not exported. Until you change a provider nothing needs them; then set:\n${names}`;
}
