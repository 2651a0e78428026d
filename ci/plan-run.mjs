// What the review scripts share: running the command, and reading what it wrote.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** How a later run finds its comment again: the first line that `--output markdown` writes. */
const marker = '<!-- reconcile-plan -->';

/** The command beside these scripts, as the package and the image hold it (dist/ci), or as a checkout builds it. */
const command = ['../reconcile.js', '../dist/reconcile.js']
  .map((name) => resolve(import.meta.dirname, name))
  .find((path) => existsSync(path));

/**
 * Plans or applies as a job asks, beside what the step before `prepared`; a plan without a token is made from the snapshot, or is the difference
 * to the base. `words`: what the forge calls its inputs. Throws an `Error` for people.
 */
export function runJob({ prepared, planOnly, token, snapshot, server, path, extra = [], forApply, output, words }) {
  const { base, names, settings, variables } = prepared;
  const offline = planOnly && token === '';
  const hasSnapshot = snapshot !== '' && existsSync(snapshot);
  if (offline && !hasSnapshot && base.length === 0) {
    const instead = `a snapshot: \`reconcile snapshot --out FILE\`, and ${words.snapshot}`;
    throw new Error(`without a token a review needs the base (${words.depth}), or ${instead}`);
  }
  const more = splitWords(forApply);
  if (more === null) throw new Error(`a quote in ${words.forApply} is not closed`);
  const how = planOnly ? ['--plan', '--detailed-exitcode'] : ['--yes', ...more];
  const target = offline ? ['--live', snapshot] : server;
  const argv = [...how, ...settings, ...target, ...base, ...extra, '--no-color', '--output', output, path];
  const secrets = offline ? {} : { RECONCILE_TOKEN: token, ...providerSecrets(process.env) };
  const planned = offline && !hasSnapshot ? null : runCommand(argv, { ...variables, ...secrets }, names);
  return offline ? addDiff(planned, { base, names, settings, variables, path, extra }) : planned;
}

/**
 * Runs the command with these arguments; Markdown and JSON go to files of their own. `environment` is all it gets, beside PATH
 * and HOME: whether the API token is there is the caller's decision. The Markdown calls paths by other `names`: a folder of its own
 * has another path in each run.
 */
function runCommand(argv, environment, names = []) {
  if (command === undefined) throw new Error('reconcile is not built: run npm ci && npm run build');
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-'));
  const [markdown, json] = [join(folder, 'plan.md'), join(folder, 'plan.json')];
  const outputs = ['--output', `markdown=${markdown}`, '--output', `json=${json}`];
  const { status } = spawnSync(process.execPath, [command, ...argv, ...outputs], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, CI: 'true', ...environment },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const read = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  const text = names.reduce((all, [path, name]) => {
    const inProse = path.replace(/[\\`*_{}[\]()<>#!|~&$]/g, '\\$&');
    return all.replaceAll(inProse, name).replaceAll(path, name);
  }, read(markdown));
  if (text !== '') writeFileSync(markdown, text);
  return { code: status ?? 1, markdown: text, json: read(json), folder };
}

/** Words as a shell splits them, with quotes and nothing else of a shell; null where a quote is not closed. */
function splitWords(text) {
  const word = /(?:[^\s'"]+|'[^']*'|"[^"]*")+/g;
  if (/['"]/.test(text.replace(word, ''))) return null;
  return (text.match(word) ?? []).map((one) => one.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'));
}

/** A flag with its value; none where that is empty, so that the settings file counts. */
export function named(flag, value = '') {
  return value === '' ? [] : [flag, value];
}

/**
 * What the step before wrote (dist/ci/base.js), which had no secret: the arguments that name the base, and the variable that
 * tells the command what is planned, so that it starts no git beside the token.
 */
export function readPrepared(folder) {
  const file = folder === '' ? '' : join(folder, 'base'); // its content is the path of the manifests
  const base = file !== '' && existsSync(file) ? [readFileSync(file, 'utf8')] : [];
  const revision = folder === '' ? '' : join(folder, 'revision');
  return {
    base: base.map((path) => `--base=${path}`),
    names: base.map((path) => [path, 'the base']),
    settings:
      folder !== '' && existsSync(join(folder, 'config'))
        ? ['--config', readFileSync(join(folder, 'config'), 'utf8')]
        : [],
    isForeign: folder !== '' && existsSync(join(folder, 'foreign')),
    variables: { RECONCILE_REVISION: existsSync(revision) ? readFileSync(revision, 'utf8') : 'not known' },
  };
}

/**
 * What the change itself does, without a server: the difference of two folders. `plan` is the outcome of a plan from a snapshot, to which
 * it is added; null: there is none. Null when the base is not here.
 */
function addDiff(plan, { base, names, settings, variables, path, extra = [] }) {
  const folder = base[0]?.slice('--base='.length);
  if (folder === undefined || plan?.markdown === '') return plan;
  const argv = ['diff', ...settings, ...pickDiffFlags(extra), '--detailed-exitcode', '--no-color', '--output', 'text'];
  const diff = runCommand([...argv, resolve(folder), resolve(path)], variables, [...names, [resolve(path), path]]);
  if (plan === null) return diff;
  const below = `<details><summary>Without the server</summary>\n\n${diff.markdown}\n\n</details>`;
  return { ...plan, markdown: `${plan.markdown}\n${below}\n` };
}

/**
 * What a comment says, and what it says where the forge refuses that: an older comment must not stand there as if it were about this
 * commit. `where`: what holds all of the text; `most`: characters that the forge takes, of which the last are left out.
 */
export function listBodies(text, where, most = Number.POSITIVE_INFINITY) {
  const short = (what) => `${marker}\n### reconcile: ${what}\n`;
  if (text === '') return [short("the command ended without a plan: see the job's log")];
  const marked = text.includes(marker) ? text : `${marker}\n${text}`;
  const cut = marked.slice(0, marked.lastIndexOf('\n', most - 200));
  const body =
    marked.length <= most ? marked : `${cut}\n\nCut here: too long for a comment; ${where} have all of it.\n`;
  return [body, short(`the plan is too long for a comment: ${where} have it`)];
}

/** Of more flags for a plan those that a diff has too, with their values: what is built, and what fails. */
function pickDiffFlags(words) {
  const named = /^--(overlay|values|profile|fail-on)$/;
  const whole = words.flatMap((word, n) => (named.test(word) ? `${word}=${words[n + 1] ?? ''}` : word));
  return whole.filter((word) => /^--(strict|full|(overlay|values|profile)=.*|fail-on=(opens|closes|any))$/.test(word));
}

/** Variables that hold secrets of providers: RECONCILE_SECRET_… only. */
function providerSecrets(environment) {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => name.startsWith('RECONCILE_SECRET_')));
}

/**
 * Writes the one comment of a review anew, or a first one; `isOurs` tells our comments from those of strangers. A fork's job may not write:
 * its plan is in `where`.
 */
export async function writeComment(text, { url, change, method, headers, isOurs, where, most, say }) {
  try {
    const before = await findComment(url, headers, await isOurs());
    for (const body of listBodies(text, where, most)) {
      const [at, how] = before === null ? [url, 'POST'] : [change(before), method];
      const { status } = await callJson(at, { method: how, headers, body: { body } });
      if (status < 300) return;
      say(`The comment was not written (${status}); the plan is in ${where}.`);
    }
  } catch {
    say(`The comment was not written (no answer); the plan is in ${where}.`);
  }
}

async function findComment(url, headers, isOurs) {
  for (let page = 1; page <= 30; page++) {
    const { status, body } = await callJson(`${url}?per_page=100&page=${page}`, { headers });
    if (status !== 200 || !Array.isArray(body)) return null;
    const found = body.find((one) => typeof one.body === 'string' && one.body.startsWith(marker) && isOurs(one));
    if (found !== undefined) return found.id;
    if (body.length < 100) return null;
  }
  return null;
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
