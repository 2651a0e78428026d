// What the review scripts share: running the command, and reading what it wrote.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';

/** The first line that `--output markdown` writes; comments of 0.1 begin with it. */
const plainMarker = '<!-- reconcile-plan -->';

/** The command beside these scripts, as the package and the image hold it (dist/ci), or as a checkout builds it. */
const command = ['../reconcile.js', '../dist/reconcile.js']
  .map((name) => resolve(import.meta.dirname, name))
  .find((path) => existsSync(path));

/** What the command gets of the job's variables: who runs it, where the repository has its pages, and how GitHub's runner finds what a job left. */
const passed = [
  ...['PATH', 'HOME', 'CI_JOB_ID', 'GITLAB_USER_LOGIN'],
  ...['GITHUB_RUN_ID', 'GITHUB_ACTOR', 'GITHUB_SERVER_URL', 'GITHUB_REPOSITORY', 'RUNNER_TRACKING_ID'],
];
/** What it gets beside the token alone: these may hold a password. */
const proxies = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'NO_PROXY', 'no_proxy'];
/** Settings that the job decides, by its inputs or because it reads the outcome. */
const decided = /^RECONCILE_(BASE_URL|TOKEN_FILE|SNAPSHOT|LIVE|BASE|OUTPUT|DETAILED_EXITCODE)$/;

/**
 * Plans or applies as a job asks, beside what the step before `prepared`; a plan without a token is made from the snapshot, or is the difference
 * to the base. `words`: what the forge calls its inputs. Throws an `Error` for people.
 */
export async function runJob(job) {
  const { prepared, planOnly, token, snapshot, baseUrl, caFile, path, forAll = '', forApply, output, words } = job;
  if (command === undefined) throw new Error('reconcile is not built: run npm ci && npm run build');
  tellUnused(job);
  const { base, names, settings, variables, unread } = prepared;
  const offline = planOnly && token === '';
  const hasSnapshot = snapshot !== '' && existsSync(snapshot);
  if (offline && !hasSnapshot && base.length === 0) {
    const instead = `a snapshot: \`reconcile snapshot --out FILE\`, and ${words.snapshot}`;
    throw new Error(`without a token a review needs the base (${words.depth}), or ${instead}`);
  }
  const [extra, more] = [splitWords(forAll, words.forAll), splitWords(forApply, words.forApply)];
  const how = planOnly ? ['--plan', '--detailed-exitcode'] : ['--yes', ...more];
  const target = offline ? ['--live', snapshot] : [...named('--base-url', baseUrl), ...named('--ca-file', caFile)];
  const argv = [...how, ...settings, ...target, ...base, ...extra, '--no-color', '--output', output, path];
  const secret = pick((name) => isSecret(name) || proxies.includes(name));
  const secrets = offline ? {} : { RECONCILE_TOKEN: token, ...secret };
  const planned = offline && !hasSnapshot ? null : await runCommand(argv, { ...variables, ...secrets }, names);
  const done = offline ? await addDiff(planned, { ...prepared, path, extra }) : planned;
  const run = nameRun(job, extra);
  const page = unread === '' ? done.markdown : tellFirst(done.markdown, `Warning: ${escapeProse(unread)}`);
  return { ...done, run, markdown: page === '' ? '' : nameText(page, run) };
}

/**
 * What tells a run from others of the repository, for its heading, and how a later run finds its comment again. Files by their paths from the
 * checkout, which lies elsewhere on another runner; an address without the password that it may hold.
 */
function nameRun({ path, baseUrl = '', snapshot, config = '' }, extra) {
  const [folder, file, live] = [path, config, snapshot].map((one) => one && (relative('', resolve(one)) || '.'));
  const words = joinValues(extra);
  // A flag counts more.
  const variables = ['overlay', 'values', 'profile']
    .filter((name) => !words.some((word) => word.startsWith(`--${name}=`)))
    .flatMap((name) => named(`--${name}`, process.env[`RECONCILE_${name.toUpperCase()}`]));
  const flags = [...words, ...joinValues(variables)].filter((word) =>
    /^--(base-url|config|fleet|target|overlay|values|profile)=/.test(word),
  );
  const parts = [folder, baseUrl || live, file, ...flags].filter(Boolean);
  const shown = parts.map((part) => part.replace(/\/\/[^@/]*@/, '//').replace(/[`\r\n]/g, "'"));
  const key = createHash('sha256').update(JSON.stringify(shown)).digest('hex').slice(0, 12);
  return { title: shown.map((part) => `\`${part}\``).join(' '), marker: `<!-- reconcile-plan ${key} -->` };
}

/** The Markdown of a command with the run's own marker and name. */
function nameText(text, { title, marker }) {
  const bare = text.startsWith(plainMarker) ? text.slice(plainMarker.length).trimStart() : text;
  return `${marker}\n${bare.replace(/^#+ /m, (mark) => `${mark}${title} · `)}`;
}

/**
 * Runs the command with these arguments; Markdown and JSON go to files of their own. `environment` is all it gets, beside settings and
 * what is `passed`: whether the API token is there is the caller's decision. The Markdown calls paths by other `names`: a folder of its own
 * has another path in each run.
 */
async function runCommand(argv, environment, names = []) {
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-'));
  const [markdown, json] = [join(folder, 'plan.md'), join(folder, 'plan.json')];
  const outputs = ['--output', `markdown=${markdown}`, '--output', `json=${json}`];
  const child = spawn(process.execPath, [command, ...argv, ...outputs], {
    env: { CI: 'true', ...pick((name) => passed.includes(name) || isSetting(name)), ...nameRemote(), ...environment },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  // A job that is cancelled: the command ends what is under way, and says what it did. A runner may signal it and its group, more than once.
  let isTold = false;
  const forward = (signal) => {
    if (!isTold) child.kill(signal);
    isTold = true;
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, forward);
  const [status] = await once(child, 'close');
  for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, forward);
  const read = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  const text = names.reduce((all, [path, name]) => {
    return all.replaceAll(escapeProse(path), name).replaceAll(path, name);
  }, read(markdown));
  if (text !== '') writeFileSync(markdown, text);
  return { code: status ?? 1, markdown: text, json: read(json), folder };
}

/** Text of a name that a stranger may have chosen, as a page shows it. */
const escapeProse = (text) => text.replace(/[\\`*_{}[\]()<>#!|~&$]/g, '\\$&');

/** A page with this below its heading. */
const tellFirst = (page, text) => page.replace(/^#+ .*$/m, (heading) => `${heading}\n\n${text}`);

/** Words as a shell splits them, with quotes and nothing else of a shell; throws where a quote of `input` is not closed. */
function splitWords(text, input) {
  const word = /(?:[^\s'"]+|'[^']*'|"[^"]*")+/g;
  if (/['"]/.test(text.replace(word, ''))) throw new Error(`a quote in ${input} is not closed`);
  return (text.match(word) ?? []).map((one) => one.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'));
}

/** A flag with its value; none where that is empty, so that the settings file counts. */
function named(flag, value = '') {
  return value === '' ? [] : [flag, value];
}

/**
 * What the step before wrote (dist/ci/base.js), which had no secret: the arguments that name the base, and the variable that
 * tells the command what is planned, so that it starts no git beside the token. `held`: why it is only planned. `request`: the commit of a
 * request, and the branch that the forge merged it into as `merge`, which nobody can look up: its lines are not those of the request.
 */
export function readPrepared(folder, merge, request, into) {
  const read = (name) => {
    const file = join(folder, name);
    return folder !== '' && existsSync(file) ? [readFileSync(file, 'utf8')] : [];
  };
  const base = read('base'); // its content is the path of the manifests
  const [held = '', revision = 'not known', unread = ''] = ['held', 'revision', 'unread'].map((one) => read(one)[0]);
  const named = merge === request ? request : `the merge of ${request?.slice(0, 12)} into ${into}`;
  return {
    base: base.map((path) => `--base=${path}`),
    names: base.map((path) => [path, 'the base']),
    settings: read('config').flatMap((file) => ['--config', file]),
    held,
    unread,
    isJudged: read('judged').join() !== '',
    variables: { RECONCILE_REVISION: request && merge ? revision.replace(merge, () => named) : revision },
  };
}

/**
 * What the change itself does, without a server: the difference of two folders. `plan` is the outcome of a plan from a snapshot, to which
 * it is added, and refused where the difference is, or cannot be judged though something is to be refused; null: there is none. Null when the base is not here.
 */
async function addDiff(plan, { base, names, settings, variables, isJudged, path, extra }) {
  const folder = base[0]?.slice('--base='.length);
  if (folder === undefined || plan?.markdown === '') return plan;
  const argv = ['diff', ...settings, ...pickDiffFlags(extra), '--detailed-exitcode', '--no-color', '--output', 'text'];
  const diff = await runCommand([...argv, resolve(folder), resolve(path)], variables, [
    ...names,
    [resolve(path), path],
  ]);
  if (plan === null) return diff;
  const below = `<details><summary>Without the server</summary>\n\n${diff.markdown}\n\n</details>`;
  // A request may bring its own snapshot, but not its own base.
  const isRefused = [0, 2].includes(plan.code) && (diff.code === 3 || (isJudged && ![0, 2].includes(diff.code)));
  const refused = '**Refused for its difference to the base**, which stands below.';
  const told = diff.code === 3 ? refused : '**Failed: the difference to the base could not be judged.**';
  const above = isRefused ? tellFirst(plan.markdown, told) : plan.markdown;
  return { ...plan, code: isRefused ? diff.code : plan.code, markdown: `${above}\n${below}\n` };
}

/**
 * What a comment says, and what it says where the forge refuses that: an older comment must not stand there as if it were about this
 * commit. `where`: what holds all of the text; `most`: characters that the forge takes, of which the last are left out.
 */
export function listBodies(text, run, where, most = Number.POSITIVE_INFINITY) {
  const short = (what) => nameText(`### reconcile: ${what}\n`, run);
  if (text === '') return [short("the command ended without a plan: see the job's log")];
  const cut = text.slice(0, text.lastIndexOf('\n', most - 200));
  const body = text.length <= most ? text : `${cut}\n\nCut here: too long for a comment; ${where} have all of it.\n`;
  return [body, short(`the plan is too long for a comment: ${where} have it`)];
}

/** Flags with the values that stand behind them in one word. */
function joinValues(words) {
  const valued = /^--(base-url|config|fleet|target|overlay|values|profile|fail-on)$/;
  return words.map((word, n) => (valued.test(word) ? `${word}=${words[n + 1] ?? ''}` : word));
}

/** Of more flags for a plan those that a diff has too, with their values: what is built, and what fails. */
function pickDiffFlags(words) {
  return joinValues(words).filter((word) =>
    /^--(strict|full|(overlay|values|profile)=.*|fail-on=(opens|closes|any))$/.test(word),
  );
}

/** The job's variables whose names do. */
function pick(does) {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => does(name)));
}

/** Whether a variable holds a secret of a provider. */
const isSecret = (name) => name.startsWith('RECONCILE_SECRET_');

/** Whether a variable is a setting of the command that the job leaves to it, as the table of options says (src/cli/options.ts). */
function isSetting(variable) {
  const table = createRequire(import.meta.url)(join(dirname(command), 'ci/options.js'));
  return (
    !decided.test(variable) && table.optionNames.filter(table.isSetting).map(table.nameVariable).includes(variable)
  );
}

/** GitLab's address of the repository, without the token that it holds. */
function nameRemote() {
  const { CI_REPOSITORY_URL: url } = process.env;
  return url === undefined ? {} : { CI_REPOSITORY_URL: url.replace(/\/\/[^@/]*@/, '//') };
}

/** Names variables that somebody may believe to be in force; `own`: those that the forge's script reads. */
function tellUnused({ own, say }) {
  const isUsed = (name) => own.includes(name.replace('RECONCILE_', '')) || isSecret(name) || isSetting(name);
  const names = Object.keys(pick((name) => name.startsWith('RECONCILE_') && process.env[name] !== '' && !isUsed(name)));
  if (names.length > 0)
    say(`Without effect in this job: ${names.join(', ')}. The job decides it, or no setting has that name.`);
}

/**
 * Writes the one comment of a review anew, or a first one; `isOurs` tells our comments from those of strangers. A fork's job may not write:
 * its plan is in `where`. Nor does the job of an older commit that runs again: `isCurrent` looks at what is at `request` now. Nor does an older
 * `run` of the same `head`, which may be merged with an older target branch, unless `isNewest` finds its merge to be that of now.
 */
export async function writeComment(
  { markdown, run, code },
  { url, change, method, headers, isOurs, where, most, say, ...asked },
) {
  try {
    const before = await findComment(url, headers, run.marker, await isOurs());
    const { status: known, body: now } = await callJson(asked.request, { headers });
    const [, last, of] = /^<!-- [\w -]+ --><!-- run (\d+) of (\S+) -->/.exec(before?.body) ?? [];
    const isOlder = of === asked.head && Number(last) > Number(asked.run);
    const isOutdated = known === 200 && !asked.isCurrent(now);
    if (isOutdated || (isOlder && !(known === 200 && asked.isNewest?.(now)))) {
      const why = isOutdated
        ? 'the request has another commit, or another target, by now'
        : 'that of a later run stands';
      return say(`The comment was not written: ${why}. The plan is in ${where}.`);
    }
    // One without a plan says nothing that is newer.
    const stamp = asked.run && [0, 2, 3].includes(code) ? `<!-- run ${asked.run} of ${asked.head} -->` : '';
    for (const text of listBodies(markdown, run, where, most)) {
      const body = text.replace('\n', `${stamp}\n`);
      const [at, how] = before === null ? [url, 'POST'] : [change(before.id), method];
      const { status } = await callJson(at, { method: how, headers, body: { body } });
      if (status < 300) return;
      say(`The comment was not written (${status}); the plan is in ${where}.`);
    }
  } catch {
    say(`The comment was not written (no answer); the plan is in ${where}.`);
  }
}

/** Whether what the forge says now is what the job was started for; where one of them is not known, nothing tells them apart. */
export const isSame = (now, then) => !now || !then || now === then;

/** The comment with our marker, else one of 0.1, which had one for all runs. */
async function findComment(url, headers, marker, isOurs) {
  let former = null;
  for (let page = 1; page <= 30; page++) {
    const { status, body } = await callJson(`${url}?per_page=100&page=${page}`, { headers });
    if (status !== 200 || !Array.isArray(body)) return former;
    const find = (mark) => body.find((one) => String(one.body).startsWith(mark) && isOurs(one)) ?? null;
    const found = find(marker);
    if (found !== null) return found;
    former ??= find(plainMarker);
    if (body.length < 100) return former;
  }
  return former;
}

/** Calls a JSON API; gives status and body. Never prints what it sent. */
export async function callJson(url, { method = 'GET', headers, body } = {}) {
  const answer = await fetch(url, {
    method,
    headers: { accept: 'application/json', 'content-type': 'application/json', ...headers },
    redirect: 'error',
    signal: AbortSignal.timeout(20_000),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
}
