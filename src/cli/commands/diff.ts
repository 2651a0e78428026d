import { isAbsolute, resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { findWorkTree } from '../../adapters/source/work-tree.ts';
import { assemble } from '../../desired/desired.ts';
import { warnOfMovedNames } from '../../desired/names.ts';
import type { ParseFiles } from '../../desired/parse-files.ts';
import { nameAcross } from '../../model/known-users.ts';
import { compareProblems, makeError, makeNote } from '../../model/problem.ts';
import { ok } from '../../model/result.ts';
import { Secret } from '../../model/secret.ts';
import { diffDesired } from '../../plan/diff-desired.ts';
import { makeProblemReport, type RunReport } from '../../report/run-report.ts';
import { renderPlan } from '../../report/text.ts';
import { commitFirst, describeInvalidBase, isDirectory, nothingYet, readRevisionContent } from '../base.ts';
import { type Answer, chooseExitCode, exitCodes, Failure, type Invocation, makeFailure, mustRead } from '../command.ts';
import { applyStrict, isInvalid, makeDesiredContext, makeParser, makeSideParser, type Side } from '../manifests.ts';
import { mustBeManifests, readFolder } from '../path-operand.ts';
import { keepKnownWords, readPlanOptions } from '../plan-settings.ts';
import { tellProgress } from '../progress.ts';
import { readRevision, requireGit } from '../revision.ts';

interface Sides extends Readonly<Record<'before' | 'after', Side>> {
  /** PATH as it was written, for places in outputs; null where the sides are two folders. */
  readonly root: string | null;
}

/** `reconcile diff A..B [PATH]`, `diff A [PATH]`, `diff DIR1 DIR2`. Exit 3 where a guard or policy test refuses, 4 for bad manifests. */
export async function run(given: Invocation): Promise<Answer> {
  const invocation = keepKnownWords(given, 'diff', false);
  const { settings } = invocation;
  const sides = await findSides(invocation);
  const report = await tellProgress(invocation.terminal, (say) => compare(invocation, sides, say));
  const { plan } = report;
  return {
    exit: chooseExitCode({
      invalid: plan === null,
      refused: (plan?.refusals.length ?? 0) > 0,
      pending: plan?.changes.some(({ action }) => action !== 'keep' && action !== 'skip') ?? false,
      detailed: settings.detailedExitcode,
    }),
    failed: plan === null,
    text: ({ color }) => renderPlan(report, { color, full: settings.full }),
    report: () => report,
  };
}

async function compare(invocation: Invocation, sides: Sides, say: (text: string) => void): Promise<RunReport> {
  const { settings } = invocation;
  // What is young grows at once: without, V8 takes a tenth more of CPU to parse two policies.
  setFlagsFromString('--semi-space-growth-factor=16');
  const plain = makeParser({ ...settings, values: [] });
  const reading = build(invocation, sides.after, sides, plain);
  reading.catch(() => undefined); // told below, after what is wrong with the side before
  const { state: from, ...before } = await build(invocation, sides.before, sides, plain);
  if (from === null) {
    const { written, revision } = sides.before;
    const summary = describeInvalidBase(before.problems, written);
    const list = revision === undefined ? ` (\`reconcile validate ${written}\` lists them)` : '';
    const hint = `name manifests without errors${list}, or ask the server: \`reconcile plan ${sides.root ?? sides.after.written}\``;
    throw new Failure([makeError('base-invalid', summary, hint), ...before.told], exitCodes.invalid);
  }
  say(`reading ${sides.after.written}`);
  const after = await reading;
  if (from === nothingYet && after.state === nothingYet) {
    const summary = `neither ${sides.before.written} nor ${sides.after.written} holds manifests in ${sides.root}`;
    throw makeFailure('no-manifests', summary, commitFirst);
  }
  say('comparing');
  const told = new Map([...before.told, ...after.told].map((problem) => [problem.summary, problem]));
  const seen = after.problems.filter(({ code }) => code !== 'unknown-secret'); // the sides tell theirs
  const found = [...seen, ...warnOfMovedNames(from, after)].sort(compareProblems);
  const to = isInvalid(found, settings) ? null : after.state;
  const context = { ...makeDesiredContext(invocation, null), options: readPlanOptions(settings, null) };
  return {
    ...makeProblemReport([...told.values(), ...applyStrict(found, settings)]),
    root: sides.root,
    revision: after.revision,
    plan: to === null ? null : diffDesired({ ...context, before: from, after: to }),
    base: before.revision,
    ...nameAcross(from, to),
    desired: to,
    comparison: { from: sides.before.written, to: sides.after.written },
  };
}

/** What a side asks for; the revision is a commit, or the digest of a folder's content. */
async function build(invocation: Invocation, side: Side, { after }: Sides, plain: ParseFiles) {
  const { folder, revision: ref } = side;
  const { parse, problems } = await makeSideParser(invocation, after.folder, side, plain);
  const told = [...problems];
  const { files, revision } =
    ref === undefined
      ? await readFolder(invocation, folder).catch((error: unknown) => {
          const isEmpty = error instanceof Failure && error.problems.every(({ code }) => code === 'no-manifests');
          if (side !== after && isEmpty) return { files: [], revision: folder };
          throw error;
        })
      : await readRevisionContent(invocation, { directory: folder, ref, parse });
  // A revision from before the manifests, or after they were removed.
  if (files.length === 0) return { state: nothingYet, problems: [], told: [], revision };
  const context = makeDesiredContext(invocation, folder);
  // Files of a folder are its content, as those of a commit are. No other secret is looked up.
  const resolveSecret: typeof context.resolveSecret = (reference, place) => {
    if (ref !== undefined || !('file' in reference) || isAbsolute(reference.file)) return ok(Secret.unknown());
    const found = context.resolveSecret(reference, place);
    if (found.ok) return found;
    const summary = `\`${reference.file}\` of ${side.written} is not compared. ${found.error}`;
    told.push(makeNote('unknown-secret', summary, 'Make it readable to see whether it differs.', place));
    return ok(Secret.unknown());
  };
  const built = assemble(await parse(files), null, { ...context, resolveSecret });
  const [compared, written = '.'] = invocation.operands;
  if (written === '.') mustBeManifests(built.problems, files, (below) => `reconcile diff ${compared} ${below}`);
  return { ...built, told, revision };
}

async function findSides(invocation: Invocation): Promise<Sides> {
  const { settings, terminal } = invocation;
  const [first = '', second] = invocation.operands;
  const example = 'for example `reconcile diff main..HEAD policy` or `reconcile diff main policy`';
  if (first === '') throw makeFailure('usage', 'diff needs what to compare', example);
  const root = second ?? '.';
  const folder = resolve(terminal.cwd, root);
  const isFolder = await isNamedFolder(invocation, first, folder);
  if (isFolder && second === undefined) {
    const hint = 'name two folders: `reconcile diff OLD NEW`; or a revision: `reconcile diff main PATH`';
    throw makeFailure('usage', `${first} is one folder`, hint);
  }
  if (!isDirectory(folder)) {
    const hint = 'two revisions are written A..B, two folders OLD NEW; PATH is the folder of the manifests';
    throw makeFailure(isFolder ? 'usage' : 'no-source', `${root} is not a folder that is there`, hint);
  }
  if (isFolder) {
    if (settings.mergeBase) throw makeFailure('usage', '--merge-base needs two revisions', 'such as main..HEAD');
    const before = { written: first, folder: resolve(terminal.cwd, first) };
    return { before, after: { written: root, folder }, root: null };
  }
  return await findRevisions(invocation, first, root);
}

/** The sides of `A..B`, or of `A` and the work tree; as git does, a side that is left out is HEAD. */
async function findRevisions({ settings, terminal }: Invocation, written: string, root: string): Promise<Sides> {
  requireGit(terminal.env, 'diff of revisions needs git', 'write the revisions into folders first (docs/how-to/ci.md)');
  if (written.includes('...')) {
    const hint = 'write A..B; with --merge-base it means what A...B does to git';
    throw makeFailure('usage', `${written} has three dots`, hint);
  }
  const [from = written, to] = (/^(.*?)\.\.(.*)$/.exec(written) ?? []).slice(1).map((name) => name || 'HEAD');
  const folder = resolve(terminal.cwd, root);
  const side = (name: string, revision = name): Side => ({ written: name, folder, revision });
  const after = to === undefined ? { written: 'the work tree', folder } : side(to);
  if (!settings.mergeBase) return { before: side(from), after, root };
  const { findMergeBase } = await import('../../adapters/source/git-ref.ts');
  const request = { directory: folder, environment: terminal.env, signal: terminal.stop };
  const found = mustRead(await findMergeBase([from, to ?? 'HEAD'], request));
  return { before: side(`${from} where ${to ?? 'HEAD'} left it`, found), after, root };
}

/** Whether the operand is a folder. What is a folder and a revision too must be told apart by the user. */
async function isNamedFolder({ terminal }: Invocation, written: string, directory: string): Promise<boolean> {
  const { cwd, env: environment, stop: signal } = terminal;
  if (/^(\.\.?$|\.{0,2}\/)/.test(written)) return true;
  if (written.startsWith('refs/') || !isDirectory(resolve(cwd, written))) return false;
  const root = isDirectory(directory) ? findWorkTree(directory)?.root : undefined;
  if (readRevision(environment) !== null || root === undefined) return true;
  const { isRevision } = await import('../../adapters/source/git-ref.ts');
  if (!(await isRevision(written, { directory: root, environment, signal }))) return true;
  const hint = `write ./${written} for the folder, or refs/heads/${written} for the branch`;
  throw makeFailure('usage', `${written} is a folder and a revision`, hint);
}
