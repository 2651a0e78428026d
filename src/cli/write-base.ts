import { existsSync, lstatSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { createManifestParser } from '../adapters/manifest-parser.ts';
import { readFileAt } from '../adapters/source/git-content.ts';
import { type FilesRequest, readAtRef, readFilesAtRef } from '../adapters/source/git-ref.ts';
import { GitRepository } from '../adapters/source/git-repository.ts';
import { findInWorkTree, findWorkTree, listRepositories } from '../adapters/source/work-tree.ts';
import { listReferencedFiles } from '../desired/build-configuration.ts';
import { defaultLimits } from '../desired/context.ts';
import { findProfile } from '../model/profile.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { SourceFile } from '../ports.ts';
import { Failure } from './command.ts';
import { settle } from './settings.ts';
import { readSettingsFile } from './settings-file.ts';

// The first step of a review in CI, run with no secret in its environment: it alone starts git, in a checkout that a stranger
// may have prepared. The second step has the token, and gets what this one wrote:
//   OUT/revision   COMMIT (BRANCH)
//   OUT/tree/      the manifests of --base, where the clone holds it, the files they name and those of --values, as the repository has them
//   OUT/base       the path of the manifests there
//   OUT/config     the path of the settings file as --config-ref has it: a pull request does not choose its own settings
const { values: given } = parseArgs({
  options: {
    path: { type: 'string', default: '.' },
    out: { type: 'string' },
    branch: { type: 'string', default: '' },
    base: { type: 'string', default: '' },
    config: { type: 'string', default: '' },
    'config-ref': { type: 'string', default: '' },
    arguments: { type: 'string', default: '' }, // the flags of the second step
  },
});
void main().then((code) => {
  process.exitCode = code;
});

async function main(): Promise<number> {
  if (given.out === undefined) return say('--out is missing', 1);
  const [directory, out] = [resolve(given.path), resolve(given.out)];
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const { signal } = new AbortController();
  const git = { environment: { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'] }, signal };
  const settings = given.config === '' ? ok('') : await copySettings(git, resolve(given.config));
  if (!settings.ok) return say(settings.error, 1);
  if (settings.value !== '') writeFileSync(join(out, 'config'), settings.value);
  if (!existsSync(`${directory}/`)) return 0; // not there, or one file: the plan says it
  const found = findRepository(directory);
  if (!found.ok) return say(`${given.path} is ${found.error.said}`, found.error.code);
  const repository = new GitRepository({ ...git, gitDir: found.value.gitDir });
  const head = (await repository.commitOf('HEAD')) ?? 'no commit';
  writeFileSync(join(out, 'revision'), given.branch === '' ? head : `${head} (${given.branch})`);
  const commit = given.base === '' ? null : await repository.commitOf(given.base);
  if (commit === null) return 0;
  const request = { ...git, directory, ref: commit, files: listValuesFiles(settings.value) };
  const written = await writeBase(request, found.value.path, out);
  return written.ok ? 0 : say(`${written.error.summary}\n${written.error.hint ?? ''}`, 1);
}

/** Writes the files of a commit where the repository has them, below OUT/tree. */
async function writeBase(request: FilesRequest, path: readonly string[], out: string) {
  const parse = createManifestParser({ profile: findProfile('firezone-0.7'), values: null, limits: defaultLimits });
  const references = async (files: readonly SourceFile[]) => listReferencedFiles(await parse(files));
  const content = await readAtRef({ ...request, limits: defaultLimits, references });
  if (!content.ok) return content;
  const values = await readFilesAtRef(request);
  if (!values.ok) return values;
  const tree = join(out, 'tree');
  const base = join(tree, ...path);
  mkdirSync(base, { recursive: true });
  writeFileSync(join(out, 'base'), base);
  const put = (file: string, bytes: Uint8Array): void => {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, bytes);
  };
  for (const one of content.value.files) put(join(base, one.path), one.bytes);
  for (const [index, file] of request.files.entries()) {
    const bytes = values.value[index];
    // Absent or a link: without its values the base cannot be built, which is said; with those of today a change would be hidden.
    if (bytes !== undefined)
      put(join(tree, ...(findInWorkTree(request.directory, file) ?? [])), bytes ?? new Uint8Array());
  }
  return ok(0);
}

/** The values files that the second step reads; none by settings that it refuses. */
function listValuesFiles(settingsFile: string): readonly string[] {
  const values = [...given.arguments.matchAll(/(?:^|\s)--values(?:=|\s+)(\S+)/g)].map(([, file]) => file);
  try {
    const file = settingsFile === '' ? null : readSettingsFile(settingsFile);
    return settle({ flags: values.length === 0 ? {} : { values }, env: {}, cwd: process.cwd(), file }).values;
  } catch (error) {
    if (error instanceof Failure) return [];
    throw error;
  }
}

/** Where Git keeps the repository of a folder. */
function findRepository(directory: string): Result<WorkTree, { readonly said: string; readonly code: number }> {
  const all = listRepositories(directory);
  const [found, checkout, outer] = [findWorkTree(directory), findCheckout(all), all.at(-1)];
  const top = checkout === null ? '' : realpathSync(checkout);
  if (outer !== undefined && relative(realpathSync(outer), realpathSync(directory)).split(sep)[0] === '..')
    return fail({ said: 'a link out of the checkout, and is not read', code: 1 });
  if (found?.root === top) return ok(found);
  const where = top === '' ? 'not in a Git work tree' : 'in a submodule';
  return fail({ said: `${where}: the plan is not compared with a base`, code: 0 });
}

/** The one that was checked out: a pull request can make any folder below it a submodule, whose `.git` is a file. */
function findCheckout(all: readonly string[]): string | null {
  return all.find((one) => lstatSync(join(one, '.git')).isDirectory()) ?? all.at(-1) ?? null;
}

type WorkTree = NonNullable<ReturnType<typeof findWorkTree>>;
type GitCall = Pick<ConstructorParameters<typeof GitRepository>[0], 'environment' | 'signal'>;

/** Puts the settings file of --config-ref beside the checkout's, so that its paths keep their meaning; gives its path. */
async function copySettings(git: GitCall, file: string): Promise<Result<string, string>> {
  const folder = dirname(file);
  const all = listRepositories(folder);
  const [top, outer] = [findCheckout(all), all.at(-1)];
  if (top === null || outer === undefined) return ok(file);
  const inside = relative(top, file).split(sep);
  // Below the outermost: behind a link another clone may lie.
  if (!existsSync(folder) || realpathSync(folder) !== join(realpathSync(outer), relative(outer, folder)))
    return fail(`the folder of ${given.config} is gone, or behind a link: put it back`);
  const repository = new GitRepository({ ...git, gitDir: join(top, '.git') });
  const where = given['config-ref'];
  const commit = await repository.commitOf(where);
  const [bytes] = commit === null ? [] : await readFileAt(repository, [{ id: commit }], inside).catch(() => []);
  if (!bytes) {
    const hint = 'commit it there, and fetch it (fetch-depth: 0)';
    return fail(`${given.config} is read from ${where} and is not there: ${hint}`);
  }
  const copy = join(folder, `.${basename(file)}.reviewed`);
  rmSync(copy, { force: true, recursive: true });
  writeFileSync(copy, bytes, { flag: 'wx' });
  return ok(copy);
}

function say(text: string, code: number): number {
  process.stdout.write(`${text}\n`);
  return code;
}
