// The second step of the jobs of ci/gitlab.yml: plan on a merge request, with one note updated in place; apply on the default branch.
// Where the API token is absent (a fork's pipeline, an unprotected branch) the plan is made from a snapshot.
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  addDiff,
  callJson,
  listBodies,
  marker,
  named,
  prepared,
  providerSecrets,
  runCommand,
  splitWords,
} from './plan-run.mjs';

const env = process.env;
const say = (text) => process.stdout.write(`${text}\n`);

process.exitCode = await main();

async function main() {
  const review = env.CI_MERGE_REQUEST_IID !== undefined;
  const fromFork = review && env.CI_MERGE_REQUEST_SOURCE_PROJECT_ID !== env.CI_MERGE_REQUEST_PROJECT_ID;
  const token = fromFork ? '' : (env.RECONCILE_TOKEN ?? '');
  const snapshot = env.RECONCILE_SNAPSHOT ?? '';
  if (token === '' && !review) return fail('RECONCILE_TOKEN is not there: make it a protected, masked variable');
  const path = env.RECONCILE_PATH || '.';
  const { base, names, settings, variables } = prepared(env.RECONCILE_PREPARED ?? '');
  const hasSnapshot = snapshot !== '' && existsSync(snapshot);
  if (token === '' && !hasSnapshot && base.length === 0) {
    return fail(
      'without a token a review needs the base (GIT_DEPTH: 0), or a snapshot: `reconcile snapshot --out FILE`, and RECONCILE_SNAPSHOT',
    );
  }
  const target = token === '' ? ['--live', snapshot] : named('--base-url', env.RECONCILE_BASE_URL);
  const forApply = splitWords(env.RECONCILE_APPLY_ARGUMENTS ?? '');
  if (forApply === null) return fail('a quote in RECONCILE_APPLY_ARGUMENTS is not closed');
  const how = review ? ['--plan', '--detailed-exitcode'] : ['--yes', ...forApply];
  const argv = [...how, ...settings, ...target, ...base, '--no-color', '--output', 'text', path];
  const secrets = token === '' ? {} : { RECONCILE_TOKEN: token, ...providerSecrets(env) };
  const planned = token === '' && !hasSnapshot ? null : runCommand(argv, { ...variables, ...secrets }, names);
  const reviewed = token === '' ? addDiff(planned, { base, names, settings, variables, path }) : planned;
  const { code, markdown, folder } = reviewed;
  for (const name of ['plan.md', 'plan.json']) {
    rmSync(name, { recursive: true, force: true }); // a merge request may have made it a link
    if (existsSync(join(folder, name))) copyFileSync(join(folder, name), name);
  }
  if (review && env.RECONCILE_GITLAB_TOKEN) await note(markdown);
  return review && code === 2 ? 0 : code;
}

async function note(text) {
  const url = `${env.CI_API_V4_URL}/projects/${env.CI_MERGE_REQUEST_PROJECT_ID}/merge_requests/${env.CI_MERGE_REQUEST_IID}/notes`;
  const headers = { 'private-token': env.RECONCILE_GITLAB_TOKEN };
  try {
    const before = await findNote(url, headers);
    for (const body of listBodies(text, "the job's artifacts and its log")) {
      const { status } =
        before === null
          ? await callJson(url, { method: 'POST', headers, body: { body } })
          : await callJson(`${url}/${before}`, { method: 'PUT', headers, body: { body } });
      if (status < 300) return;
      say(`The note was not written (${status}); the plan is in the job's artifacts.`);
    }
  } catch {
    say("The note was not written (no answer); the plan is in the job's artifacts.");
  }
}

/** Our note among all: anybody may write one with our mark, and maintainers may change those of others. */
async function findNote(url, headers) {
  const { status, body: user } = await callJson(`${env.CI_API_V4_URL}/user`, { headers });
  const us = status === 200 ? user?.id : undefined;
  for (let page = 1; page <= 30; page++) {
    const { body: notes } = await callJson(`${url}?per_page=100&page=${page}`, { headers });
    if (!Array.isArray(notes)) return null;
    const found = notes.find(
      (one) =>
        String(one.body).startsWith(marker) && (us === undefined || one.author === undefined || one.author.id === us),
    );
    if (found !== undefined) return found.id;
    if (notes.length < 100) return null;
  }
  return null;
}

function fail(message) {
  say(message);
  return 1;
}
