import { existsSync, lstatSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { isDeepStrictEqual, parseArgs } from 'node:util';
import { createManifestParser } from '../adapters/manifest-parser.ts';
import { readFileAt, unlockFiles } from '../adapters/source/git-content.ts';
import { type FilesRequest, fetchAll, readAtRef, readFilesAtRef } from '../adapters/source/git-ref.ts';
import { GitRepository, type RepositoryContext } from '../adapters/source/git-repository.ts';
import { findInWorkTree, findWorkTree, listRepositories } from '../adapters/source/work-tree.ts';
import { listReferencedFiles } from '../desired/build-configuration.ts';
import { isManifestPath } from '../manifest/manifest.ts';
import type { SourceFile } from '../ports.ts';
import { renderProblems } from '../report/problems.ts';
import { Failure, makeFailure, mustRead, type Settings } from './command.ts';
import { pickValues, splitWords } from './output.ts';
import { readLimits, readProfile } from './plan-settings.ts';
import { settle } from './settings.ts';
import { readSettingsFile } from './settings-file.ts';
import { readGivenValues } from './values.ts';

// The first step of a review in CI, run with no secret in its environment: it alone starts git, in a checkout that a stranger
// may have prepared. The second step has the token, and gets what this one wrote:
//   OUT/revision   COMMIT (BRANCH)
//   OUT/held       why HEAD is only planned: neither --sha nor in the history of --config-ref, or no longer what that has
//   OUT/judged     the words of --fail-on; OUT/unread: why the base cannot be read
//   OUT/tree/      the manifests of --base, where the clone holds it, the files they name and those of --values, as the repository has them
//   OUT/base       the path of the manifests there
//   OUT/config     the path of the settings file as --config-ref has it: a pull request does not choose its own settings
const { values: given } = parseArgs({
  options: {
    path: { type: 'string', default: '.' },
    out: { type: 'string' },
    branch: { type: 'string', default: '' },
    base: { type: 'string', default: '' }, // the commit that HEAD is compared with, or the branch that it left
    head: { type: 'string', default: '' }, // the last commit of a pull request; HEAD may be a merge of it
    sha: { type: 'string', default: '' }, // the commit of the event: of the branch that runs, or the forge's own merge of a request
    repository: { type: 'string', default: '' }, // OWNER/NAME of the event's
    trusted: { type: 'string', default: '' }, // others that count as it: OWNER/NAME, or HOST/PATH; *: all
    annotate: { type: 'boolean', default: false }, // in the form that GitHub shows beside a run
    config: { type: 'string', default: '' },
    'config-ref': { type: 'string', default: '' },
    arguments: { type: 'string', default: '' }, // the flags of the second step
  },
});
const fetch = ['fetch', '--no-tags', '--no-filter', '--refmap=', '--no-write-fetch-head'];
const minutes = 5;
const signal = AbortSignal.timeout(minutes * 60_000);
void main().catch((error: Error) => {
  const text = error instanceof Failure ? renderProblems(error.problems, false).trimEnd() : error.message;
  say(signal.aborted ? `this step did not end within ${minutes} minutes (${text})` : text, 1);
});

async function main(): Promise<void> {
  if (given.out === undefined) return say('--out is missing', 1);
  const [directory, out] = [resolve(given.path), resolve(given.out)];
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const git = { environment: process.env, signal };
  const settingsFile = await copySettings(git, resolve(given.config));
  if (settingsFile !== '') writeFileSync(join(out, 'config'), settingsFile);
  if (!existsSync(`${directory}/`)) return; // not there, or one file: the plan says it
  const { gitDir, path, where } = findRepository(directory);
  const settings = settleSecondStep(settingsFile);
  const { failOn } = settings;
  // What opens later is only seen beside the base.
  const code = given.base !== '' && failOn.length > 0 ? 1 : 0;
  writeFileSync(join(out, 'judged'), failOn.join());
  if (path === null) say(`${given.path} is ${where}: the plan is not compared with a base`, code);
  if (gitDir === '') return;
  const { repository, head, mainRef, base } = await readHead(new GitRepository({ ...git, gitDir }), out);
  const name = await nameBase(repository, head, base);
  const limits = readLimits(settings);
  const parse = createManifestParser({ profile: readProfile(settings), values: readGivenValues(settings), limits });
  const references = async (files: readonly SourceFile[]) => listReferencedFiles(await parse(files));
  const reading = path && { ...git, limits, references, directory, path, files: settings.values, ref: head };
  const now = reading === null ? [] : await readHeadFiles(repository, reading);
  if (name === '') return await holdOlder({ repository, head, mainRef }, reading, join(out, 'held'));
  if (reading === null) return;
  const commit = await findBase(repository, head, name);
  if (commit === null) return say(`the plan is not compared with its base, which this clone lacks; ${fetchAll}`, code);
  if (failOn.includes('drift') && (await differ(reading, [commit, await repository.commitOf(base)])))
    say(`${shorten(base)} has other manifests by now: they count as drift until the branch is updated`, 0);
  await writeBase({ ...reading, ref: commit }, now, out).catch((error: unknown) => {
    // A clone that lacks some of it is the job's to mend; what the branch holds, only a request can.
    if (!(error instanceof Failure) || error.problems[0]?.code === 'base') throw error;
    const why = `the plan is not compared with its base, which cannot be read: ${error.problems[0]?.summary}`;
    writeFileSync(join(out, 'unread'), why);
    say(why, code);
  });
}

/** Writes why the commit of a job that runs again is only planned, where the default branch has other manifests by now. */
async function holdOlder({ repository, head, mainRef }: Omit<Checkout, 'base'>, reading: Reading | null, file: string) {
  if (head === '' || existsSync(file)) return;
  const main = shorten(mainRef);
  const { tip, isNow, isGone } = await fetchNewest(repository, mainRef);
  if (isGone) return writeFileSync(file, `${main} is no branch of the repository any more`);
  const why = `this job cannot fetch ${main} (persist-credentials: false, or ssh-key?)`;
  if (tip === head && !isNow) return say(`${why}: run again after a later push, it applies its older manifests`, 0);
  // A commit that a force push took out of the branch has the tip of now in its history.
  if (tip === null || tip === head || (!isNow && (await repository.isAncestor(tip, head)))) return;
  const isOther = reading && (await differ(reading, [head, tip]));
  const has = isOther === null ? 'may have' : 'has';
  const held = `${head} is not the newest commit of ${main}, which ${has} other manifests (to go back, revert those since)`;
  if (isOther !== false) writeFileSync(file, held);
}

/** The newest commit of the default branch, or the one that is here: actions/checkout sets the branch of origin to the event's. */
async function fetchNewest(repository: GitRepository, main: string) {
  const branch = main.replace('refs/remotes/origin/', '').replace(/^(?!HEAD$)/, 'refs/heads/');
  const isNow = (await repository.askOrigin(fetch, `+${branch}:refs/reconcile/newest`)) !== null;
  const isGone = !isNow && (await repository.askOrigin(['ls-remote'], branch)) === '';
  // What an earlier job fetched is older.
  return { isNow, isGone, tip: await repository.commitOf(isNow ? 'refs/reconcile/newest' : main) };
}

type Checkout = Awaited<ReturnType<typeof readHead>>;
type Reading = Parameters<typeof readAtRef>[0] & FilesRequest & { readonly path: readonly string[] };

/** Whether the manifests of two commits, the files that they name, or values files differ; null where that cannot be told, as of a link. */
async function differ(reading: Reading, commits: readonly (string | null)[]) {
  const read = commits.map((ref) => readCommit({ ...reading, ref: ref ?? '' }).catch(() => null));
  const [before, after] = await Promise.all(read);
  // What is tracked in neither is made anew by each job.
  const isTold = before && after && before.files.length + after.files.length > 0;
  return isTold ? !isDeepStrictEqual(before, after) || (before.isLinked || after.isLinked ? null : false) : null;
}

async function readCommit(request: Reading) {
  const { files, isLinked } = mustRead(await readAtRef(request));
  const named = files.map((file) => ({ ...file, name: [...request.path, file.path].join('/') }));
  const values = mustRead(await readFilesAtRef(request));
  return { files: named, values, isLinked: isLinked || values.includes(null) };
}

const shorten = (ref: string): string => ref.replace('refs/remotes/', '');

/** Gives the commit that is checked out, the default branch of its origin, and what it is compared with; writes whose it is. */
async function readHead(repository: GitRepository, out: string) {
  const { main, foreign, isOther } = await readOrigin(repository);
  const head = (await repository.commitOf('HEAD')) ?? '';
  const isMain = [head, ''].includes(given.sha) || (await repository.isAncestor(head, main));
  const other = head && `The checkout, ${head}, is not in the history of ${shorten(main)}`;
  const held = foreign || (isMain ? '' : other || 'The checkout has no commit');
  if (held !== '') writeFileSync(join(out, 'held'), held);
  const branch = !isOther && (held === '' || given.head !== '') ? given.branch : '';
  writeFileSync(join(out, 'revision'), `${head || 'no commit'}${branch && ` (${branch})`}`);
  // A request is of the event's repository, and none of the branches of another.
  return { repository, head, mainRef: main, base: isOther && given.base !== '' ? main : given.base };
}

/** The default branch of `origin`. `foreign`: why it decides nothing; throws where it would. `isOther`: not the event's repository. */
async function readOrigin(repository: GitRepository) {
  const origin = { main: given['config-ref'], foreign: '', isOther: false };
  const url = given.repository === '' ? '' : await repository.originUrl();
  const name = nameRepository(url);
  const names = [name, name.replace(/^[^/]+\/(?=[^/]+\/[^/]+$)/, '')]; // two names after the host may stand alone
  const isIn = (list: string): boolean => list.split(/[\s,]+/).some((one) => names.includes(nameRepository(one)));
  // A path on this machine is the operator's mirror.
  if (!/^(?:\w+:\/\/[^/]|[^/:]+:[^/:]|[^/:]{2,}:\/[^/])/.test(url) || isIn(given.repository)) return origin;
  const isTrusted = given.trusted === '*' || isIn(given.trusted);
  const other = { main: 'refs/remotes/origin/HEAD', isOther: true };
  // A branch of this clone may be an older one, or have the name alone.
  if (isTrusted && (await repository.askOrigin(fetch, `+HEAD:${other.main}`)) !== null)
    return { ...other, foreign: '' };
  const foreign = isTrusted
    ? `This job cannot fetch the default branch of ${name} (keep the credentials of its checkout, over https)`
    : `The checkout is of ${name}, not of ${given.repository} or one of "trusted-repositories"`;
  if (given.base === '' && given.config === '') return { ...other, foreign };
  const hint = 'leave "repository" out ("ref" takes commits of forks too), or name it there if it is yours';
  throw new Error(isTrusted ? foreign : `${foreign}, and its branches are needed: ${hint}`);
}

/** HOST/PATH or HOST:PORT/PATH of an address in one of Git's forms, or of what somebody wrote for it; OWNER/NAME stays that. */
function nameRepository(address: string): string {
  const url = address.toLowerCase().replace(/^[^/@:]+@[^/:]+:/, '$&/'); // behind a user the colon begins the path, not a port
  return url.replace(/^(?:\w+:\/\/)?(?:[^/@]*@)?|(?:\.git)?\/*$/g, '').replace(/:(?!\d+\/)\/*/, '/');
}

/** The files of HEAD; throws where Git's attributes give a checkout other ones (`text` and `eol` change ends of lines alone). */
async function readHeadFiles(repository: GitRepository, reading: Reading) {
  if (reading.ref === '') return [];
  const { files } = await readCommit(reading).catch((error: Error) => {
    if (given.base !== '') throw error;
    say(`the files of HEAD cannot be checked for Git attributes: ${error.message}`, 0);
    return { files: [] };
  });
  const values = reading.files.flatMap((file) => findInWorkTree(reading.directory, file)?.join('/') || []);
  const asked = [...files.map((file) => file.name), ...values];
  const found = await repository.attributesOf(asked, ['ident', 'working-tree-encoding', 'filter']);
  // Secrets may lie in Git encrypted.
  const counts = ([file = '', one]: readonly string[]) =>
    one !== 'filter' || isManifestPath(file) || values.includes(file);
  const [name, attribute, value] = found.find(counts) ?? [];
  if (name === undefined) return files;
  const summary = `${name} has the Git attribute ${attribute} (${value}), so a checkout holds other content than the commit`;
  throw makeFailure('git-attributes', summary, `remove it from .gitattributes: git check-attr -a ${name}`);
}

/** What HEAD is compared with; throws where a review has checked out something else than what is reviewed. */
async function nameBase(repository: GitRepository, head: string, base: string): Promise<string> {
  if ([head, ''].includes(given.head) || head === '' || base !== given.base) return head && base;
  // As it is stored: a shallow clone hides the parents.
  const stored = String(await repository.readCommit(head).catch(() => ''));
  const [, into = '', merged] = /^tree \S+\nparent (\S+)\nparent (\S+)\n/.exec(stored) ?? [];
  const hint = `give actions/checkout "ref: \${{ github.event.pull_request.head.sha }}" and "fetch-depth: 0"`;
  if (merged !== given.head)
    throw new Error(`${head} is checked out, neither ${given.head} of the pull request nor a merge of it: ${hint}`);
  // The author of a request can write such a merge too; that of the event is the forge's.
  return head === given.sha ? into : base;
}

/** The commit that HEAD started from, though a branch moved on since; null: it is not here, and origin does not give it. */
async function findBase(repository: GitRepository, head: string, name: string): Promise<string | null> {
  if (/^[0-9a-f]{40,64}$/.test(name) && (await repository.commitOf(name)) === null)
    await repository.askOrigin([...fetch, '--depth=1'], name);
  const commit = await repository.commitOf(name);
  return commit === null || commit === name ? commit : await repository.mergeBaseOf(commit, head);
}

/** Writes the files of the base where the repository has them, below OUT/tree. */
async function writeBase(request: Reading, now: readonly SourceFile[], out: string) {
  const { files, values } = await readCommit(request);
  const tree = join(out, 'tree');
  const base = join(tree, ...request.path);
  mkdirSync(base, { recursive: true });
  writeFileSync(join(out, 'base'), base);
  const put = (file: string, bytes: Uint8Array): void => {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, bytes);
  };
  for (const { path, bytes } of unlockFiles(files, now, request.directory)) put(join(base, path), bytes);
  for (const [index, file] of request.files.entries()) {
    const bytes = values[index];
    // Absent or a link: without its values the base cannot be built, which is said; with those of today a change would be hidden.
    if (bytes !== undefined)
      put(join(tree, ...(findInWorkTree(request.directory, file) ?? [])), bytes ?? new Uint8Array());
  }
}

/** The settings of the second step; throws a `Failure` where it refuses them. */
function settleSecondStep(settingsFile: string): Settings {
  const words = splitWords(given.arguments) ?? []; // a quote that is not closed is said by the second step
  const pick = (flag: string): string | undefined => pickValues(words, flag).join() || undefined;
  const file = settingsFile === '' ? null : readSettingsFile(settingsFile);
  const flags = { values: pick('--values'), failOn: pick('--fail-on') };
  return settle({ flags, env: process.env, cwd: process.cwd(), file });
}

/** Where Git keeps the checkout of a folder, and the path there; null: it has none, for it is `where`. */
function findRepository(directory: string) {
  const all = listRepositories(directory);
  const [found, checkout, outer] = [findWorkTree(directory), findCheckout(all), all.at(-1)];
  const top = checkout === null ? '' : realpathSync(checkout);
  if (outer !== undefined && relative(realpathSync(outer), realpathSync(directory)).split(sep)[0] === '..')
    throw new Error(`${given.path} is a link out of the checkout, and is not read`);
  if (found?.root === top && !found.isLink) return { ...found, where: '' };
  const inside = found?.root === top ? 'a link, or behind one' : 'in a submodule';
  const where = top === '' ? 'not in a Git work tree' : inside;
  return { gitDir: top && join(top, '.git'), path: null, where };
}

/** The one that was checked out: a pull request can make any folder below it a submodule, whose `.git` is a file. */
function findCheckout(all: readonly string[]): string | null {
  return all.find((one) => lstatSync(join(one, '.git')).isDirectory()) ?? all.at(-1) ?? null;
}

/** Puts the settings file of --config-ref beside the checkout's, so that its paths keep their meaning; gives its path. */
async function copySettings(git: Omit<RepositoryContext, 'gitDir'>, file: string): Promise<string> {
  const folder = dirname(file);
  const all = listRepositories(folder);
  const [top, outer] = [findCheckout(all), all.at(-1)];
  if (given.config === '' || top === null || outer === undefined) return given.config && file;
  const inside = relative(top, file).split(sep);
  // Below the outermost: behind a link another clone may lie.
  if (!existsSync(folder) || realpathSync(folder) !== join(realpathSync(outer), relative(outer, folder)))
    throw new Error(`the folder of ${given.config} is gone, or behind a link: put it back`);
  const repository = new GitRepository({ ...git, gitDir: join(top, '.git') });
  const { main } = await readOrigin(repository);
  const commit = given.base === '' ? (await fetchNewest(repository, main)).tip : await repository.commitOf(main);
  const [bytes] = commit === null ? [] : await readFileAt(repository, [commit], inside).catch(() => []);
  if (!bytes) {
    const hint = 'commit it there, and fetch it (fetch-depth: 0)';
    throw new Error(`${given.config} is read from ${shorten(main)} and is not there: ${hint}`);
  }
  const copy = join(folder, `.${basename(file)}.reviewed`);
  rmSync(copy, { force: true, recursive: true });
  writeFileSync(copy, bytes, { flag: 'wx' });
  return copy;
}

function say(text: string, code: number): void {
  const mark = `::${code === 0 ? 'warning' : 'error'}::`;
  process.stdout.write(`${given.annotate ? mark + text.replace(/[%\r\n]/g, encodeURIComponent) : text}\n`);
  process.exitCode = code;
}
