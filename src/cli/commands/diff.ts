import { resolve } from 'node:path';
import { findWorkTree } from '../../adapters/source/work-tree.ts';
import { assemble } from '../../desired/desired.ts';
import type { ParseFiles } from '../../desired/parse-files.ts';
import { ok } from '../../model/result.ts';
import { Secret } from '../../model/secret.ts';
import { diffDesired } from '../../plan/diff-desired.ts';
import type { SourceContent } from '../../ports.ts';
import { makeProblemReport, type RunReport } from '../../report/run-report.ts';
import { renderPlan } from '../../report/text.ts';
import { describeInvalidBase, isDirectory, nothingYet, readRevisionContent } from '../base.ts';
import { type Answer, chooseExitCode, exitCodes, Failure, type Invocation, makeFailure } from '../command.ts';
import { applyStrict, isInvalid, makeDesiredContext, makeParser } from '../manifests.ts';
import { readFolder } from '../path-operand.ts';
import { readPlanOptions } from '../plan-settings.ts';
import { tellProgress } from '../progress.ts';
import { readRevision, requireGit } from '../revision.ts';

/** One side of the comparison: a folder as it is now, or the manifests below a folder as a revision has them. */
interface Side {
  readonly written: string;
  readonly folder: string;
  readonly revision?: string;
}

interface Sides {
  readonly before: Side;
  readonly after: Side;
  /** PATH as it was written, for places in outputs; null where the sides are two folders. */
  readonly root: string | null;
}

/**
 * `reconcile diff A..B [PATH]`, `diff A [PATH]`, `diff DIR1 DIR2`: what changes for rules, Configuration and traffic. Exit 3 where
 * `--fail-on`, `protect` or a policy test of the later side says no, 4 for manifests with errors.
 */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  for (const word of settings.failOn) {
    if (!['opens', 'closes', 'any'].includes(word)) {
      throw makeFailure('usage', `--fail-on ${word} needs a server`, 'diff knows opens, closes and any');
    }
  }
  const sides = await sidesOf(invocation);
  const report = await tellProgress(invocation.terminal, (say) => compare(invocation, sides, say));
  const { plan } = report;
  const changes = plan?.changes.filter(({ action }) => action !== 'keep') ?? [];
  return {
    exit: chooseExitCode({
      invalid: plan === null,
      refused: (plan?.refusals.length ?? 0) > 0,
      pending: changes.length > 0,
      detailed: settings.detailedExitcode,
    }),
    failed: plan === null,
    text: ({ color }) => renderPlan(report, { color, full: settings.full }),
    report: () => report,
  };
}

async function compare(invocation: Invocation, sides: Sides, say: (text: string) => void): Promise<RunReport> {
  const { settings } = invocation;
  const parse = makeParser(settings);
  const { state: from, ...before } = await build(invocation, sides.before, parse);
  if (from === null) {
    const summary = describeInvalidBase(before.problems, sides.before.written);
    const hint = 'compare with a revision whose manifests are valid';
    throw makeFailure('base-invalid', summary, hint, exitCodes.invalid);
  }
  say(`reading ${sides.after.written}`);
  const after = await build(invocation, sides.after, parse);
  say('comparing');
  const problems = applyStrict(after.problems, settings);
  const to = isInvalid(problems, settings) ? null : after.state;
  const { profile, scope } = makeDesiredContext(invocation, null);
  const options = readPlanOptions(settings, null);
  return {
    ...makeProblemReport(problems),
    root: sides.root,
    revision: after.revision,
    plan: to === null ? null : diffDesired({ before: from, after: to, profile, scope, options }),
    base: before.revision,
    userNames: new Map([...from.userNames, ...(to?.userNames ?? [])]),
    groups: to?.groups ?? new Map(),
    desired: to,
    comparison: { from: sides.before.written, to: sides.after.written },
  };
}

/** What a side asks for; the revision is a commit, or the digest of a folder's content. */
async function build(invocation: Invocation, side: Side, parse: ParseFiles) {
  const { files, revision } = await readSide(invocation, side, parse);
  // A revision from before the manifests, or after they were removed.
  if (files.length === 0) return { state: nothingYet, problems: [], revision };
  const context = { ...makeDesiredContext(invocation, side.folder), resolveSecret: () => ok(Secret.unknown()) };
  return { ...assemble(await parse(files), null, context), revision };
}

async function readSide(invocation: Invocation, side: Side, parse: ParseFiles): Promise<SourceContent> {
  if (side.revision !== undefined) {
    await loadGit(invocation);
    return await readRevisionContent(invocation, { directory: side.folder, ref: side.revision, parse });
  }
  return await readFolder(invocation, side.folder);
}

/** Git, unless the run is told to leave it alone. */
async function loadGit({ terminal }: Invocation) {
  const instead = 'write the revisions into folders first (docs/how-to/ci.md)';
  requireGit(terminal.env, 'diff of a revision needs git', instead);
  return await import('../../adapters/source/git-ref.ts');
}

async function sidesOf(invocation: Invocation): Promise<Sides> {
  const { operands, terminal } = invocation;
  const [first = '', second] = operands;
  const example = 'for example `reconcile diff main..HEAD .` or `reconcile diff main`';
  if (first === '') throw makeFailure('usage', 'diff needs what to compare', example);
  const folder = resolve(terminal.cwd, second ?? '.');
  const range = /^(?![./])(.+?)\.\.(?!\.)(.*)$/.exec(first);
  if (range === null || isDirectory(resolve(terminal.cwd, first))) {
    return (await isNamedFolder(invocation, first, folder))
      ? foldersOf(invocation, first, second)
      : await revisionsOf(invocation, [first, null], { written: second ?? '.', folder });
  }
  if (first.includes('...')) {
    const hint = 'write A..B; with --merge-base it means what A...B does to git';
    throw makeFailure('usage', `${first} has three dots`, hint);
  }
  return await revisionsOf(invocation, [range[1] ?? '', range[2] || 'HEAD'], { written: second ?? '.', folder });
}

function foldersOf({ settings, terminal }: Invocation, first: string, second: string | undefined): Sides {
  if (second === undefined || !isDirectory(resolve(terminal.cwd, second))) {
    const summary = second === undefined ? `${first} is one folder` : `${second} is not a folder`;
    const hint = 'name two folders: `reconcile diff OLD NEW`; or a revision: `reconcile diff main PATH`';
    throw makeFailure('usage', summary, hint);
  }
  if (settings.mergeBase) throw makeFailure('usage', '--merge-base needs two revisions', 'such as main..HEAD');
  const side = (written: string): Side => ({ written, folder: resolve(terminal.cwd, written) });
  return { before: side(first), after: side(second), root: null };
}

/** Two revisions of a folder; `to` null: the folder as it is now. */
async function revisionsOf(
  invocation: Invocation,
  [from, to]: readonly [string, string | null],
  { written, folder }: Side,
): Promise<Sides> {
  if (!isDirectory(folder)) {
    const hint = 'two revisions are written A..B, two folders OLD NEW; PATH is the folder of the manifests';
    throw makeFailure('no-source', `${written} is not a folder that is there`, hint);
  }
  const revision = (name: string): Side => ({ written: name, folder, revision: name });
  return {
    before: invocation.settings.mergeBase ? await mergeBase(invocation, [from, to ?? 'HEAD'], folder) : revision(from),
    after: to === null ? { written: 'the work tree', folder } : revision(to),
    root: written,
  };
}

async function mergeBase(invocation: Invocation, names: readonly [string, string], directory: string): Promise<Side> {
  const { env: environment, stop: signal } = invocation.terminal;
  const { findMergeBase } = await loadGit(invocation);
  const found = await findMergeBase(names, { directory, environment, signal });
  if (!found.ok) throw new Failure([found.error]);
  return { written: `${names[0]} where ${names[1]} left it`, folder: directory, revision: found.value };
}

/** Whether the operand is a folder. What is a folder and a revision too must be told apart by the user. */
async function isNamedFolder(invocation: Invocation, written: string, directory: string): Promise<boolean> {
  const { cwd, env: environment, stop: signal } = invocation.terminal;
  if (/^[./]/.test(written)) return true;
  if (written.startsWith('refs/') || !isDirectory(resolve(cwd, written))) return false;
  if (readRevision(environment) !== null || !isDirectory(directory) || findWorkTree(directory) === null) return true;
  const { isRevision } = await loadGit(invocation);
  if (!(await isRevision(written, { directory, environment, signal }))) return true;
  const hint = `write ./${written} for the folder, or refs/heads/${written} for the branch`;
  throw makeFailure('usage', `${written} is a folder and a revision`, hint);
}
