// What the review scripts share: running the command, and reading what it wrote.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** How a later run finds its comment again: the first line that `--output markdown` writes. */
export const marker = '<!-- reconcile-plan -->';

/** The command beside these scripts, as the package and the image hold it (dist/ci), or as a checkout builds it. */
const command = ['../reconcile.js', '../dist/reconcile.js']
  .map((name) => resolve(import.meta.dirname, name))
  .find((path) => existsSync(path));

/**
 * Runs the command with these arguments; Markdown and JSON go to files of their own. `environment` is all it gets, beside PATH
 * and HOME: whether the API token is there is the caller's decision.
 */
export function runCommand(argv, environment) {
  if (command === undefined) throw new Error('reconcile is not built: run npm ci && npm run build');
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-'));
  const [markdown, json] = [join(folder, 'plan.md'), join(folder, 'plan.json')];
  const outputs = ['--output', `markdown=${markdown}`, '--output', `json=${json}`];
  const { status } = spawnSync(process.execPath, [command, ...argv, ...outputs], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const read = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  return { code: status ?? 1, markdown: read(markdown), json: read(json), folder };
}

/** The first of these commits that the repository of the manifests holds, so that the plan can say what the request itself does. */
export function baseOf(directory, candidates) {
  const holds = (commit) =>
    // The files may belong to another user than this job's; looking up a name runs nothing of theirs.
    spawnSync(
      'git',
      ['-c', 'safe.directory=*', 'rev-parse', '--verify', '--quiet', '--end-of-options', `${commit}^{commit}`],
      {
        cwd: directory,
        encoding: 'utf8',
        env: { PATH: process.env.PATH, HOME: process.env.HOME },
      },
    );
  for (const commit of candidates) {
    if (commit === '' || !existsSync(directory)) continue;
    const { status, stdout } = holds(commit);
    if (status === 0) return [`--base=${stdout.trim()}`];
  }
  return [];
}

/** Variables that hold secrets of providers: RECONCILE_SECRET_… only. */
export function providerSecrets(environment) {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => name.startsWith('RECONCILE_SECRET_')));
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
