// The second step of the jobs of ci/gitlab.yml: plan on a merge request, with one note updated in place; apply on the default branch.
// Where the API token is absent (a fork's pipeline, an unprotected branch) the plan is made from a snapshot.
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { callJson, isSame, readPrepared, runJob, writeComment } from './plan-run.mjs';

const env = process.env;
const say = (text) => process.stdout.write(`${text}\n`);

process.exitCode = await main().catch(({ message }) => fail(message));

async function main() {
  const review = env.CI_MERGE_REQUEST_IID !== undefined;
  const fromFork = review && env.CI_MERGE_REQUEST_SOURCE_PROJECT_ID !== env.CI_MERGE_REQUEST_PROJECT_ID;
  const token = fromFork ? '' : (env.RECONCILE_TOKEN ?? '');
  if (token === '' && !review) return fail('RECONCILE_TOKEN is not there: make it a protected, masked variable');
  const prepared = readPrepared(
    env.RECONCILE_PREPARED ?? '',
    env.CI_COMMIT_SHA,
    env.CI_MERGE_REQUEST_SOURCE_BRANCH_SHA,
    env.CI_MERGE_REQUEST_TARGET_BRANCH_NAME,
  );
  const planOnly = review || prepared.held !== '';
  if (planOnly && !review) say(`${prepared.held}, so it is only planned.`);
  const done = await runJob({
    prepared,
    planOnly,
    token,
    snapshot: env.RECONCILE_SNAPSHOT ?? '',
    baseUrl: env.RECONCILE_BASE_URL,
    config: env.RECONCILE_CONFIG,
    path: env.RECONCILE_PATH || '.',
    forApply: env.RECONCILE_APPLY_ARGUMENTS ?? '',
    output: 'text',
    own: ['TOKEN', 'PATH', 'CONFIG', 'SNAPSHOT', 'BASE_URL', 'APPLY_ARGUMENTS', 'GITLAB_TOKEN', 'PREPARED', 'IMAGE'],
    say,
    words: { depth: 'GIT_DEPTH: 0', snapshot: 'RECONCILE_SNAPSHOT', forApply: 'RECONCILE_APPLY_ARGUMENTS' },
  });
  const { code, folder } = done;
  for (const name of ['plan.md', 'plan.json']) {
    rmSync(name, { recursive: true, force: true }); // a merge request may have made it a link
    if (existsSync(join(folder, name))) copyFileSync(join(folder, name), name);
  }
  if (review && env.RECONCILE_GITLAB_TOKEN) await note(done);
  return planOnly && code === 2 ? 0 : code;
}

async function note(done) {
  const request = `${env.CI_API_V4_URL}/projects/${env.CI_MERGE_REQUEST_PROJECT_ID}/merge_requests/${env.CI_MERGE_REQUEST_IID}`;
  const url = `${request}/notes`;
  // The first has a value in a merged results pipeline alone.
  const head = env.CI_MERGE_REQUEST_SOURCE_BRANCH_SHA || env.CI_COMMIT_SHA;
  const headers = { 'private-token': env.RECONCILE_GITLAB_TOKEN };
  await writeComment(done, {
    request,
    isCurrent: (now) => isSame(now.sha, head) && isSame(now.target_branch, env.CI_MERGE_REQUEST_TARGET_BRANCH_NAME),
    run: env.CI_PIPELINE_ID,
    head,
    url,
    change: (id) => `${url}/${id}`,
    method: 'PUT',
    headers,
    isOurs: () => findAuthor(headers),
    where: "the job's artifacts and its log",
    say,
  });
}

/** Whose notes are ours: anybody may write one with our mark, and maintainers may change those of others. */
async function findAuthor(headers) {
  const { status, body } = await callJson(`${env.CI_API_V4_URL}/user`, { headers });
  const us = status === 200 ? body?.id : undefined;
  return ({ author }) => us === undefined || author === undefined || author.id === us;
}

function fail(message) {
  say(message);
  return 1;
}
