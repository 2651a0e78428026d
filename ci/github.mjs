// The Action's second step (action.yml): plan on a pull request, with one comment updated in place; apply on a push.
// A pull request of a fork is planned from a snapshot, and the API token is taken out of reach before its code is looked at.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
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
const input = (name) => (env[`INPUT_${name.replaceAll('-', '_').toUpperCase()}`] ?? '').trim();
const say = (text) => process.stdout.write(`${text}\n`);

process.exitCode = await main();

async function main() {
  const event = (env.GITHUB_EVENT_PATH && JSON.parse(readFileSync(env.GITHUB_EVENT_PATH, 'utf8'))) || {};
  const review = event.pull_request !== undefined;
  const auto = input('mode') === 'auto' || input('mode') === '';
  const { base, names, settings, variables, isForeign } = prepared(input('prepared'));
  const mode = auto ? (review || isForeign || !onMain(event) ? 'plan' : 'apply') : input('mode');
  if (auto && mode === 'plan' && !review) {
    const what = isForeign ? `The checkout, ${variables.RECONCILE_REVISION},` : env.GITHUB_REF;
    say(`::notice::${what} is not the default branch, so it is only planned; \`mode: apply\` applies it.`);
  }
  if (mode !== 'plan' && mode !== 'apply') return fail(`mode must be auto, plan or apply, not ${mode}`);
  if (review && mode === 'apply') return fail('a pull request is never applied: run on a push to the main branch');
  const fromFork = review && event.pull_request.head?.repo?.full_name !== env.GITHUB_REPOSITORY;
  const snapshot = input('snapshot');
  const offline = fromFork || (mode === 'plan' && input('token') === '');
  const path = input('path') || '.';
  const hasSnapshot = snapshot !== '' && existsSync(snapshot);
  if (offline && !hasSnapshot && base.length === 0) {
    return fail(
      'without a token a review needs the base (`fetch-depth: 0`), or a snapshot: `reconcile snapshot --out FILE`, and the input `snapshot`',
    );
  }
  const target = offline
    ? ['--live', snapshot]
    : [...named('--base-url', input('base-url')), ...named('--ca-file', input('ca-file'))];
  const extra = input('arguments')
    .split(/\s+/)
    .filter((word) => word !== '');
  const forApply = splitWords(input('apply-arguments'));
  if (forApply === null) return fail('a quote in apply-arguments is not closed');
  const how = mode === 'plan' ? ['--plan', '--detailed-exitcode'] : ['--yes', ...forApply];
  const argv = [...how, ...settings, ...target, ...base, ...extra, '--no-color', '--output', 'github', path];
  const secrets = offline ? {} : { RECONCILE_TOKEN: input('token'), ...providerSecrets(env) };
  const planned = offline && !hasSnapshot ? null : runCommand(argv, { ...variables, ...secrets }, names);
  const reviewed = offline ? addDiff(planned, { base, names, settings, variables, path, extra }) : planned;
  const { code, markdown, json, folder } = reviewed;
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
  if (review && input('comment') !== 'false') await comment(event.pull_request.number, markdown);
  // 2: changes are pending, which is what a pull request is for.
  return mode === 'plan' && code === 2 ? 0 : code;
}

/**
 * Whether this is the default branch, whose manifests are applied; never a tag, another branch, or a merge queue's trial. A schedule runs
 * nowhere else, and its event may not name it.
 */
function onMain({ repository }) {
  const ref = env.GITHUB_REF ?? '';
  const main = repository?.default_branch;
  if (ref === '' || env.GITHUB_EVENT_NAME === 'schedule') return true;
  return main === undefined ? /^refs\/heads\/(main|master)$/.test(ref) : ref === `refs/heads/${main}`;
}

/** Writes the one comment, or writes it anew. A fork's job may not: the plan is in the job's summary then. */
async function comment(number, text) {
  const api = `${env.GITHUB_API_URL}/repos/${env.GITHUB_REPOSITORY}/issues`;
  const headers = { authorization: `Bearer ${input('github-token')}`, 'x-github-api-version': '2022-11-28' };
  try {
    const before = await findComment(`${api}/${number}/comments`, headers, await author(headers));
    // GitHub takes 65,536.
    for (const body of listBodies(text, "the job's summary and its log", 60_000)) {
      const { status } =
        before === null
          ? await callJson(`${api}/${number}/comments`, { method: 'POST', headers, body: { body } })
          : await callJson(`${api}/comments/${before}`, { method: 'PATCH', headers, body: { body } });
      if (status < 300) return;
      say(`::notice::The comment was not written (${status}); the plan is in the job's summary.`);
    }
  } catch {
    say("::notice::The comment was not written (no answer); the plan is in the job's summary.");
  }
}

/** Whose comments are ours: a stranger could write one with our mark, and change it after us. The token of a job has no user. */
async function author(headers) {
  if (input('github-token').startsWith('ghs_')) return ({ type }) => type === 'Bot';
  const { status, body } = await callJson(`${env.GITHUB_API_URL}/user`, { headers });
  return status === 200 && typeof body?.login === 'string' ? ({ login }) => login === body.login : () => true;
}

async function findComment(url, headers, isOurs) {
  for (let page = 1; page <= 30; page++) {
    const { status, body } = await callJson(`${url}?per_page=100&page=${page}`, { headers });
    if (status !== 200 || !Array.isArray(body)) return null;
    const found = body.find(
      (one) => typeof one.body === 'string' && one.body.startsWith(marker) && isOurs(one.user ?? {}),
    );
    if (found !== undefined) return found.id;
    if (body.length < 100) return null;
  }
  return null;
}

function fail(message) {
  say(`::error::${message}`);
  return 1;
}
