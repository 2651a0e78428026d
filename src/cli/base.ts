import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { createDirectorySource } from '../adapters/source/directory.ts';
import { listReferencedFiles } from '../desired/build-configuration.ts';
import type { ParseFiles } from '../desired/parse-files.ts';
import { makeNote, makeWarning, type Problem } from '../model/problem.ts';
import type { DesiredState } from '../model/state.ts';
import type { PassDependencies } from '../pass/pass.ts';
import { readDesired } from '../pass/stages.ts';
import type { SourceContent, SourceFile } from '../ports.ts';
import { exitCodes, Failure, type Invocation, makeFailure, mustRead } from './command.ts';
import { makeDesiredContext, makeParser, makeSideParser } from './manifests.ts';
import { readLimits } from './plan-settings.ts';
import { requireGit } from './revision.ts';

/** Loads `--base`, read as `pass` reads; null without it, no `state` where it has errors. Throws a `Failure` for what it cannot tell. */
export async function loadBase(invocation: Invocation, path: string, pass: PassDependencies, planOnly: boolean) {
  const { base, failOn, origins } = invocation.settings;
  const mustTell = failOn.includes('drift');
  const missing = 'name the manifests last applied: a Git ref, or a directory';
  // What the settings ask of reviews keeps no apply from correcting drift.
  if (base === null && mustTell && (planOnly || origins.get('failOn') === '--fail-on'))
    throw makeFailure('usage', '--fail-on drift needs --base', missing);
  if (base === null || !isDirectory(path)) return null; // a PATH that is not there is said by whoever reads it
  const { content, parse, root, problems: told } = await readBaseContent(invocation, { path, base, parse: pass.parse });
  const instead = 'what begins or ends later is compared with what this plan puts in force now';
  const none = makeNote('no-manifests', 'the base has no manifests at PATH', instead);
  if (content.files.length === 0) return { state: nothingYet, problems: [none] };
  const built = await readDesired(content, { ...pass, parse, desired: makeDesiredContext(invocation, root) });
  if (!built.ok) return { state: null, problems: [] }; // the pass asks the same of the server, and says what is wrong
  const { state, problems } = built.value.desired;
  if (state !== null) return { state, problems: told };
  const summary = `${describeInvalidBase(problems, `--base ${base}`)}: no change is attributed`;
  const hint = 'name a base that was applied';
  if (mustTell) throw makeFailure('base-invalid', summary, hint);
  return { state: null, problems: [...told, makeWarning('base-invalid', summary, hint)] };
}

/** A base from before the manifests: all that they hold is this revision's. */
export const nothingYet: DesiredState = { rules: [], configuration: null, userNames: new Map(), tests: [], digest: '' };

/** What helps where no commit that is asked about holds manifests. */
export const commitFirst = 'commit them first (git status), or name the folder that holds them';

/** The manifests below `path` as they are at `base`, and the parser for them and their `root`; throws a `Failure` where they cannot be read. */
export async function readBaseContent(
  invocation: Invocation,
  { path, base, parse: plain }: { readonly path: string; readonly base: string; readonly parse: ParseFiles },
) {
  const { settings, terminal } = invocation;
  const folder = resolve(terminal.cwd, base);
  const isFolder = isDirectory(folder);
  const instead = 'write the base into a folder first (docs/how-to/ci.md)';
  if (!isFolder) requireGit(terminal.env, `--base ${base} is not a folder`, instead);
  const from = { written: base, ...(isFolder ? { folder } : { folder: path, revision: base }) };
  const side = { ...(await makeSideParser(invocation, path, from, plain)), root: from.folder };
  if (!isFolder)
    return { ...side, content: await readRevisionContent(invocation, { directory: path, ref: base, ...side }) };
  const { content, problems } = await createDirectorySource(folder, readLimits(settings)).read(terminal.stop);
  if (content !== null) return { ...side, content };
  // A base without manifests is a first commit; an unreadable one is not.
  if (problems.every(({ code }) => code === 'no-manifests')) return { ...side, content: { revision: base, files: [] } };
  throw new Failure(problems);
}

/** The manifests below a folder as a revision of its repository has them; throws a `Failure` where they cannot be read. */
export async function readRevisionContent(
  { settings, terminal }: Pick<Invocation, 'settings' | 'terminal'>,
  { directory, ref, parse }: { readonly directory: string; readonly ref: string; readonly parse: ParseFiles },
): Promise<SourceContent> {
  const { readAtRef } = await import('../adapters/source/git-ref.ts');
  const { isLocked, unlockFiles } = await import('../adapters/source/git-content.ts');
  const request = { directory, ref, limits: readLimits(settings), environment: terminal.env, signal: terminal.stop };
  const references = async (files: readonly SourceFile[]) => listReferencedFiles(await parse(files));
  const content = mustRead(await readAtRef({ ...request, references }));
  if (!content.files.some(isLocked)) return content;
  const head = await readAtRef({ ...request, ref: 'HEAD', references });
  // A file that needs no key may have been edited since.
  const locked = head.ok ? head.value.files.filter(isLocked) : [];
  return { ...content, files: unlockFiles(content.files, locked, directory) };
}

/** Why manifests of a base cannot be compared with. */
export function describeInvalidBase(problems: readonly Problem[], name: string): string {
  const first = problems.find(({ severity }) => severity === 'error');
  const where = first?.place === undefined ? '' : `${first.place.file}:${first.place.line}: `;
  return `the manifests of ${name} hold errors${first === undefined ? '' : ` (${where}${first.summary})`}`;
}

/** What `readBaseContent` gives, for `reconcile drift`. */
export async function readAtBase(invocation: Invocation, path: string, base: string) {
  if (!isDirectory(path)) {
    const summary = `${path} cannot be used: it is not a directory that is there`;
    const hint = '--base looks up what that directory was: name the one that holds the manifests';
    throw makeFailure('no-source', summary, hint, exitCodes.invalid);
  }
  return await readBaseContent(invocation, { path, base, parse: makeParser({ ...invocation.settings, values: [] }) });
}

/** Whether there is a folder at the path, or behind a link. */
export function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
