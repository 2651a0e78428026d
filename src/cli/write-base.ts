import { existsSync, lstatSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { createManifestParser } from '../adapters/manifest-parser.ts';
import { readFileAt } from '../adapters/source/git-content.ts';
import { readAtRef } from '../adapters/source/git-ref.ts';
import { GitRepository } from '../adapters/source/git-repository.ts';
import { findWorkTree } from '../adapters/source/work-tree.ts';
import { listReferencedFiles } from '../desired/build-configuration.ts';
import { defaultLimits } from '../desired/context.ts';
import { findProfile } from '../model/profile.ts';
import { fail, ok, type Result } from '../model/result.ts';

// The first step of a review in CI, run with no secret in its environment: it alone starts git, in a checkout that a stranger
// may have prepared. The second step has the token, and gets what this one wrote:
//   OUT/revision   COMMIT (BRANCH)
//   OUT/base/      the manifests of --base, where the clone holds it, and the files they name
//   OUT/config     the path of the settings file as --config-ref has it: a pull request does not choose its own settings
const { values: given } = parseArgs({
  options: {
    path: { type: 'string', default: '.' },
    out: { type: 'string' },
    branch: { type: 'string', default: '' },
    base: { type: 'string', default: '' },
    config: { type: 'string', default: '' },
    'config-ref': { type: 'string', default: '' },
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
  const repository = new GitRepository({ ...git, gitDir: found.value });
  const head = (await repository.commitOf('HEAD')) ?? 'no commit';
  writeFileSync(join(out, 'revision'), given.branch === '' ? head : `${head} (${given.branch})`);
  const commit = given.base === '' ? null : await repository.commitOf(given.base);
  if (commit === null) return 0;
  const parse = createManifestParser({ profile: findProfile('firezone-0.7'), values: null, limits: defaultLimits });
  const content = await readAtRef({
    directory,
    ref: commit,
    limits: defaultLimits,
    references: async (files) => listReferencedFiles(await parse(files)),
    ...git,
  });
  if (!content.ok) return say(`${content.error.summary}\n${content.error.hint ?? ''}`, 1);
  const base = join(out, 'base');
  mkdirSync(base);
  for (const { path, bytes } of content.value.files) {
    mkdirSync(dirname(join(base, path)), { recursive: true });
    writeFileSync(join(base, path), bytes);
  }
  return 0;
}

/** Where Git keeps the repository of a folder. */
function findRepository(directory: string): Result<string, { readonly said: string; readonly code: number }> {
  const all = listRepositories(directory);
  const [found, checkout, outer] = [findWorkTree(directory), findCheckout(all), all.at(-1)];
  const top = checkout === null ? '' : realpathSync(checkout);
  if (outer !== undefined && relative(realpathSync(outer), realpathSync(directory)).split(sep)[0] === '..')
    return fail({ said: 'a link out of the checkout, and is not read', code: 1 });
  if (found?.root === top) return ok(found.gitDir);
  const where = top === '' ? 'not in a Git work tree' : 'in a submodule';
  return fail({ said: `${where}: the plan is not compared with a base`, code: 0 });
}

/** The folder and those above it, by their names, in which a repository lies; the innermost first. */
function listRepositories(folder: string): readonly string[] {
  const above = folder === dirname(folder) ? [] : listRepositories(dirname(folder));
  return lstatSync(join(folder, '.git'), { throwIfNoEntry: false }) === undefined ? above : [folder, ...above];
}

/** The one that was checked out: a pull request can make any folder below it a submodule, whose `.git` is a file. */
function findCheckout(all: readonly string[]): string | null {
  return all.find((one) => lstatSync(join(one, '.git')).isDirectory()) ?? all.at(-1) ?? null;
}

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
  const commit = await repository.commitOf(given['config-ref']);
  const bytes = commit === null ? null : await readFileAt(repository, { commit, path: inside, maxBytes: 1_000_000 });
  if (bytes === null) {
    const where = given['config-ref'];
    return fail(
      `${given.config} is read from ${where} and is not there: commit it there, and fetch it (fetch-depth: 0)`,
    );
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
