// The Action's second step (action.yml): plan on a pull request, with one comment updated in place; apply on a push.
// A pull request of a fork is planned from a snapshot, and the API token is taken out of reach before its code is looked at.
import { appendFileSync, readFileSync } from 'node:fs';
import { callJson, isSame, readPrepared, runJob, writeComment } from './plan-run.mjs';

const env = process.env;
const input = (name) => (env[`INPUT_${name.replaceAll('-', '_').toUpperCase()}`] ?? '').trim();
const say = (text) => process.stdout.write(`${text}\n`);

process.exitCode = await main().catch(({ message }) => fail(message));

async function main() {
  const event = (env.GITHUB_EVENT_PATH && JSON.parse(readFileSync(env.GITHUB_EVENT_PATH, 'utf8'))) || {};
  const review = event.pull_request !== undefined;
  const auto = input('mode') === 'auto' || input('mode') === '';
  const { head, base } = event.pull_request ?? {};
  const prepared = readPrepared(input('prepared'), env.GITHUB_SHA, head?.sha, base?.ref);
  const held = onMain(event)
    ? prepared.held
    : `${env.GITHUB_REF || 'A commit without a branch'} is not the default branch`;
  const mode = auto ? (review || held !== '' ? 'plan' : 'apply') : input('mode');
  // What the default branch asks for should be applied; elsewhere a plan is meant.
  const level = onMain(event) ? 'warning' : 'notice';
  if (auto && mode === 'plan' && !review)
    say(`::${level}::${held}, so it is only planned; \`mode: apply\` applies it.`);
  if (mode !== 'plan' && mode !== 'apply') return fail(`mode must be auto, plan or apply, not ${mode}`);
  if (review && mode === 'apply') return fail('a pull request is never applied: run on a push to the main branch');
  const fromFork = review && event.pull_request.head?.repo?.full_name !== env.GITHUB_REPOSITORY;
  const done = await runJob({
    prepared,
    planOnly: mode === 'plan',
    token: fromFork ? '' : input('token'),
    snapshot: input('snapshot') || (env.RECONCILE_SNAPSHOT ?? ''),
    baseUrl: input('base-url') || env.RECONCILE_BASE_URL,
    caFile: input('ca-file'),
    config: input('config') || env.RECONCILE_CONFIG,
    path: input('path') || '.',
    forAll: input('arguments'),
    forApply: input('apply-arguments'),
    output: 'github',
    own: ['SNAPSHOT', 'BASE_URL', 'CONFIG'],
    say: (text) => say(`::notice::${text}`),
    words: {
      depth: '`fetch-depth: 0`',
      snapshot: 'the input `snapshot`',
      forAll: 'arguments',
      forApply: 'apply-arguments',
    },
  });
  const { code, markdown, json, folder } = done;
  if (markdown !== '' && env.GITHUB_STEP_SUMMARY) appendFileSync(env.GITHUB_STEP_SUMMARY, `${markdown}\n`);
  if (env.GITHUB_OUTPUT) {
    const document = json === '' ? null : JSON.parse(json);
    const outputs = { exitcode: code, digest: document?.digest ?? '', steps: document?.summary?.steps ?? '', folder };
    appendFileSync(
      env.GITHUB_OUTPUT,
      Object.entries(outputs)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    );
  }
  if (review && input('comment') !== 'false') await comment(event.pull_request, done);
  // 2: changes are pending, which is what a pull request is for.
  return mode === 'plan' && code === 2 ? 0 : code;
}

/**
 * Whether this is the default branch, whose manifests are applied; never a tag, another branch, or a merge queue's trial. A schedule runs
 * nowhere else, and its event may not name it; a deployment may be of any commit, and then has no ref.
 */
function onMain({ repository }) {
  const ref = env.GITHUB_REF ?? '';
  const main = repository?.default_branch;
  if (env.GITHUB_EVENT_NAME === 'schedule') return true;
  return main === undefined ? /^refs\/heads\/(main|master)$/.test(ref) : ref === `refs/heads/${main}`;
}

async function comment({ number, head, base }, done) {
  const repository = `${env.GITHUB_API_URL}/repos/${env.GITHUB_REPOSITORY}`;
  const api = `${repository}/issues`;
  const headers = { authorization: `Bearer ${input('github-token')}`, 'x-github-api-version': '2022-11-28' };
  await writeComment(done, {
    request: `${repository}/pulls/${number}`,
    isCurrent: (now) => isSame(now.head?.sha, head?.sha) && isSame(now.base?.ref, base?.ref),
    isNewest: (now) => now.merge_commit_sha === env.GITHUB_SHA,
    run: env.GITHUB_RUN_ID,
    head: head?.sha,
    url: `${api}/${number}/comments`,
    change: (id) => `${api}/comments/${id}`,
    method: 'PATCH',
    headers,
    isOurs: () => findAuthor(headers),
    where: "the job's summary and its log",
    most: 60_000, // GitHub takes 65,536
    say: (text) => say(`::notice::${text}`),
  });
}

/** Whose comments are ours: a stranger could write one with our mark, and change it after us. The token of a job has no user. */
async function findAuthor(headers) {
  if (input('github-token').startsWith('ghs_')) return ({ user }) => user?.type === 'Bot';
  const { status, body } = await callJson(`${env.GITHUB_API_URL}/user`, { headers });
  return status === 200 && typeof body?.login === 'string' ? ({ user }) => user?.login === body.login : () => true;
}

function fail(message) {
  say(`::error::${message}`);
  return 1;
}
