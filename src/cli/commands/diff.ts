import { resolve } from 'node:path';
import { createDirectorySource } from '../../adapters/source/directory.ts';
import type { Desired, DesiredContext } from '../../desired/context.ts';
import { assemble } from '../../desired/desired.ts';
import type { ParseFiles } from '../../desired/parse-files.ts';
import type { Problem } from '../../model/problem.ts';
import { ok } from '../../model/result.ts';
import { Secret } from '../../model/secret.ts';
import type { DesiredState } from '../../model/state.ts';
import { diffDesired } from '../../plan/diff-desired.ts';
import type { Plan } from '../../plan/plan.ts';
import type { SourceContent } from '../../ports.ts';
import { makeProblemReport, type RunReport } from '../../report/run-report.ts';
import { renderPlan } from '../../report/text.ts';
import { describeInvalidBase, isDirectory, nothingYet, readRevisionContent } from '../base.ts';
import type { Answer, Invocation } from '../command.ts';
import { chooseExitCode, exitCodes } from '../exit-code.ts';
import { Failure, makeFailure } from '../failure.ts';
import { applyStrict, isInvalid, makeDesiredContext, makeParser } from '../manifests.ts';
import { readLimits, readPlanOptions } from '../plan-settings.ts';
import { readRevision } from '../revision.ts';

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
  const parse = makeParser(settings);
  const before = await build(invocation, sides.before, parse);
  const after = await build(invocation, sides.after, parse);
  const from = stateBefore(before, sides.before);
  const problems = applyStrict(after.desired.problems, settings);
  const to = isInvalid(problems, settings) ? null : after.desired.state;
  const context = makeDesiredContext(invocation, null);
  const options = readPlanOptions(settings, null);
  const { profile, scope } = context;
  const plan = to === null ? null : diffDesired({ before: from, after: to, profile, scope, options });
  const report: RunReport = {
    ...makeProblemReport(problems),
    root: sides.root,
    revision: after.revision,
    plan: plan === null ? null : withoutUnknownSecrets(plan),
    base: before.revision,
    userNames: new Map([...from.userNames, ...(to?.userNames ?? [])]),
    groups: to?.groups ?? new Map(),
    desired: to,
    comparison: { from: sides.before.written, to: sides.after.written },
  };
  const changes = report.plan?.changes.filter(({ action }) => action !== 'keep') ?? [];
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

/** Secrets are never looked up: a provider that is the same but for them is the same. */
function withoutUnknownSecrets(plan: Plan): Plan {
  const changes = plan.changes.filter(({ reason }) => reason !== 'unknown-secret');
  if (changes.length === plan.changes.length) return plan;
  return { ...plan, changes, summary: { ...plan.summary, skip: plan.summary.skip - 1 } };
}

interface Built {
  readonly desired: Desired;
  /** A commit, or the digest of a folder's content. */
  readonly revision: string | null;
}

async function build(invocation: Invocation, side: Side, parse: ParseFiles): Promise<Built> {
  const content = await readSide(invocation, side, parse);
  if (content.files.length === 0) return { desired: nothing, revision: content.revision };
  const context: DesiredContext = {
    ...makeDesiredContext(invocation, side.folder),
    resolveSecret: () => ok(Secret.unknown()),
  };
  return { desired: assemble(await parse(content.files), null, context), revision: content.revision };
}

/** A revision from before the manifests, or after they were removed. */
const nothing: Desired = { state: nothingYet, problems: [], emails: [], manifests: [], suppressions: [] };

function stateBefore({ desired: { state, problems } }: Built, { written }: Side): DesiredState {
  if (state !== null) return state;
  const problem: Problem = {
    code: 'base-invalid',
    severity: 'error',
    summary: describeInvalidBase(problems, written),
    hint: 'compare with a revision whose manifests are valid',
  };
  throw new Failure([problem], exitCodes.invalid);
}

async function readSide(invocation: Invocation, side: Side, parse: ParseFiles): Promise<SourceContent> {
  const { settings, terminal } = invocation;
  const limits = readLimits(settings);
  if (side.revision === undefined) {
    const { content, problems } = await createDirectorySource(side.folder, limits).read(terminal.stop);
    if (content === null) throw new Failure(problems, exitCodes.invalid);
    return content;
  }
  await git(invocation);
  return await readRevisionContent(invocation, { directory: side.folder, ref: side.revision, parse });
}

/** Git, unless the run is told to leave it alone. */
async function git({ terminal }: Invocation) {
  if (readRevision(terminal.env) !== null) {
    const hint =
      'where RECONCILE_REVISION is set no git is run: write the revisions into folders first (docs/how-to/ci.md)';
    throw makeFailure('usage', 'diff of a revision needs git', hint);
  }
  return await import('../../adapters/source/git-ref.ts');
}

async function sidesOf(invocation: Invocation): Promise<Sides> {
  const { operands, settings, terminal } = invocation;
  const [first = '', second] = operands;
  if (first === '') {
    throw makeFailure(
      'usage',
      'diff needs what to compare',
      'for example `reconcile diff main..HEAD .` or `reconcile diff main`',
    );
  }
  const range = /^(?![./])(.+?)\.\.(?!\.)(.*)$/.exec(first);
  const path = second ?? '.';
  const root = resolve(terminal.cwd, path);
  if (range !== null && !isDirectory(resolve(terminal.cwd, first))) {
    if (first.includes('...')) {
      throw makeFailure(
        'usage',
        `${first} has three dots`,
        'write A..B; with --merge-base it means what A...B does to git',
      );
    }
    const [, from = '', to = ''] = range;
    return await revisions(invocation, [from, to === '' ? 'HEAD' : to], { written: path, folder: root });
  }
  const folder = resolve(terminal.cwd, first);
  if (await isNamedFolder(invocation, first, root)) {
    if (second === undefined || !isDirectory(root)) {
      const summary = second === undefined ? `${first} is one folder` : `${second} is not a folder`;
      throw makeFailure(
        'usage',
        summary,
        'name two folders: `reconcile diff OLD NEW`; or a revision: `reconcile diff main PATH`',
      );
    }
    if (settings.mergeBase) throw makeFailure('usage', '--merge-base needs two revisions', 'such as main..HEAD');
    return { before: { written: first, folder }, after: { written: second, folder: root }, root: null };
  }
  const { before } = await revisions(invocation, [first, 'HEAD'], { written: path, folder: root });
  return { before, after: { written: 'the work tree', folder: root }, root: path };
}

async function revisions(
  invocation: Invocation,
  [from, to]: readonly [string, string],
  { written, folder }: { readonly written: string; readonly folder: string },
): Promise<Sides> {
  const { settings, terminal } = invocation;
  const side = (name: string, revision = name): Side => ({ written: name, folder, revision });
  if (!isDirectory(folder)) throw noFolder(written);
  if (!settings.mergeBase) return { before: side(from), after: side(to), root: written };
  const { findMergeBase } = await git(invocation);
  const found = await findMergeBase([from, to], {
    directory: folder,
    environment: terminal.env,
    signal: terminal.stop,
  });
  if (!found.ok) throw new Failure([found.error]);
  return { before: side(`${from} where ${to} left it`, found.value), after: side(to), root: written };
}

/** Whether the operand is a folder. What is a folder and a revision too must be told apart by the user. */
async function isNamedFolder(invocation: Invocation, written: string, root: string): Promise<boolean> {
  if (/^[./]/.test(written)) return true;
  const { terminal } = invocation;
  if (written.startsWith('refs/') || !isDirectory(resolve(terminal.cwd, written))) return false;
  if (readRevision(terminal.env) !== null || !isDirectory(root)) return true;
  const { isRevision } = await git(invocation);
  const request = { directory: root, environment: terminal.env, signal: terminal.stop };
  if (!(await isRevision(written, request))) return true;
  throw makeFailure(
    'usage',
    `${written} is a folder and a revision`,
    `write ./${written} for the folder, or refs/heads/${written} for the branch`,
  );
}

function noFolder(written: string): Failure {
  const hint = 'PATH is the folder of the manifests; or name two folders: reconcile diff OLD NEW';
  return makeFailure('no-source', `${written} is not a folder that is there`, hint);
}
