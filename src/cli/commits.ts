import { systemClock } from '../adapters/clock.ts';
import { type CommitContent, openHistory } from '../adapters/source/git-commits.ts';
import { GitError } from '../adapters/source/git-repository.ts';
import { assembleRules, type WrittenRules } from '../desired/assemble-rules.ts';
import type { Commit } from '../model/commit.ts';
import { parseInstant } from '../model/instant.ts';
import type { Problem } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import { type Moment, makeTimeline, type Version } from '../policy/timeline.ts';
import { formatPlace } from '../report/problems.ts';
import { isDirectory } from './base.ts';
import type { Invocation } from './command.ts';
import { Failure, makeFailure } from './failure.ts';
import { makeDesiredContext, makeParser } from './manifests.ts';
import { readLimits } from './plan-settings.ts';
import { tellAfterASecond } from './progress.ts';
import { readRevision } from './revision.ts';

/** A commit's rules, and whom they name. */
export type NamedVersion = Version & WrittenRules;

/** What following a branch came to, beside the moments. */
export interface Followed {
  /** The newest commit that could be read; null: none could. */
  readonly last: NamedVersion | null;
  readonly now: number;
  /** One warning for each commit that could not. */
  readonly skipped: readonly Problem[];
}

/** Follows the manifests in a folder from the first commit to HEAD and now, and gives each moment since `--since` to `visit`. */
export async function followCommits(
  invocation: Invocation,
  directory: string,
  visit: (moment: Moment<NamedVersion>) => void,
): Promise<Followed> {
  const { settings, terminal } = invocation;
  if (readRevision(terminal.env) !== null) {
    throw makeFailure('usage', 'a history needs git', 'where RECONCILE_REVISION is set no git is run; unset it');
  }
  if (!isDirectory(directory))
    throw makeFailure('no-source', `${directory} is not a folder that is there`, 'name a folder of the work tree');
  const limits = readLimits(settings);
  const request = { directory, environment: terminal.env, signal: terminal.stop, limits };
  const history = await openHistory(request);
  if (!history.ok) throw new Failure([history.error]);
  const { commits, contents } = history.value;
  const now = systemClock.wallTime();
  const timeline = makeTimeline<NamedVersion>(commits, { since: sinceAsked(invocation), now });
  const reader = versionReader(invocation, directory, now);
  const progress = tellAfterASecond(terminal);
  const skipped: Problem[] = [];
  let [last, done]: [NamedVersion | null, number] = [null, 0];
  try {
    for await (const { commit, content } of contents()) {
      progress.say(`reading commits: ${++done} of ${commits.length}`);
      const version = await reader(commit, content);
      if (version.ok) last = version.value;
      else skipped.push(skippedCommit(commit, version.error));
      for (const moment of timeline.add(commit, version.ok ? version.value : null)) visit(moment);
    }
  } catch (error) {
    if (error instanceof GitError) throw makeFailure('base', error.message, 'check the repository: git fsck');
    throw error;
  } finally {
    progress.end();
  }
  for (const moment of timeline.end()) visit(moment);
  return { last, now, skipped };
}

type ReadVersion = (commit: Commit, content: CommitContent['content']) => Promise<Result<NamedVersion, Problem>>;

/** Reads versions one after another; most commits of a repository leave its manifests alone. */
function versionReader(invocation: Invocation, directory: string, now: number): ReadVersion {
  const parse = makeParser(invocation.settings);
  const context = makeDesiredContext(invocation, directory);
  let last: { readonly tree: string; readonly rules: WrittenRules } | null = null;
  return async (commit, content) => {
    if (!content.ok) return content;
    const { revision: tree, files } = content.value;
    if (last?.tree !== tree) {
      const at = { ...context, now: Math.min(now, commit.time) };
      const rules: WrittenRules = assembleRules(await parse(files), at, last?.rules ?? null);
      if (rules.fault !== null) return fail(rules.fault);
      last = { tree, rules };
    }
    return ok({ ...last.rules, commit });
  };
}

function sinceAsked({ settings: { since } }: Invocation): number {
  if (since === null) return Number.NEGATIVE_INFINITY;
  const parsed = parseInstant(since, { edge: 'from', timezone: 'UTC' });
  if (parsed.ok) return parsed.value;
  const hint = 'write a date, 2026-10-01, or a time with its zone, 2026-10-01T18:00:00+01:00';
  throw makeFailure('bad-setting', `--since ${since} is not a time`, hint);
}

function skippedCommit({ id, subject }: Commit, { place, summary }: Problem): Problem {
  const where = place === undefined ? '' : `${formatPlace(place)}: `;
  return {
    code: 'commit-skipped',
    severity: 'warning',
    summary: `The commit ${id.slice(0, 12)} (${subject}) is skipped: ${where}${summary}`,
    hint: 'What it changed is told of the next commit that can be read.',
  };
}
