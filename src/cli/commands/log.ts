import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../../adapters/clock.ts';
import { createManifestParser } from '../../adapters/manifest-parser.ts';
import { explainGitError, openHistory } from '../../adapters/source/git-ref.ts';
import { GitError } from '../../adapters/source/git-repository.ts';
import { findInWorkTree } from '../../adapters/source/work-tree.ts';
import { assembleRules } from '../../desired/desired.ts';
import type { Commit } from '../../model/commit.ts';
import { formatInstant } from '../../model/instant.ts';
import { findUserId } from '../../model/known-users.ts';
import { makeError, makeWarning, type Problem } from '../../model/problem.ts';
import { ok } from '../../model/result.ts';
import { decideAt, findVerdictChange, type Moment, makeTimeline, type Version } from '../../policy/timeline.ts';
import type { SourceContent } from '../../ports.ts';
import { tellBlame, tellLog, tellTraffic } from '../../report/commits.ts';
import { formatPlace, renderProblems } from '../../report/problems.ts';
import type { TableAnswer } from '../../report/table.ts';
import { commitFirst, isDirectory } from '../base.ts';
import { type Answer, exitCodes, Failure, type Invocation, makeFailure, mustRead } from '../command.ts';
import { buildOperand, makeDesiredContext, makeParser, readParseOptions, readTimeAsked } from '../manifests.ts';
import { readDirectoryOperand } from '../path-operand.ts';
import { readLimits } from '../plan-settings.ts';
import { tellProgress } from '../progress.ts';
import { answerWithTable, findNamedUser, readPacket } from '../question.ts';
import { requireGit } from '../revision.ts';
import { type FoundFile, readSideValues, tellSame } from '../values.ts';

/** `reconcile log PATH --since TIME`: what each commit opened and closed, newest first, and the times at which rules began or ended. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { path } = readDirectoryOperand(invocation, 'log');
  return await answerFromHistory(invocation, path, tellTraffic, tellLog);
}

/** `reconcile blame PATH --destination A --protocol P --port N`: the commits in which this packet's verdict changed, newest first. */
export async function runBlame(invocation: Invocation): Promise<Answer> {
  const { path } = readDirectoryOperand(invocation, 'blame');
  const { settings } = invocation;
  const { port, user, ...asked } = readPacket(settings);
  if (port === null && asked.protocol !== 'other')
    throw makeFailure('usage', '--port is missing', 'blame follows one packet: name its port');
  const id = settings.origins.has('user') ? await findUserIn(invocation, user ?? '') : null;
  const packet = { ...asked, port: port ?? 0, user: id };
  const find = (moment: Moment) => findVerdictChange(moment, packet);
  return await answerFromHistory(invocation, path, find, (changes, newest, now) => {
    const verdict = newest && decideAt(newest, now, packet).verdict;
    return tellBlame({ packet, names: newest?.userNames ?? new Map(), verdict, changes, from: settings.since });
  });
}

/** A user by the names of the work tree, whatever else is wrong with it; its errors where they may be why it says nothing clear. */
async function findUserIn(invocation: Invocation, user: string): Promise<string> {
  const { state, manifests, emails, problems } = await buildOperand(invocation, 'blame');
  const written = emails.map((email) => ({ id: email, name: email }));
  const known = [...manifests.flatMap((one) => (one.kind === 'Users' ? one.users : [])), ...written];
  const names = state ?? { userNames: new Map(), userIds: new Map(known.map(({ id, name }) => [name, id])) };
  const isClear = findUserId(user, names) !== null && known.filter(({ name }) => name === user).length < 2;
  const errors = problems.filter(({ severity }) => severity === 'error');
  if (!isClear && errors.length > 0) throw new Failure(errors, exitCodes.invalid);
  return findNamedUser(user, names);
}

/** Tells what `find` sees since `--since`, the newest first. Commits that cannot be read are named. */
async function answerFromHistory<C>(
  invocation: Invocation,
  directory: string,
  find: (moment: Moment) => C | null,
  tell: (changes: readonly C[], newest: Version | null, now: number) => TableAnswer,
): Promise<Answer> {
  const { settings, terminal } = invocation;
  requireGit(terminal.env, 'a history needs git', 'unset it');
  if (!isDirectory(directory))
    throw makeFailure('no-source', `${directory} is not a folder that is there`, 'name a folder of the work tree');
  const request = { directory, environment: terminal.env, signal: terminal.stop, limits: readLimits(settings) };
  const { commits, contents } = mustRead(await openHistory({ ...request, files: settings.values }));
  const now = systemClock.wallTime();
  const since = readTimeAsked(settings, 'since') ?? Number.NEGATIVE_INFINITY;
  const timeline = makeTimeline(commits, now, since);
  const readVersion = versionReader(invocation, directory, now);
  const found: (readonly C[])[] = [];
  const look = (moments: readonly Moment[]) =>
    found.push(moments.flatMap((moment) => (moment.time < since ? [] : (find(moment) ?? []))));
  const outside = settings.values.filter((file) => findInWorkTree(directory, file) === null);
  const skipped: Problem[] = [];
  let [done, held] = [0, 0];
  await tellProgress(terminal, async (say) => {
    for await (const { commit, files, content } of contents) {
      say(`reading commits: ${++done} of ${commits.length}`);
      const version = content.ok ? await readVersion(commit, content.value, files) : content;
      if (version.ok && content.ok && content.value.files.length > 0) held++;
      if (!version.ok) skipped.push(skippedCommit(commit, version.error));
      look(timeline.add(commit, version.ok ? version.value : null));
    }
  }).catch((error: unknown) => {
    throw error instanceof GitError ? new Failure([explainGitError(error)]) : error;
  });
  if (held === 0) {
    const which = skipped.length === 0 ? '' : ' that can be read';
    const none = makeError('no-manifests', `no commit${which} holds manifests in ${directory}`, commitFirst);
    throw new Failure([none, ...skipped]);
  }
  look(timeline.end());
  const unseen = timeline.until();
  if (unseen !== null) {
    const when = formatInstant(unseen);
    const summary = `Rules begin and end at too many times: those from ${when} on are left out, commits are not.`;
    skipped.push(makeWarning('too-many-times', summary, `Look at the others by themselves: --since ${when}`));
  }
  const problems = [...outside.map((file) => tellSame(directory, file)), ...skipped];
  const answer = answerWithTable(tell(found.flat().reverse(), timeline.newest(), now), problems);
  return { ...answer, notes: (color) => renderProblems(problems, color) };
}

/** Reads versions one after another; most commits of a repository leave its manifests alone. */
function versionReader(invocation: Invocation, directory: string, now: number) {
  const { settings } = invocation;
  let parse = makeParser({ ...settings, values: [] });
  let held: readonly FoundFile[] = [];
  const context = makeDesiredContext(invocation, directory);
  let tree: string | null = null;
  let rules: ReturnType<typeof assembleRules> = ok({ rules: [], userNames: new Map() });
  return async (commit: Commit, { revision, files }: SourceContent, values: readonly FoundFile[]) => {
    if (!isDeepStrictEqual(values, held)) {
      const read = readSideValues(settings, directory, commit.id, values);
      parse = createManifestParser(readParseOptions(settings, read.values));
      [tree, held] = [null, values];
    }
    if (tree !== revision) rules = assembleRules(await parse(files), { ...context, now: Math.min(now, commit.time) });
    tree = rules.ok ? revision : null;
    return rules.ok ? ok({ ...rules.value, commit }) : rules;
  };
}

function skippedCommit({ id, subject }: Commit, { place, summary }: Problem): Problem {
  const where = place === undefined ? '' : `${formatPlace(place)}: `;
  const skipped = `The commit ${id.slice(0, 12)} (${subject}) is skipped: ${where}${summary}`;
  return makeWarning('commit-skipped', skipped, 'The next commit that can be read is named for its changes.');
}
