import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { apiToken, binary, ensureBuilt, makeWorld, rules, type World } from '../controller/support/sidecar.ts';
import { type FakeForge, startForge } from './fake-forge.ts';
import { type Ran, runAction, runTemplate } from './review-steps.ts';

const root = path.resolve(import.meta.dirname, '../..');

const run = async (script: 'github' | 'gitlab', env: Readonly<Record<string, string>>, cwd: string): Promise<Ran> =>
  await (script === 'github' ? runAction(env, cwd) : runTemplate(env, cwd));

let world: World;
let forge: FakeForge;
let folder = '';

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await makeWorld();
  forge = await startForge();
  folder = mkdtempSync(path.join(tmpdir(), 'review-'));
  writeFileSync(path.join(world.manifests, 'rules.yaml'), rules('10.1.0.0/16'));
});

afterEach(async () => {
  await forge.close();
  await world.close();
  rmSync(folder, { recursive: true });
});

/** The snapshot that the main branch would keep. */
async function takeSnapshot(): Promise<string> {
  const file = path.join(folder, 'live.json');
  const argv = ['snapshot', '--base-url', world.sim.url, '--token-file', world.tokenFile, '--out', file];
  const child = spawn(process.execPath, [binary, ...argv]);
  expect(await new Promise((resolve) => child.on('close', resolve))).toBe(0);
  return file;
}

/** A clone whose settings file says another thing than the one on its default branch. */
function cloneWithSettings(branch: string, settings = 'settings.yaml'): string {
  const clone = path.join(folder, 'clone');
  for (const own of ['p', path.dirname(settings)]) mkdirSync(path.join(clone, own), { recursive: true });
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
      cwd: clone,
      encoding: 'utf8',
    });
  // Below another repository, as a checkout in the home of somebody who keeps that in Git.
  execFileSync('git', ['init', '-q'], { cwd: folder });
  git('init', '-q');
  writeFileSync(path.join(clone, settings), `baseUrl: ${world.sim.url}\nmaxDeletes: 0\n`);
  writeFileSync(path.join(clone, 'p/rules.yaml'), rules('10.1.0.0/16'));
  git('add', '-A');
  git('commit', '-q', '-m', 'main');
  git('update-ref', `refs/remotes/origin/${branch}`, 'HEAD');
  world.sim.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
  writeFileSync(path.join(clone, settings), 'maxDeletes: 100\n');
  return clone;
}

/** A clone of the example of two environments, in which only the values of one were changed since its base. */
function cloneWithValues(values: string): { readonly clone: string; readonly base: string } {
  const clone = path.join(folder, 'clone');
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
      cwd: clone,
      encoding: 'utf8',
    });
  cpSync(path.join(root, 'examples/environments'), path.join(clone, 'environments'), { recursive: true });
  mkdirSync(path.join(clone, 'ops'));
  const production = readFileSync(path.join(root, 'examples/environments/values-production.yaml'), 'utf8');
  writeFileSync(path.join(clone, values), production);
  writeFileSync(path.join(clone, 'settings.yaml'), `overlay: production\nvalues: ${values}\n`);
  git('init', '-q');
  git('add', '-A');
  git('commit', '-q', '-m', 'main');
  git('update-ref', 'refs/remotes/origin/main', 'HEAD');
  writeFileSync(path.join(clone, values), production.replace('10.40.0.0/24', '0.0.0.0/0'));
  return { clone, base: git('rev-parse', 'HEAD').trim() };
}

/** Makes a folder of a clone a repository with a default branch of its own, as a submodule is. */
function makeSubmodule(at: string): void {
  const git = (...args: readonly string[]): unknown =>
    execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], { cwd: at });
  git('init', '-q', '--separate-git-dir', `${at.replaceAll('/', '-')}.git`.replace(/^/, `${folder}/`));
  git('add', '-A');
  git('commit', '-q', '-m', 'theirs');
  git('update-ref', 'refs/remotes/origin/main', 'HEAD');
}

const gitAt = (cwd: string, ...args: readonly string[]): string =>
  execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
    cwd,
    encoding: 'utf8',
  }).trim();

const named = (name: string, spec: string): string =>
  `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ${name}}\nspec: {${spec}}\n`;

/**
 * The origin of a pull request that adds `spec` to a main branch which moved on twice since: before it was merged with the request, as
 * refs/pull/7/merge, and after.
 */
function openRequest(spec: string) {
  const [origin, work] = [path.join(folder, 'o.git'), path.join(folder, 'work')];
  gitAt(folder, 'init', '-q', '--bare', '-b', 'main', origin);
  gitAt(folder, 'init', '-q', '-b', 'main', work);
  const commit = (name: string, text: string): string => {
    mkdirSync(path.join(work, 'p_1'), { recursive: true });
    writeFileSync(path.join(work, `p_1/${name}.yaml`), named(name, text));
    gitAt(work, 'add', '-A');
    gitAt(work, 'commit', '-q', '-m', name);
    return gitAt(work, 'rev-parse', 'HEAD');
  };
  const start = commit('closed', 'action: drop, destination: 10.0.0.0/8');
  gitAt(work, 'checkout', '-q', '-b', 'feature');
  const head = commit('own', spec);
  gitAt(work, 'checkout', '-q', 'main');
  const target = commit('second', 'action: accept, destination: 10.3.0.0/16');
  gitAt(work, 'merge', '-q', '--no-ff', '-m', 'merge', 'feature');
  const merge = gitAt(work, 'rev-parse', 'HEAD');
  gitAt(work, 'push', '-q', origin, 'HEAD:refs/pull/7/merge', 'feature');
  gitAt(work, 'reset', '-q', '--hard', target);
  commit('third', 'action: accept, destination: 10.4.0.0/16');
  gitAt(work, 'push', '-q', origin, 'main');
  /** A clone as a job has it. */
  const checkOut = (ref: string, how: 'whole' | 'shallow'): string => {
    const clone = mkdtempSync(path.join(folder, 'clone-'));
    gitAt(clone, 'init', '-q');
    gitAt(clone, 'remote', 'add', 'origin', `file://${origin}`);
    const refs = how === 'whole' ? ['+refs/heads/*:refs/remotes/origin/*'] : ['--depth=1'];
    gitAt(clone, 'fetch', '-q', 'origin', ...refs, `+${ref}:refs/remotes/job`);
    gitAt(clone, 'checkout', '-q', '--detach', 'refs/remotes/job');
    return clone;
  };
  return { start, head, merge, target, checkOut };
}

const opens = 'action: accept, destination: 10.2.0.0/16';
const opensLater = `${opens}, notBefore: 2099-01-01`;

describe('the Action', () => {
  const summary = (): string => readFileSync(path.join(folder, 'summary'), 'utf8');

  function environment(event: object | null, inputs: Readonly<Record<string, string>> = {}): Record<string, string> {
    writeFileSync(path.join(folder, 'event.json'), JSON.stringify(event));
    for (const name of ['summary', 'output']) writeFileSync(path.join(folder, name), '');
    return {
      GITHUB_EVENT_PATH: path.join(folder, 'event.json'),
      GITHUB_REPOSITORY: 'team/policy',
      GITHUB_API_URL: forge.url,
      GITHUB_STEP_SUMMARY: path.join(folder, 'summary'),
      GITHUB_OUTPUT: path.join(folder, 'output'),
      INPUT_PATH: world.manifests,
      INPUT_BASE_URL: world.sim.url,
      INPUT_TOKEN: apiToken,
      INPUT_GITHUB_TOKEN: 'canary-forge-token',
      INPUT_COMMENT: 'true',
      ...inputs,
    };
  }

  const ownBranch = { pull_request: { number: 7, head: { repo: { full_name: 'team/policy' } } } };
  const fork = { pull_request: { number: 7, head: { repo: { full_name: 'stranger/policy' } } } };

  it('plans on a pull request, writes one comment, and writes that one anew the next time', async () => {
    const first = await run('github', environment(ownBranch), folder);
    expect(first).toMatchObject({ code: 0 });
    expect(forge.comments).toHaveLength(2);
    expect(forge.comments[1]?.body).toContain('10.1.0.0/16');
    expect(summary()).toContain('10.1.0.0/16');
    expect(readFileSync(path.join(folder, 'output'), 'utf8')).toContain('exitcode=2\n');
    writeFileSync(path.join(world.manifests, 'rules.yaml'), rules('10.2.0.0/16'));
    await run('github', environment(ownBranch), folder);
    expect(forge.comments).toHaveLength(2);
    expect(forge.comments[0]?.body).toBe('Looks good to me.');
    expect(forge.comments[1]?.body).toContain('10.2.0.0/16');
    expect(forge.comments[1]?.body).not.toContain('10.1.0.0/16');
    expect(world.sim.requests().every(({ method }) => method === 'GET')).toBe(true);
    expect(first.output).not.toContain('canary');
  });

  it('keeps one comment for each folder and each server, says which in its heading, and takes over one of before', async () => {
    forge.comments.push({ id: 2, body: '<!-- reconcile-plan -->\n### reconcile: of before' });
    for (const name of ['office', 'lab']) {
      mkdirSync(path.join(folder, name));
      writeFileSync(path.join(folder, name, 'rules.yaml'), rules('10.1.0.0/16'));
    }
    const plan = (of: string, more = {}): Promise<Ran> =>
      run('github', environment(ownBranch, { INPUT_PATH: of, ...more }), folder);
    await plan('office');
    expect(forge.comments).toHaveLength(2);
    await plan('lab');
    await plan('./office/');
    await plan('lab', { INPUT_BASE_URL: `${world.sim.url}/` });
    await plan('lab', { INPUT_ARGUMENTS: '--max-deletes 3 --profile generic' });
    // Such an address is refused, and its password stands nowhere.
    await plan(path.join(folder, 'lab'), { INPUT_BASE_URL: world.sim.url.replace('//', '//me:canary@') });
    expect(
      forge.comments
        .slice(1)
        .map(({ body }) => body.split('\n')[1]?.replace(/ · reconcile: (1 to create|no plan).*/, '')),
    ).toEqual(
      ['office', 'lab', 'lab', 'lab']
        .map((name) => `### \`${name}\` \`${world.sim.url}\``)
        .map((line, n) => (n === 2 ? line.replace(/`$/, '/`') : n === 3 ? `${line} \`--profile=generic\`` : line)),
    );
    expect(summary()).toContain(`### \`lab\` \`${world.sim.url}\` · reconcile`);
  });

  it('leaves no comment about an earlier commit where the plan is too long', async () => {
    await run('github', environment(ownBranch), folder);
    forge.longest = 300;
    const long = await run('github', environment(ownBranch), folder);
    expect([long.code, long.output]).toEqual([0, expect.stringContaining('was not written (422)')]);
    expect(forge.comments).toHaveLength(2);
    expect(forge.comments[1]?.body).toMatch(
      /^<!-- reconcile-plan [0-9a-f]{12} -->\n### `.*` · reconcile: the plan is too long for a comment: the job's summary/,
    );
  });

  it('cuts a plan with the difference below it to what a comment holds, the difference first', async () => {
    const { listBodies } = (await import(path.join(root, 'ci/plan-run.mjs'))) as {
      listBodies: (text: string, run: object, where: string, most?: number) => readonly string[];
    };
    const name = { title: '`p`', marker: '<!-- reconcile-plan 0 -->' };
    const text = `### reconcile\n${'- plan\n'.repeat(5000)}\n${'- diff\n'.repeat(6000)}`;
    const [body = ''] = listBodies(text, name, 'the log and the summary', 60_000);
    expect([body.length > 59_000, body.length <= 60_000, body.match(/- plan/g)?.length]).toEqual([true, true, 5000]);
    expect(body).toMatch(/- diff\n\nCut here: too long for a comment; the log and the summary have all of it\.\n$/i);
    expect(listBodies(text, name, 'the log')[0]).toContain(text);
    expect(listBodies('', name, 'the log')).toEqual([expect.stringContaining('the command ended without a plan')]);
  });

  it('applies on a push', async () => {
    const ran = await run('github', environment({}, { GITHUB_REF: 'refs/heads/main' }), folder);
    expect(ran.code).toBe(0);
    expect(world.live()).toEqual(['10.1.0.0/16']);
    expect(forge.calls).toEqual([]);
  });

  it('says what to do where the path is a file', async () => {
    const file = path.join(world.manifests, 'rules.yaml');
    const ran = await run('github', environment(ownBranch, { INPUT_PATH: file }), folder);
    expect([ran.code, ran.output]).toEqual([4, expect.stringContaining('is a file, not a directory')]);
  });

  it.each([
    ['another branch', { GITHUB_REF: 'refs/heads/feature/x' }],
    ['a tag (long)', { GITHUB_REF: 'refs/tags/v1' }],
    ['the trial of a merge queue (long)', { GITHUB_REF: 'refs/heads/gh-readonly-queue/main/pr-7-abc' }],
    ['main, where that is not the default branch (long)', { GITHUB_REF: 'refs/heads/main' }],
  ])('plans only, and says so, on %s', async (_, variables) => {
    const event = { repository: { default_branch: 'production' } };
    const ran = await run('github', { ...environment(event), ...variables }, folder);
    expect([ran.code, ran.output]).toEqual([0, expect.stringContaining('is not the default branch')]);
    expect(world.live()).toEqual([]);
    expect(summary()).toContain('10.1.0.0/16');
  });

  it('applies on the default branch, whatever its name, and elsewhere when told to (long)', async () => {
    const event = { repository: { default_branch: 'production' } };
    const onProduction = { ...environment(event), GITHUB_REF: 'refs/heads/production' };
    expect((await run('github', onProduction, folder)).code).toBe(0);
    expect(world.live()).toEqual(['10.1.0.0/16']);
    writeFileSync(path.join(world.manifests, 'rules.yaml'), rules('10.2.0.0/16'));
    const told = { ...environment(event, { INPUT_MODE: 'apply' }), GITHUB_REF: 'refs/heads/staging' };
    expect((await run('github', told, folder)).code).toBe(0);
    expect(world.live()).toEqual(['10.2.0.0/16']);
  });

  it('tells what the pull request itself does, where the clone holds its base, whatever the name of that (long)', async () => {
    const clone = path.join(folder, 'clone');
    const git = (...args: readonly string[]): string =>
      execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
        cwd: clone,
        encoding: 'utf8',
      });
    mkdirSync(path.join(clone, 'p'), { recursive: true });
    git('init', '-q');
    git('commit', '-q', '--allow-empty', '-m', 'empty');
    git('update-ref', 'refs/remotes/origin/release/$(id)-#1,ü', 'HEAD');
    writeFileSync(path.join(clone, 'p/rules.yaml'), rules('10.1.0.0/16'));
    const variables = { ...environment(ownBranch, { INPUT_PATH: 'p' }), GITHUB_BASE_REF: 'release/$(id)-#1,ü' };
    expect((await run('github', variables, clone)).code).toBe(0);
    expect(forge.comments[1]?.body).toContain('This revision: 1 change.');
    expect((await run('github', { ...variables, GITHUB_BASE_REF: 'not-fetched' }, clone)).code).toBe(0);
    expect(forge.comments[1]?.body).not.toContain('This revision');
  });

  const onMain = { GITHUB_BASE_REF: 'main', GITHUB_REF: 'refs/pull/7/merge' };
  const requestOf = (head: string, full_name = 'team/policy'): object => ({
    repository: { default_branch: 'main' },
    pull_request: { number: 7, base: { ref: 'main' }, head: { sha: head, repo: { full_name } } },
  });

  it('leaves the comment about a newer commit, or another target, alone where an older job runs again', async () => {
    const { head, merge, checkOut } = openRequest(opens);
    const job = { ...onMain, GITHUB_SHA: merge, GITHUB_HEAD_REF: 'feature' };
    const variables = { ...environment(requestOf(head), { INPUT_PATH: 'p_1' }), ...job };
    const clone = checkOut('refs/pull/7/merge', 'whole');
    forge.request = { head: { sha: head }, base: { ref: 'main' } };
    const first = await run('github', variables, clone);
    expect(first.code).toBe(0);
    expect(forge.comments[1]?.body).toContain(`at the merge of ${head.slice(0, 12)} into main \\(feature\\)`);
    for (const now of [
      { head: { sha: merge }, base: { ref: 'main' } },
      { head: { sha: head }, base: { ref: 'other' } },
    ]) {
      forge.request = now;
      forge.calls.length = 0;
      const again = await run('github', variables, clone);
      expect([again.code, again.output]).toEqual([
        0,
        expect.stringContaining('::notice::The comment was not written: '),
      ]);
      expect(forge.calls.filter(({ method }) => method !== 'GET')).toEqual([]);
    }
  });

  it('leaves the comment of a later run alone where an older one of the same commit runs again', async () => {
    const { head, merge, target, checkOut } = openRequest(opens);
    const clone = checkOut('refs/pull/7/merge', 'whole');
    const job = { ...environment(requestOf(head), { INPUT_PATH: 'p_1' }), ...onMain, GITHUB_SHA: merge };
    const asNow = (now: string) => ({ head: { sha: head }, base: { ref: 'main' }, merge_commit_sha: now });
    for (const [id, written, now] of [
      ['9', '9', target],
      ['10', '10', target], // the branch moved on while it ran
      ['9', '10', target],
      ['10', '10', target],
      ['9', '9', merge],
    ] as const) {
      forge.request = asNow(now);
      const ran = await run('github', { ...job, GITHUB_RUN_ID: id }, clone);
      const [, of, commit] =
        /^<!-- reconcile-plan \w+ --><!-- run (\d+) of (\w+) -->\n###/.exec(forge.comments[1]?.body ?? '') ?? [];
      expect([ran.code, of, commit, forge.comments.length]).toEqual([0, written, head, 2]);
      expect(ran.output.includes('The comment was not written: that of a later run stands.')).toBe(id !== written);
    }
  });

  it.each([
    ['merged, in a whole clone', 'refs/pull/7/merge', 'whole'],
    ['merged, in a shallow clone', 'refs/pull/7/merge', 'shallow'],
    ['by its head, in a whole clone', 'feature', 'whole'],
  ] as const)('blames a pull request for nothing that others merged since: checked out %s', async (_, ref, how) => {
    const { head, merge, checkOut } = openRequest(opens);
    const job = { ...onMain, GITHUB_SHA: merge };
    world.sim.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'accept', destination: '10.3.0.0/16' },
      { action: 'accept', destination: '10.4.0.0/16' },
    ]);
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--max-deletes 2 --max-changes 2' };
    const ran = await run('github', { ...environment(requestOf(head), inputs), ...job }, checkOut(ref, how));
    expect(ran.code, ran.output).toBe(0);
    expect(forge.comments[1]?.body).toMatch(/compared with the base\n[\s\S]*This revision: 1 change\./);
    expect(forge.comments[1]?.body).not.toContain(tmpdir());
    const fork = { ...environment(requestOf(head, 'stranger/policy'), inputs), ...job };
    expect(await run('github', fork, checkOut(ref, how))).toMatchObject({ code: 0 });
    expect(summary()).toMatch(/### .* · reconcile diff: 1 to create, [12] unchanged[\s\S]*10\.2\.0\.0\/16/);
    expect(summary()).not.toMatch(/10\.[34]\.0\.0/);
  });

  it('refuses what opens later in a shallow clone too, and says so where nothing can be compared', async () => {
    const { head, merge, checkOut } = openRequest(opensLater);
    const clone = checkOut('refs/pull/7/merge', 'shallow');
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--fail-on opens' };
    const variables = { ...environment(requestOf(head), inputs), ...onMain, GITHUB_SHA: merge };
    const refused = await run('github', variables, clone);
    expect([refused.code, refused.output]).toEqual([3, expect.stringContaining('fail-on-opens')]);
    for (const ref of ['refs/pull/7/merge', 'feature']) {
      const cut = checkOut(ref, 'shallow');
      gitAt(cut, 'remote', 'set-url', 'origin', 'file:///gone');
      const ended = await run('github', variables, cut);
      expect([ended.code, ended.output]).toEqual([1, expect.stringMatching(/^::error::.*fetch-depth: 0/)]);
      const warned = await run('github', { ...variables, INPUT_ARGUMENTS: '' }, cut);
      expect([warned.code, warned.output]).toEqual([0, expect.stringMatching(/^::warning::.*fetch-depth: 0/)]);
    }
  });

  it('threat 39: compares a folder that is a link with nothing, and does not apply an older one again', async () => {
    const { target, checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const link = (to: string): string => {
      rmSync(path.join(work, 'policy'), { force: true });
      symlinkSync(to, path.join(work, 'policy'));
      gitAt(work, 'add', '-A');
      gitAt(work, 'commit', '-q', '-m', to);
      gitAt(work, 'push', '-q', '-f', origin, 'HEAD:main', 'HEAD:request');
      return gitAt(work, 'rev-parse', 'HEAD');
    };
    cpSync(path.join(work, 'p_1'), path.join(work, 'p_2'), { recursive: true });
    writeFileSync(path.join(work, 'p_2/own.yaml'), named('own', opensLater));
    const [before, head] = [link('p_1'), link('p_2')];
    gitAt(work, 'push', '-q', '-f', origin, `${target}:main`);
    const inputs = { INPUT_PATH: 'policy', INPUT_ARGUMENTS: '--fail-on opens' };
    for (const from of [undefined, 'stranger/policy']) {
      const variables = { ...environment(requestOf(head, from), inputs), ...onMain, GITHUB_SHA: head };
      const refused = await run('github', variables, checkOut('request', 'whole'));
      expect([refused.code, refused.output]).toEqual([1, expect.stringMatching(/^::error::policy is a link/)]);
      const told = await run('github', { ...variables, INPUT_ARGUMENTS: '' }, checkOut('request', 'whole'));
      const warning = expect.stringMatching(/^::warning::policy is a link/);
      expect([told.code, told.output]).toEqual([from === undefined ? 0 : 1, warning]);
    }
    gitAt(work, 'push', '-q', '-f', origin, 'HEAD:main');
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: before };
    const clone = checkOut('main', 'whole');
    gitAt(clone, 'checkout', '-q', '--detach', before);
    const event = { repository: { default_branch: 'main' } };
    const again = await run('github', { ...environment(event, { INPUT_PATH: 'policy' }), ...job }, clone);
    const why = 'is not the newest commit of origin/main, which may have other manifests';
    expect([again.code, again.output, world.live()]).toEqual([0, expect.stringContaining(why), []]);
  });

  it('threat 33: fetches the base without running what the configuration of the clone names', async () => {
    const { head, merge, checkOut } = openRequest(opens);
    const clone = checkOut('refs/pull/7/merge', 'shallow');
    const canary = path.join(folder, 'canary');
    const trap = path.join(folder, 'trap');
    writeFileSync(trap, `#!/bin/sh\ntouch ${canary}\nexec git-upload-pack "$@"\n`, { mode: 0o755 });
    mkdirSync(path.join(folder, 'hooks'));
    cpSync(trap, path.join(folder, 'hooks/reference-transaction'));
    for (const name of ['remote.origin.uploadpack', 'core.sshCommand', 'core.fsmonitor', 'core.alternateRefsCommand'])
      gitAt(clone, 'config', name, trap);
    gitAt(clone, 'config', 'credential.helper', `!${trap}`);
    gitAt(clone, 'config', 'core.hooksPath', path.join(folder, 'hooks'));
    const variables = { ...environment(requestOf(head), { INPUT_PATH: 'p_1' }), ...onMain, GITHUB_SHA: merge };
    const ran = await run('github', variables, clone);
    expect([ran.code, ran.output, existsSync(canary)]).toEqual([0, expect.stringContaining('1 change.'), false]);
    const other = checkOut('refs/pull/7/merge', 'shallow');
    gitAt(other, 'remote', 'set-url', 'origin', `ext::${trap}`);
    gitAt(other, 'config', 'protocol.ext.allow', 'always');
    const warned = await run('github', variables, other);
    expect([warned.output, existsSync(canary)]).toEqual([expect.stringMatching(/^::warning::/), false]);
  });

  it('ends where the settings fail what opens, and the base is not there', async () => {
    const clone = cloneWithSettings('production');
    writeFileSync(path.join(clone, 'settings.yaml'), `baseUrl: ${world.sim.url}\nfailOn: [opens]\n`);
    gitAt(clone, 'commit', '-qam', 'stricter');
    gitAt(clone, 'update-ref', 'refs/remotes/origin/production', 'HEAD');
    const event = { ...ownBranch, repository: { default_branch: 'production' } };
    const variables = environment(event, { INPUT_PATH: 'p', INPUT_CONFIG: 'settings.yaml' });
    const ran = await run('github', { ...variables, GITHUB_BASE_REF: 'not-fetched' }, clone);
    expect([ran.code, ran.output]).toEqual([1, expect.stringMatching(/^::error::.*fetch-depth: 0/)]);
  });

  it('applies on a schedule, whose event may name no branch, or be empty', async () => {
    const clone = cloneWithSettings('production');
    const inputs = { INPUT_PATH: 'p', INPUT_CONFIG: 'settings.yaml', INPUT_BASE_URL: '' };
    const branch = { GITHUB_REF: 'refs/heads/production', GITHUB_REF_NAME: 'production' };
    const scheduled = { ...branch, GITHUB_EVENT_NAME: 'schedule' };
    for (const event of [{ schedule: '*/15 * * * *' }, null]) {
      const refused = await run('github', { ...environment(event, inputs), ...scheduled }, clone);
      expect([refused.code, refused.output]).toEqual([3, expect.stringContaining('--max-deletes')]);
    }
    const allowed = environment(null, { ...inputs, INPUT_ARGUMENTS: '--max-deletes 1 --max-changes 1' });
    expect(await run('github', { ...allowed, ...scheduled }, clone)).toMatchObject({ code: 0 });
    expect(world.live()).toEqual(['10.1.0.0/16']);
  });

  it('gives applies arguments of their own, whose quotes keep words together', async () => {
    const state = path.join(folder, 'state');
    const confirm = (command: string, within = '1s') => ({
      GITHUB_REF: 'refs/heads/main',
      INPUT_APPLY_ARGUMENTS: `--state-dir "${state}" --confirm-within ${within} --confirm-with '/bin/sh -c "${command}"'`,
    });
    expect(await run('github', environment(ownBranch, confirm('exit 1')), folder)).toMatchObject({ code: 0 });
    const back = await run('github', environment({}, confirm('exit 1')), folder);
    expect([back.code, back.output, world.live()]).toEqual([3, expect.stringContaining('went-back'), []]);
    expect(await run('github', environment({}, confirm('exit 0', '9m')), folder)).toMatchObject({ code: 0 });
    expect(world.live()).toEqual(['10.1.0.0/16']);
    for (const name of ['ARGUMENTS', 'APPLY_ARGUMENTS']) {
      const open = await run(
        'github',
        environment({}, { ...confirm(''), [`INPUT_${name}`]: "--confirm-with 'x" }),
        folder,
      );
      const input = name.toLowerCase().replace('_', '-');
      expect([open.code, open.output]).toEqual([1, expect.stringContaining(`a quote in ${input} is not closed`)]);
    }
  });

  it('threat 39: reads the settings file from the default branch, not from the pull request (long)', async () => {
    const clone = cloneWithSettings('production');
    const event = { ...ownBranch, repository: { default_branch: 'production' } };
    const inputs = { INPUT_PATH: 'p', INPUT_CONFIG: 'settings.yaml', INPUT_BASE_URL: '' };
    const variables = { ...environment(event, inputs), GITHUB_BASE_REF: 'production' };
    const refused = await run('github', variables, clone);
    expect([refused.code, refused.output]).toEqual([3, expect.stringContaining('--max-deletes')]);
    const missing = await run(
      'github',
      environment({ ...event, repository: { default_branch: 'gone' } }, inputs),
      clone,
    );
    expect([missing.code, missing.output]).toEqual([1, expect.stringContaining('is read from origin/gone')]);
  });

  it('threat 39: compares only what a pull request has, and with no base that its author made', async () => {
    const { head, start, target, merge, checkOut } = openRequest('action: drop, destination: 192.0.2.0/24');
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--fail-on opens' };
    const onTarget = { ...environment(requestOf(head, 'stranger/policy'), inputs), GITHUB_SHA: target, ...onMain };
    const other = await run('github', onTarget, checkOut('main', 'whole'));
    expect([other.code, other.output]).toEqual([1, expect.stringMatching(/^::error::.*is checked out.*head\.sha/)]);
    // The first parent of their merge opens what the merge does: seen from there it opens nothing.
    const clone = checkOut('feature', 'whole');
    writeFileSync(path.join(clone, 'p_1/theirs.yaml'), named('theirs', opens));
    gitAt(clone, 'add', '-A');
    const tree = gitAt(clone, 'write-tree');
    const first = gitAt(clone, 'commit-tree', '-p', start, '-m', 'first', tree);
    gitAt(clone, 'checkout', '-qf', '--detach', gitAt(clone, 'commit-tree', '-p', first, '-p', head, '-m', 'm', tree));
    const theirs = { ...environment(requestOf(head, 'stranger/policy'), inputs), GITHUB_SHA: merge };
    for (const event of [{ GITHUB_EVENT_NAME: 'pull_request_review' }, onMain]) {
      const ran = await run('github', { ...theirs, ...event }, clone);
      expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('10.2.0.0/16')]);
    }
  });

  it.each([
    ['*.yaml ident', 'c.yaml', true],
    ['own.yaml working-tree-encoding=latin1', 'own.yaml', true],
    ['own.yaml filter=lfs', 'own.yaml', true],
    ['*.xml filter=git-crypt', '', false],
    ['a.txt filter=git-crypt', '', false],
    ['v.conf filter=lfs', 'v.conf', true],
    ['*.yaml text eol=crlf -ident\n*.txt ident', '', false],
  ])(
    'threat 5: plans and applies nothing where the attributes %j make a checkout other than its commit',
    async (attributes, name, isRefused) => {
      const { target, checkOut } = openRequest(opens);
      const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
      const saml =
        '{kind: Configuration, apiVersion: firezone/v0, metadata: {name: c}, spec: {saml_identity_providers: ';
      const provider = '[{id: a, label: A, auto_create_users: false, metadata: {file: saml.xml}}]}}';
      writeFileSync(path.join(work, 'p_1/c.yaml'), `${saml}${provider}\n`);
      writeFileSync(path.join(work, 'p_1/own.yaml'), named('own', opens));
      for (const file of ['saml.xml', 'a.txt', 'v.conf']) writeFileSync(path.join(work, 'p_1', file), 'x: y\n');
      gitAt(work, 'add', '-A');
      writeFileSync(path.join(work, 'p_1/.gitattributes'), `${attributes}\n`);
      gitAt(work, 'add', 'p_1/.gitattributes');
      gitAt(work, 'commit', '-q', '-m', 'attributes');
      gitAt(work, 'push', '-q', '-f', origin, 'HEAD:main', 'HEAD:feature');
      const head = gitAt(work, 'rev-parse', 'HEAD');
      const refused = new RegExp(`p_1/${name} has the Git attribute`);
      const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--fail-on opens --values p_1/v.conf' };
      const review = () => ({
        ...environment(requestOf(head, 'stranger/policy'), inputs),
        ...onMain,
        GITHUB_SHA: target,
      });
      const event = { repository: { default_branch: 'main' } };
      const push = () => ({ ...environment(event, inputs), GITHUB_REF: 'refs/heads/main', GITHUB_SHA: head });
      const own = { RECONCILE_PATH: 'p_1', RECONCILE_VALUES: 'p_1/v.conf' };
      const job = { RECONCILE_TOKEN: apiToken, RECONCILE_BASE_URL: world.sim.url, ...own };
      const ran = [
        await run('github', review(), checkOut('feature', 'whole')),
        await run('github', push(), checkOut('main', 'shallow')),
        await run('gitlab', { ...job, CI_DEFAULT_BRANCH: 'main' }, checkOut('main', 'whole')),
      ];
      for (const { output } of ran) expect(refused.test(output), output).toBe(isRefused);
      if (isRefused) expect([ran.map(({ code }) => code), world.live()]).toEqual([[1, 1, 1], []]);
    },
  );

  it('says where --fail-on drift counts what others merged since the request left its target', async () => {
    const { head, merge, checkOut } = openRequest(opens);
    const clone = checkOut('feature', 'whole');
    for (const [flag, isSaid] of [
      ['--fail-on drift', true],
      ['--fail-on opens', false],
    ] as const) {
      const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: flag };
      const ran = await run('github', { ...environment(requestOf(head), inputs), ...onMain, GITHUB_SHA: merge }, clone);
      const said = /^::warning::origin\/main has other manifests by now: .*until the branch is updated$/m.test(
        ran.output,
      );
      expect(said, ran.output).toBe(isSaid);
    }
  });

  it('says what to type where a sparse checkout left out what the base has', async () => {
    const { start, checkOut } = openRequest(opens);
    const [origin, clone] = [path.join(folder, 'o.git'), path.join(folder, 'sparse')];
    const work = checkOut('feature', 'whole');
    gitAt(work, 'checkout', '-q', '--detach', start);
    writeFileSync(path.join(work, 'p_1/closed.yaml'), named('closed', 'action: drop, destination: 10.0.0.0/9'));
    gitAt(work, 'commit', '-qam', 'change');
    gitAt(work, 'push', '-q', origin, 'HEAD:refs/heads/change');
    gitAt(origin, 'config', 'uploadpack.allowFilter', 'true');
    gitAt(folder, 'clone', '-q', '--no-checkout', '--filter=blob:none', `file://${origin}`, clone);
    gitAt(clone, 'checkout', '-q', '--detach', 'refs/remotes/origin/change');
    const head = gitAt(clone, 'rev-parse', 'HEAD');
    const variables = { ...environment(requestOf(head), { INPUT_PATH: 'p_1' }), ...onMain };
    const ran = await run('github', variables, clone);
    expect([ran.code, ran.output]).toEqual([
      1,
      expect.stringMatching(/--refetch --no-filter.*filter: blob:limit=1g.*sparse-checkout/),
    ]);
    const other = path.join(folder, 'other');
    cpSync(clone, other, { recursive: true });
    gitAt(clone, 'fetch', '-q', '--refetch', '--filter=blob:limit=1g', 'origin'); // as actions/checkout does it
    gitAt(other, 'fetch', '-q', '--refetch', '--no-filter', 'origin');
    for (const whole of [clone, other]) expect((await run('github', variables, whole)).code).toBe(0);
  });

  it('applies a push whose commit Git cannot give, with a warning that its attributes are not checked', async () => {
    const { start, checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    gitAt(work, 'checkout', '-q', '--detach', start);
    writeFileSync(path.join(work, 'pod.yaml'), 'apiVersion: v1\nkind: Pod\n');
    gitAt(work, 'add', '-A');
    gitAt(work, 'commit', '-q', '-m', 'beside');
    symlinkSync('ln', path.join(work, 'p_1/ln'));
    gitAt(work, 'add', '-A');
    gitAt(work, 'commit', '-q', '-m', 'link');
    gitAt(origin, 'config', 'uploadpack.allowFilter', 'true');
    for (const [ref, at, why] of [
      ['HEAD^', '.', 'the manifests cannot be read from the repository'],
      ['HEAD', 'p_1', 'ln is a symbolic link that may lead to a folder'],
    ] as const) {
      gitAt(work, 'push', '-q', '-f', origin, `${ref}:refs/heads/main`);
      const clone = checkOut('main', 'whole');
      const sparse = mkdtempSync(path.join(folder, 'sparse-'));
      gitAt(folder, 'clone', '-q', '--no-checkout', '--filter=blob:none', `file://${origin}`, sparse);
      gitAt(sparse, 'sparse-checkout', 'set', '--no-cone', '/p_1/');
      gitAt(sparse, 'checkout', '-q', '--detach', 'refs/remotes/origin/main');
      const folders = at === '.' ? [sparse] : [clone, sparse];
      for (const checkout of folders) {
        const job = {
          GITHUB_REF: 'refs/heads/main',
          GITHUB_REF_NAME: 'main',
          GITHUB_SHA: gitAt(checkout, 'rev-parse', 'HEAD'),
        };
        const event = environment({ repository: { default_branch: 'main' } }, { INPUT_PATH: at });
        const ran = await run('github', { ...event, ...job }, checkout);
        const warning = `::warning::the files of HEAD cannot be checked for Git attributes: ${why}`;
        expect([ran.code, ran.output, world.live().length]).toEqual([0, expect.stringContaining(warning), 1]);
        const template = { RECONCILE_TOKEN: apiToken, RECONCILE_PATH: at, CI_DEFAULT_BRANCH: 'main' };
        const other = await run('gitlab', { ...template, RECONCILE_BASE_URL: world.sim.url }, checkout);
        expect([other.code, other.output]).toEqual([0, expect.stringContaining(warning.replace('::warning::', ''))]);
      }
    }
  });

  it('warns that a branch moved on, for drift, though a document of a provider is a link', async () => {
    const { start, checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const commit = (name: string, text: string): string => {
      writeFileSync(path.join(work, name), text);
      gitAt(work, 'add', '-A');
      gitAt(work, 'commit', '-q', '-m', name);
      return gitAt(work, 'rev-parse', 'HEAD');
    };
    gitAt(work, 'checkout', '-q', '--detach', start);
    const provider = '{id: a, label: A, auto_create_users: false, metadata: {file: idp.xml}}';
    const spec = `spec: {saml_identity_providers: [${provider}]}`;
    commit(
      'p_1/one.xml',
      '<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://a.example/x"/>',
    );
    symlinkSync('one.xml', path.join(work, 'p_1/idp.xml'));
    commit('p_1/c.yaml', `{kind: Configuration, apiVersion: firezone/v0, metadata: {name: c}, ${spec}}`);
    const head = commit('README.md', 'x');
    gitAt(work, 'push', '-q', '-f', origin, `${head}:refs/heads/feature`);
    gitAt(work, 'checkout', '-q', '--detach', 'HEAD^');
    commit('p_1/second.yaml', named('second', 'action: accept, destination: 10.3.0.0/16'));
    gitAt(work, 'push', '-q', '-f', origin, 'HEAD:refs/heads/main');
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--fail-on drift' };
    const variables = { ...environment(requestOf(head), inputs), ...onMain, GITHUB_SHA: head };
    const { output } = await run('github', variables, checkOut('feature', 'whole'));
    expect(output).toContain('::warning::origin/main has other manifests by now: they count as drift');
  });

  it('compares a merge queue with the commit that it starts from', async () => {
    const { merge, target, checkOut } = openRequest(opensLater);
    const event = { repository: { default_branch: 'main' }, merge_group: { base_sha: target } };
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--fail-on opens' };
    const queue = { GITHUB_REF: 'refs/heads/gh-readonly-queue/main/pr-7-abc', GITHUB_SHA: merge };
    const ran = await run(
      'github',
      { ...environment(event, inputs), ...queue },
      checkOut('refs/pull/7/merge', 'shallow'),
    );
    expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('fail-on-opens')]);
  });

  it('only plans a checkout that the default branch does not hold, and does not call it that', async () => {
    const { target, checkOut } = openRequest(opens);
    const event = { repository: { default_branch: 'main' } };
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: target };
    const variables = { ...environment(event, { INPUT_PATH: 'p_1' }), ...job };
    for (const ref of ['refs/pull/7/merge', 'feature']) {
      const ran = await run('github', variables, checkOut(ref, 'whole'));
      expect([ran.code, ran.output]).toEqual([
        0,
        expect.stringMatching(/::warning::The checkout, \w+, is not in the history of origin\/main, so/),
      ]);
      expect([ran.output.includes('(main)'), world.live()]).toEqual([false, []]);
    }
  });

  it('does not apply an older commit whose job runs again, unless told to or where its manifests are those of now', async () => {
    const { start, target, head, checkOut } = openRequest(opens);
    const event = { repository: { default_branch: 'main' } };
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--max-deletes 100% --max-changes 100% --allow-empty' };
    const job = (commit: string) => ({ GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: commit });
    /** As actions/checkout leaves it for an older event: the branch of the remote is that commit. */
    const checkOutAgain = (commit: string, how: 'whole' | 'shallow'): string => {
      const clone = checkOut(how === 'whole' ? 'main' : commit, how);
      gitAt(clone, 'checkout', '-q', '--detach', commit);
      gitAt(clone, 'update-ref', 'refs/remotes/origin/main', commit);
      return clone;
    };
    gitAt(path.join(folder, 'o.git'), 'config', 'uploadpack.allowAnySHA1InWant', 'true');
    for (const [commit, how] of [
      [start, 'whole'],
      [target, 'shallow'],
      [head, 'whole'], // of a branch that was pushed over
    ] as const) {
      const clone = checkOutAgain(commit, how);
      const ran = await run('github', { ...environment(event, inputs), ...job(commit) }, clone);
      const back = 'to go back, revert those since';
      const why = `::warning::${commit} is not the newest commit of origin/main, which has other manifests (${back}), so it is only`;
      expect([ran.code, ran.output, world.live()]).toEqual([0, expect.stringContaining(why), []]);
    }
    const given = { RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'p_1', CI_DEFAULT_BRANCH: 'main' };
    const again = { ...given, RECONCILE_BASE_URL: world.sim.url };
    const retried = await run('gitlab', again, checkOutAgain(target, 'whole'));
    expect([retried.code, retried.output, world.live()]).toEqual([0, expect.stringContaining('revert'), []]);
    // It waited while another was pushed that leaves these manifests as they are.
    const work = path.join(folder, 'work');
    const tip = gitAt(work, 'rev-parse', 'main');
    gitAt(work, 'commit', '-q', '--allow-empty', '-m', 'other');
    gitAt(work, 'push', '-q', path.join(folder, 'o.git'), 'main');
    const queued = await run('github', { ...environment(event, inputs), ...job(tip) }, checkOutAgain(tip, 'shallow'));
    expect([queued.code, world.live().length]).toEqual([0, 3]);
    // A force push took it out of the branch, which it descends from.
    gitAt(work, 'push', '-q', '-f', path.join(folder, 'o.git'), `${target}:main`, `${tip}:refs/heads/kept`);
    for (const [commit, isHeld] of [
      [tip, true],
      [target, false],
    ] as const) {
      const left = await run(
        'github',
        { ...environment(event, inputs), ...job(commit) },
        checkOutAgain(commit, 'whole'),
      );
      expect(left.output.includes('is not the newest commit of origin/main, which has other manifests')).toBe(isHeld);
      expect([left.code, world.live().length]).toEqual([0, isHeld ? 3 : 2]);
    }
    const told = { ...environment(event, { ...inputs, INPUT_MODE: 'apply' }), ...job(start) };
    expect((await run('github', told, checkOutAgain(start, 'whole'))).code).toBe(0);
    expect(world.live()).toHaveLength(1);
  });

  it.each(['https://github.com/stranger/policy', 'git@github.com:stranger/policy.git'])(
    'threat 39: neither applies nor compares a checkout of %s, a fork, with its branches, nor takes its settings',
    async (url) => {
      const { start, target, checkOut } = openRequest(opens);
      const origin = path.join(folder, 'o.git');
      const clone = checkOut('main', 'whole');
      gitAt(clone, 'checkout', '-q', '--detach', start);
      writeFileSync(path.join(clone, 'settings.yaml'), `baseUrl: ${world.sim.url}\n`);
      writeFileSync(path.join(clone, 'p_1/theirs.yaml'), named('theirs', 'action: accept, destination: 0.0.0.0/0'));
      gitAt(clone, 'add', '-A');
      gitAt(clone, 'commit', '-q', '-m', 'theirs');
      gitAt(clone, 'push', '-q', '-f', origin, 'HEAD:main');
      gitAt(clone, 'update-ref', 'refs/remotes/origin/main', 'HEAD');
      gitAt(clone, 'remote', 'set-url', 'origin', url);
      gitAt(clone, 'config', `url.file://${origin}.insteadOf`, url);
      const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: target };
      const event = { repository: { default_branch: 'main' } };
      const why = 'The checkout is of github.com/stranger/policy, not of team/policy or one of "trusted-repositories"';
      for (const name of ['workflow_run', 'issue_comment', 'repository_dispatch', 'workflow_dispatch']) {
        const variables = { ...environment(event, { INPUT_PATH: 'p_1' }), ...job, GITHUB_EVENT_NAME: name };
        const ran = await run('github', variables, clone);
        const said = expect.stringContaining(`::warning::${why}, so it is only`);
        expect([ran.code, ran.output, world.live()]).toEqual([0, said, []]);
      }
      const inputs = { INPUT_PATH: 'p_1', INPUT_CONFIG: 'settings.yaml', INPUT_BASE_URL: '' };
      for (const trusted of ['policy', 'other/policy', 'github.com/policy']) {
        const variables = environment(event, { ...inputs, INPUT_TRUSTED_REPOSITORIES: trusted });
        const settled = await run('github', { ...variables, ...job }, clone);
        expect([settled.code, settled.output]).toEqual([1, expect.stringMatching(`^::error::${why}.*"repository"`)]);
      }
      const request = requestOf(gitAt(clone, 'rev-parse', 'HEAD'), 'stranger/policy');
      const review = { ...environment(request, { INPUT_PATH: 'p_1' }), ...onMain, GITHUB_SHA: target };
      const compared = await run('github', review, clone);
      expect([compared.code, compared.output]).toEqual([1, expect.stringMatching(`^::error::${why}.*repository`)]);
      gitAt(clone, 'remote', 'set-url', 'origin', 'git@github.com:Team/policy.git');
      expect((await run('github', review, clone)).code).toBe(0);
    },
  );

  it('applies the default branch of a repository that the workflow trusts, whatever its name, and reads its settings', async () => {
    const { start, checkOut } = openRequest(opens);
    const origin = path.join(folder, 'o.git');
    const url = 'https://git.example.com/scm/Policy.git';
    const as = (clone: string): string => {
      gitAt(clone, 'remote', 'set-url', 'origin', url);
      gitAt(clone, 'config', `url.file://${origin}.insteadOf`, url);
      return clone;
    };
    gitAt(origin, 'branch', '-m', 'main', 'trunk');
    gitAt(origin, 'symbolic-ref', 'HEAD', 'refs/heads/trunk');
    const [newest, older] = [as(checkOut('trunk', 'shallow')), as(checkOut('trunk', 'whole'))];
    gitAt(older, 'checkout', '-q', '--detach', start);
    const event = { repository: { default_branch: 'main' } };
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: 'f'.repeat(40) };
    const ran = async (clone: string, name: string, more = {}): Promise<Ran> => {
      const variables = { ...environment(event, { INPUT_PATH: 'p_1', ...more }), ...job, GITHUB_EVENT_NAME: name };
      return await run('github', variables, clone);
    };
    const trusted = { INPUT_TRUSTED_REPOSITORIES: 'acme/other,\n git.example.com/scm/policy' };
    expect(await ran(newest, 'schedule')).toMatchObject({ code: 0 });
    expect(world.live()).toHaveLength(3);
    const held = await ran(older, 'workflow_dispatch', { ...trusted, INPUT_ARGUMENTS: '--max-deletes 100%' });
    const why = `${start} is not the newest commit of origin/HEAD, which has other manifests`;
    expect([held.code, held.output, world.live().length]).toEqual([0, expect.stringContaining(why), 3]);
    expect(await ran(newest, 'workflow_dispatch', trusted)).toMatchObject({
      code: 0,
      output: expect.stringContaining('In sync'),
    });
    // Settings of another repository, in a review.
    const settings = path.join(folder, 'settings');
    gitAt(folder, 'init', '-q', '-b', 'trunk', settings);
    writeFileSync(path.join(settings, 'r.yaml'), `baseUrl: ${world.sim.url}\n`);
    gitAt(settings, 'add', '-A');
    gitAt(settings, 'commit', '-q', '-m', 'settings');
    const clone = checkOut('feature', 'whole');
    gitAt(clone, 'clone', '-q', `file://${settings}`, 'central');
    gitAt(path.join(clone, 'central'), 'remote', 'set-url', 'origin', 'git@github.com:acme/settings.git');
    gitAt(
      path.join(clone, 'central'),
      'config',
      `url.file://${settings}.insteadOf`,
      'git@github.com:acme/settings.git',
    );
    const inputs = { INPUT_PATH: 'p_1', INPUT_CONFIG: 'central/r.yaml', INPUT_BASE_URL: '' };
    const request = requestOf(gitAt(clone, 'rev-parse', 'HEAD'));
    for (const [given, code] of [
      ['acme/settings', 0],
      ['', 1],
    ] as const) {
      const review = { ...environment(request, { ...inputs, INPUT_TRUSTED_REPOSITORIES: given }), ...onMain };
      expect(await run('github', review, clone)).toMatchObject({ code });
    }
  });

  it('takes no branch for the default one of a repository that the workflow trusts, and compares a review with that', async () => {
    const { head, checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const settle = (branch: string, text: string): void => {
      writeFileSync(path.join(work, 'settings.yaml'), text);
      gitAt(work, 'add', '-A');
      gitAt(work, 'commit', '-q', '-m', branch);
      gitAt(work, 'push', '-q', origin, `HEAD:refs/heads/${branch}`);
    };
    gitAt(origin, 'symbolic-ref', 'HEAD', 'refs/heads/trunk');
    settle('main', 'maxDeletes: 10\n');
    settle('trunk', 'suspend: true\n');
    const [url, clone] = ['https://127.0.0.1:9/acme/policy', checkOut('trunk', 'whole')];
    gitAt(clone, 'remote', 'set-url', 'origin', url);
    const trusted = { INPUT_PATH: 'p_1', INPUT_TRUSTED_REPOSITORIES: 'acme/policy' };
    const event = { repository: { default_branch: 'main' } };
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: 'f'.repeat(40) };
    const why = 'This job cannot fetch the default branch of 127.0.0.1:9/acme/policy';
    for (const name of ['push', 'workflow_dispatch']) {
      const start = (more = {}) =>
        run('github', { ...environment(event, { ...trusted, ...more }), ...job, GITHUB_EVENT_NAME: name }, clone);
      const settled = await start({ INPUT_CONFIG: 'settings.yaml' });
      const said = expect.stringMatching(`^::error::${why}.*keep the credentials`);
      expect([settled.code, settled.output, world.live()]).toEqual([1, said, []]);
      const held = await start();
      const only = expect.stringMatching(`^::warning::${why}.*, so it is only planned`);
      expect([held.code, held.output, world.live()]).toEqual([0, only, []]);
    }
    gitAt(clone, 'config', `url.file://${origin}.insteadOf`, url);
    writeFileSync(path.join(work, 'p_1/fourth.yaml'), named('fourth', 'action: accept, destination: 10.5.0.0/16'));
    settle('trunk', '');
    const review = { ...environment(requestOf(head), { ...trusted, INPUT_ARGUMENTS: '--fail-on drift' }), ...onMain };
    const ran = await run('github', { ...review, GITHUB_SHA: head, GITHUB_HEAD_REF: 'feature' }, clone);
    expect([ran.code, ran.output]).toEqual([0, expect.stringContaining('This revision: 0 changes')]);
    expect(ran.output).toContain('::warning::origin/HEAD has other manifests by now');
    expect(ran.output).not.toMatch(/feature|at \w+ \(/);
  });

  it('threat 39: knows a repository by its whole name, in whatever form it is written', async () => {
    const { target, checkOut } = openRequest(opens);
    const clone = checkOut('main', 'whole');
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_SHA: target, GITHUB_EVENT_NAME: 'workflow_dispatch' };
    // Nothing answers there: it is a warning where the branch of the checkout decides.
    for (const [url, trusted, isOwn] of [
      ['https://127.0.0.1:9/acme/set', 'https://127.0.0.1:9/acme/set.git', true],
      ['https://u:t@127.0.0.1:9/acme/set.git', '127.0.0.1:9/Acme/set', true],
      ['https://127.0.0.1:9/acme/set', '127.0.0.1/acme/set', false],
      ['https://127.0.0.1:9/acme/set', 'acme/set.git', true],
      ['https://127.0.0.1:9/team/policy.git', '', true],
      ['https://127.0.0.1:9/evil/acme/set', 'acme/set', false],
      ['https://127.0.0.1:9/evil/team/policy', '', false],
      ['ssh://git@127.0.0.1:9/acme/set', 'acme/set', true],
      ['git@127.0.0.1:acme/set.git', '127.0.0.1/acme/set', true],
      ['git@127.0.0.1:9/acme/set.git', '127.0.0.1:9/acme/set acme/set', false],
      ['git@127.0.0.1:/evil/policy.git', '', false],
      ['git@127.0.0.1:team/policy.git', 'git@127.0.0.1:acme/set', true],
    ] as const) {
      gitAt(clone, 'remote', 'set-url', 'origin', url);
      const given = { INPUT_PATH: 'p_1', INPUT_TRUSTED_REPOSITORIES: trusted };
      const { output } = await run('github', { ...environment({}, given), ...job }, clone);
      expect([url, trusted, !output.includes('The checkout is of 127.0.0.1')]).toEqual([url, trusted, isOwn]);
    }
  });

  it('says that the checkout has no commit, and only plans it', async () => {
    const clone = path.join(folder, 'clone');
    cpSync(world.manifests, path.join(clone, 'p'), { recursive: true });
    gitAt(clone, 'init', '-q');
    const ran = await run(
      'github',
      { ...environment({}, { INPUT_PATH: 'p' }), ...{ GITHUB_REF: 'refs/heads/main', GITHUB_SHA: 'f'.repeat(40) } },
      clone,
    );
    const why = '::warning::The checkout has no commit, so it is only planned';
    expect([ran.code, ran.output, world.live()]).toEqual([0, expect.stringContaining(why), []]);
  });

  it('does not apply an older push again once its branch has another name', async () => {
    const { target, checkOut } = openRequest(opens);
    const clone = checkOut('main', 'whole');
    gitAt(clone, 'checkout', '-q', '--detach', target);
    gitAt(clone, 'update-ref', 'refs/remotes/origin/main', target);
    gitAt(path.join(folder, 'o.git'), 'branch', '-m', 'main', 'trunk');
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: target };
    const event = { repository: { default_branch: 'main' } };
    const ran = await run('github', { ...environment(event, { INPUT_PATH: 'p_1' }), ...job }, clone);
    const why = '::warning::origin/main is no branch of the repository any more, so it is only planned';
    expect([ran.code, ran.output, world.live()]).toEqual([0, expect.stringContaining(why), []]);
  });

  it('sends no secret as it lies in Git encrypted, and compares with a base that holds one', async () => {
    const { start, checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const provider =
      '{id: g, label: G, client_id: c, client_secret: {file: idp/key}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}';
    const configuration = `{kind: Configuration, apiVersion: firezone/v0, metadata: {name: c}, spec: {openid_connect_providers: [${provider}]}}`;
    const commit = (name: string, spec: string, key: string): string => {
      writeFileSync(path.join(work, `p_1/${name}.yaml`), named(name, spec));
      writeFileSync(path.join(work, 'p_1/idp/key'), Buffer.from(`\0GITCRYPT\0${key}\xff`, 'latin1'));
      gitAt(work, 'add', '-A');
      writeFileSync(path.join(work, '.gitattributes'), 'p_1/idp/* filter=crypt\n');
      gitAt(work, 'add', '.gitattributes');
      gitAt(work, 'commit', '-q', '-m', name);
      gitAt(work, 'push', '-q', '-f', origin, `HEAD:refs/heads/${name}`);
      return gitAt(work, 'rev-parse', 'HEAD');
    };
    gitAt(work, 'checkout', '-q', '--detach', start);
    mkdirSync(path.join(work, 'p_1/idp'));
    writeFileSync(path.join(work, 'p_1/c.yaml'), configuration);
    const main = commit('main', 'action: drop, destination: 192.168.0.0/16', 'one');
    const head = commit('feature', opensLater, 'one');
    const renewed = commit('renewal', 'action: drop, destination: 192.0.2.0/24', 'two');
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--bind-secret idp/key=g@idp.example --fail-on opens' };
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: main };
    const push = () => ({ ...environment({ repository: { default_branch: 'main' } }, inputs), ...job });
    const clone = checkOut('main', 'whole');
    const locked = await run('github', push(), clone);
    const why = 'This file is encrypted, or a pointer of Git LFS: unlock or fetch it in a step before.';
    expect([locked.code, locked.output, world.live()]).toEqual([4, expect.stringContaining(why), []]);
    writeFileSync(path.join(clone, 'p_1/idp/key'), 'hunter2');
    expect(await run('github', push(), clone)).toMatchObject({
      code: 0,
      output: expect.stringContaining('Applied: 3 done'),
    });
    const unlocked = checkOut('feature', 'whole');
    writeFileSync(path.join(unlocked, 'p_1/idp/key'), 'hunter2');
    const review = await run('github', { ...environment(requestOf(head), inputs), ...onMain }, unlocked);
    expect([review.code, review.output]).toEqual([3, expect.stringContaining('fail-on-opens')]);
    expect(review.output).toContain('This revision: 0 changes now, others later. Drift on the server: 0.');
    const next = checkOut('renewal', 'whole');
    writeFileSync(path.join(next, 'p_1/idp/key'), 'hunter3');
    const drift = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: inputs.INPUT_ARGUMENTS.replace('opens', 'drift') };
    const renewal = await run('github', { ...environment(requestOf(renewed), drift), ...onMain }, next);
    expect([renewal.code, renewal.output]).toEqual([0, expect.stringContaining('Drift on the server: 0.')]);
    expect(renewal.output).toMatch(/openid_connect_providers\[g\]\.client_secret +\(changed\)/);
    gitAt(work, 'checkout', '-q', '--detach', main);
    gitAt(work, 'mv', 'p_1/idp/key', 'p_1/idp/moved');
    writeFileSync(path.join(work, 'p_1/c.yaml'), configuration.replace('idp/key', 'idp/moved'));
    gitAt(work, 'commit', '-q', '-am', 'move');
    gitAt(work, 'push', '-q', origin, 'HEAD:refs/heads/moved');
    const elsewhere = checkOut('moved', 'whole');
    writeFileSync(path.join(elsewhere, 'p_1/idp/moved'), 'hunter3');
    const moves = { ...drift, INPUT_ARGUMENTS: drift.INPUT_ARGUMENTS.replace('idp/key', 'idp/moved') };
    const request = requestOf(gitAt(work, 'rev-parse', 'HEAD'));
    const move = await run('github', { ...environment(request, moves), ...onMain }, elsewhere);
    expect([move.code, move.output]).toEqual([3, expect.stringContaining('Drift on the server: 1.')]);
  });

  it('threat 39: tells a change of SAML metadata as that of the request, whatever attributes it writes', async () => {
    const { start, checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const commit = (branch: string, files: Readonly<Record<string, string>>): string => {
      for (const [name, text] of Object.entries(files)) writeFileSync(path.join(work, name), text);
      gitAt(work, 'add', '-A');
      gitAt(work, 'commit', '-q', '-m', branch);
      gitAt(work, 'push', '-q', '-f', origin, `HEAD:${branch}`);
      return gitAt(work, 'rev-parse', 'HEAD');
    };
    const provider = (file: string): string =>
      `{kind: Configuration, apiVersion: firezone/v0, metadata: {name: c}, spec: {saml_identity_providers: [{id: a, label: A, auto_create_users: false, metadata: {file: ${file}}}]}}`;
    const saml = (host: string): string =>
      `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://${host}.example"/>\n`;
    gitAt(work, 'checkout', '-q', '--detach', start);
    // A filter that encrypts nothing, as one that formats.
    const own = {
      '.gitattributes': '*.xml filter=format\n',
      'p_1/a.xml': saml('idp'),
      'p_1/c.yaml': provider('a.xml'),
    };
    const main = commit('main', own);
    const inputs = { INPUT_PATH: 'p_1' };
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: main };
    const pushed = { ...environment({ repository: { default_branch: 'main' } }, inputs), ...job };
    expect(await run('github', pushed, checkOut('main', 'whole'))).toMatchObject({ code: 0 });
    for (const files of [
      { 'p_1/a.xml': saml('evil'), '.gitattributes': '*.xml text eol=crlf filter=x\n' },
      { 'p_1/b.xml': saml('evil'), '.gitattributes': 'p_1/a.xml filter=x\n', 'p_1/c.yaml': provider('b.xml') },
    ]) {
      gitAt(work, 'checkout', '-q', '--detach', main);
      const head = commit('feature', files);
      const review = { ...environment(requestOf(head), inputs), ...onMain };
      const { output } = await run('github', review, checkOut('feature', 'whole'));
      expect(output).toContain('This revision: 1 change. Drift on the server: 0.');
    }
  });

  it('compares the manifests and the files that they name where an older job runs again, nothing beside them', async () => {
    const { checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const commit = (files: Readonly<Record<string, string>>, how = '-A'): string => {
      for (const [name, text] of Object.entries(files)) writeFileSync(path.join(work, name), text);
      gitAt(work, 'add', how, '.');
      gitAt(work, 'commit', '-q', '--allow-empty', '-m', 'change');
      gitAt(work, 'push', '-q', '-f', origin, 'HEAD:main');
      return gitAt(work, 'rev-parse', 'HEAD');
    };
    const again = async (sha: string, where: string, generate = false) => {
      const clone = checkOut('main', 'whole');
      gitAt(clone, 'checkout', '-q', '--detach', sha);
      if (generate) cpSync(path.join(clone, 'p_1'), path.join(clone, 'made'), { recursive: true });
      const inputs = { INPUT_PATH: where, INPUT_ARGUMENTS: '--max-deletes 100% --values values.yaml' };
      const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: sha };
      const event = { repository: { default_branch: 'main' } };
      const { output } = await run('github', { ...environment(event, inputs), ...job }, clone);
      return /newest commit of origin\/main, which (has|may have)/.exec(output)?.[1] ?? output.includes('planned');
    };
    const saml = '{kind: Configuration, apiVersion: firezone/v0, metadata: {name: c}, spec: {saml_identity_providers: ';
    const provider = `[{id: a, label: A, auto_create_users: false, metadata: {file: 'idp/\${idp}.xml'}}]}}`;
    mkdirSync(path.join(work, 'idp'));
    const first = commit({ 'c.yaml': `${saml}${provider}\n`, 'idp/a.xml': '<a/>\n', 'values.yaml': 'idp: a\n' });
    commit({ 'README.md': 'x\n', 'idp/b.xml': '<b/>\n' });
    expect(await again(first, '.')).toBe(false);
    commit({ 'idp/a.xml': '<b/>\n' });
    expect(await again(first, '.')).toBe('has');
    // Made anew from other files by each job, and tracked in no commit.
    expect(await again(first, 'made', true)).toBe('may have');
    commit({ 'idp/a.xml': '<a/>\n', 'values.yaml': 'idp: a # later\n' });
    expect(await again(first, '.')).toBe('has');
  });

  it('only plans an older push that runs again where what it compares lies behind a link', async () => {
    const { checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const commit = (files: Readonly<Record<string, string>>, links: Readonly<Record<string, string>> = {}): string => {
      for (const [name, text] of Object.entries(files)) writeFileSync(path.join(work, name), text);
      for (const [name, target] of Object.entries(links)) {
        rmSync(path.join(work, name), { force: true });
        symlinkSync(target, path.join(work, name));
      }
      gitAt(work, 'add', '-A');
      gitAt(work, 'commit', '-q', '-m', 'change');
      gitAt(work, 'push', '-q', '-f', origin, 'HEAD:main');
      return gitAt(work, 'rev-parse', 'HEAD');
    };
    const again = async (sha: string, values: string): Promise<void> => {
      const clone = checkOut('main', 'whole');
      gitAt(clone, 'checkout', '-q', '--detach', sha);
      const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: sha };
      const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: `--max-changes 100% --values ${values}` };
      const variables = { ...environment({ repository: { default_branch: 'main' } }, inputs), ...job };
      const template = { RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'p_1', RECONCILE_VALUES: values };
      const other = { ...template, CI_DEFAULT_BRANCH: 'main', RECONCILE_BASE_URL: world.sim.url };
      for (const ran of [await run('github', variables, clone), await run('gitlab', other, clone)]) {
        const held = 'is not the newest commit of origin/main, which may have other manifests';
        expect([ran.code, ran.output, world.live()]).toEqual([0, expect.stringContaining(held), []]);
      }
    };
    const vendor = named('vendor', ['action: accept, destination: "$', '{net}"'].join(''));
    const old = { 'p_1/vendor.yaml': vendor, 'old.yaml': 'net: 10.9.0.0/16\n', 'plain.yaml': 'net: 10.8.0.0/16\n' };
    const linked = commit(old, { 'values.yaml': 'old.yaml' });
    commit({ 'old.yaml': 'net: 10.9.9.0/24\n' });
    await again(linked, 'values.yaml');
    const provider = '{id: a, label: A, auto_create_users: false, metadata: {file: idp.xml}}';
    const manifest = `{kind: Configuration, apiVersion: firezone/v0, metadata: {name: c}, spec: {saml_identity_providers: [${provider}]}}`;
    const saml = (name: string): string =>
      `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://${name}.example/x"/>`;
    const documents = { 'p_1/c.yaml': manifest, 'p_1/one.xml': saml('one'), 'p_1/two.xml': saml('two') };
    const one = commit(documents, { 'p_1/idp.xml': 'one.xml' });
    commit({}, { 'p_1/idp.xml': 'two.xml' });
    await again(one, 'plain.yaml');
  });

  it.each([
    ['a link to a folder elsewhere', 'cache is a symbolic link', ['ln', '-s', '/home/dev/.cache/x', 'p_1/cache']],
    ['a manifest that is a link', 'b.yaml is a symbolic link', ['ln', '-s', 'closed.yaml', 'p_1/b.yaml']],
    ['a link to itself', 'ln is a symbolic link', ['ln', '-s', 'ln', 'p_1/ln']],
    ['a name with a tab', 'the file name b\\tc.yaml holds control', ['cp', 'p_1/closed.yaml', 'p_1/b\tc.yaml']],
    [
      'a submodule',
      'sub is a submodule',
      ['git', 'update-index', '--add', '--cacheinfo', `160000,${'1'.repeat(40)},p_1/sub`],
    ],
  ] as const)(
    'a request that adds %s fails by its name, and one that takes it out is reviewed',
    async (_, words, add) => {
      const { start, checkOut } = openRequest(opens);
      const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
      gitAt(work, 'checkout', '-q', '--detach', start);
      writeFileSync(path.join(work, '.gitattributes'), 'closed.yaml ident\n'); // what cannot be read hides no attribute
      execFileSync(add[0], add.slice(1), { cwd: work });
      if (add[0] !== 'git') gitAt(work, 'add', '-A');
      gitAt(work, 'commit', '-q', '-m', 'bad');
      const bad = gitAt(work, 'rev-parse', 'HEAD');
      gitAt(work, 'push', '-q', '-f', origin, `${bad}:refs/heads/feature`);
      const review = async (base: string, more = ''): Promise<readonly Ran[]> => {
        const head = gitAt(origin, 'rev-parse', 'feature');
        const clone = checkOut('feature', 'whole');
        gitAt(clone, 'update-ref', 'refs/remotes/origin/main', base);
        const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: more };
        const variables = { ...environment(requestOf(head), inputs), ...onMain, GITHUB_SHA: head };
        const template = { CI_MERGE_REQUEST_IID: '3', CI_MERGE_REQUEST_DIFF_BASE_SHA: base, CI_DEFAULT_BRANCH: 'main' };
        const job = { RECONCILE_PATH: 'p_1', RECONCILE_TOKEN: apiToken, RECONCILE_BASE_URL: world.sim.url };
        const failing = more === '' ? {} : { RECONCILE_FAIL_ON: 'opens' };
        return [await run('github', variables, clone), await run('gitlab', { ...template, ...job, ...failing }, clone)];
      };
      const refused = [1, expect.stringContaining(words)];
      for (const { code, output } of await review(start)) expect([code, output]).toEqual(refused);
      gitAt(work, 'reset', '-q', '--hard', start);
      gitAt(work, 'clean', '-qfd');
      gitAt(work, 'reset', '-q', '--soft', bad);
      gitAt(work, 'commit', '-q', '-m', 'mended');
      gitAt(work, 'push', '-q', '-f', origin, 'HEAD:refs/heads/feature');
      for (const { code, output } of await review(bad)) {
        expect([code, output]).toEqual([0, expect.stringContaining(words)]);
        expect(output).toMatch(/^(?:::warning::)?the plan is not compared with its base, which cannot be read: /m);
      }
      expect(summary()).toMatch(/^### .*\n\nWarning: the plan is not compared with its base, which cannot be read: /m);
      for (const { code, output } of await review(bad, '--fail-on opens')) expect([code, output]).toEqual(refused);
    },
  );

  it('holds an older commit where a clone without trees, or what an earlier job fetched, cannot tell; warns where none was fetched', async () => {
    const { start, target, checkOut } = openRequest(opens);
    const origin = path.join(folder, 'o.git');
    gitAt(origin, 'config', 'uploadpack.allowFilter', 'true');
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--max-deletes 100% --max-changes 100%' };
    const again = async (commit: string, clone: string) => {
      gitAt(clone, 'checkout', '-q', '--detach', commit);
      const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: commit };
      return await run('github', { ...environment({ repository: { default_branch: 'main' } }, inputs), ...job }, clone);
    };
    const held = [0, expect.stringContaining('is not the newest commit of origin/main'), []];
    const treeless = mkdtempSync(path.join(folder, 'clone-'));
    gitAt(treeless, 'clone', '-q', '--filter=tree:0', '--no-checkout', `file://${origin}`, '.');
    gitAt(treeless, 'update-ref', 'refs/remotes/origin/main', target);
    const blind = await again(target, treeless);
    expect([blind.code, blind.output, world.live()]).toEqual(held);
    const [kept, cut] = [checkOut('main', 'whole'), checkOut('main', 'whole')];
    for (const clone of [kept, cut]) gitAt(clone, 'remote', 'set-url', 'origin', 'file:///gone');
    gitAt(kept, 'update-ref', 'refs/reconcile/newest', start);
    const stale = await again(target, kept);
    expect([stale.code, stale.output, world.live()]).toEqual(held);
    gitAt(cut, 'update-ref', 'refs/remotes/origin/main', target);
    const warned = await again(target, cut);
    expect([warned.code, warned.output]).toEqual([
      0,
      expect.stringMatching(/^::warning::this job cannot fetch origin/),
    ]);
    expect(world.live()).toHaveLength(2);
  });

  it('holds to the settings of the newest commit where an older job runs again', async () => {
    const { checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    const settle = (text: string): string => {
      writeFileSync(path.join(work, 'settings.yaml'), `baseUrl: ${world.sim.url}\n${text}`);
      gitAt(work, 'add', '-A');
      gitAt(work, 'commit', '-q', '-m', 'settings');
      gitAt(work, 'push', '-q', origin, 'main');
      return gitAt(work, 'rev-parse', 'HEAD');
    };
    const [before] = [settle(''), settle('suspend: true\n')];
    const clone = checkOut('main', 'whole');
    gitAt(clone, 'checkout', '-q', '--detach', before);
    gitAt(clone, 'update-ref', 'refs/remotes/origin/main', before);
    const inputs = { INPUT_PATH: 'p_1', INPUT_CONFIG: 'settings.yaml', INPUT_BASE_URL: '' };
    const job = { GITHUB_REF: 'refs/heads/main', GITHUB_REF_NAME: 'main', GITHUB_SHA: before };
    const event = { repository: { default_branch: 'main' } };
    const ran = await run('github', { ...environment(event, inputs), ...job }, clone);
    expect([ran.code, ran.output, world.live()]).toEqual([3, expect.stringMatching(/suspend/i), []]);
  });

  it('only plans a deployment, whose event may have no branch', async () => {
    const { head, checkOut } = openRequest(opens);
    for (const name of ['deployment', 'deployment_status']) {
      const job = { GITHUB_EVENT_NAME: name, GITHUB_REF: '', GITHUB_REF_NAME: '', GITHUB_SHA: head };
      const event = { repository: { default_branch: 'main' } };
      const variables = { ...environment(event, { INPUT_PATH: 'p_1' }), ...job };
      const ran = await run('github', variables, checkOut('feature', 'whole'));
      const why = '::notice::A commit without a branch is not the default branch, so it is only planned';
      expect([ran.code, ran.output, world.live()]).toEqual([0, expect.stringContaining(why), []]);
    }
  });

  it('threat 39: takes neither a tag nor a branch that is called origin/main for the main branch', async () => {
    const { head, start, checkOut } = openRequest(opens);
    world.sim.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
    const clone = checkOut('feature', 'whole');
    gitAt(clone, 'checkout', '-q', '--detach', start);
    writeFileSync(path.join(clone, 'settings.yaml'), `baseUrl: ${world.sim.url}\nmaxDeletes: 0\n`);
    gitAt(clone, 'add', '-A');
    gitAt(clone, 'commit', '-q', '-m', 'settings');
    gitAt(clone, 'push', '-q', '-f', 'origin', 'HEAD:refs/heads/main');
    gitAt(clone, 'update-ref', 'refs/remotes/origin/main', 'HEAD');
    writeFileSync(path.join(clone, 'settings.yaml'), `baseUrl: ${world.sim.url}\nmaxDeletes: 100\n`);
    gitAt(clone, 'commit', '-q', '-am', 'theirs');
    for (const kind of ['heads', 'tags']) gitAt(clone, 'update-ref', `refs/${kind}/origin/main`, 'HEAD');
    gitAt(clone, 'checkout', '-q', '--detach', 'refs/remotes/origin/main');
    const inputs = { INPUT_PATH: 'p_1', INPUT_CONFIG: 'settings.yaml', INPUT_BASE_URL: '' };
    const event = { repository: { default_branch: 'main' } };
    const push = { ...environment(event, inputs), GITHUB_REF: 'refs/heads/main' };
    const limited = [3, expect.stringContaining('--max-deletes')];
    const pushed = await run('github', push, clone);
    expect([pushed.code, pushed.output]).toEqual(limited);
    const given = { RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'p_1', RECONCILE_CONFIG: 'settings.yaml' };
    const job = await run('gitlab', { ...given, CI_DEFAULT_BRANCH: 'main' }, clone);
    expect([job.code, job.output]).toEqual(limited);
    gitAt(clone, 'checkout', '-qf', '--detach', head);
    for (const kind of ['heads', 'tags']) gitAt(clone, 'update-ref', `refs/${kind}/origin/main`, head);
    const review = { ...environment(requestOf(head), { INPUT_PATH: 'p_1' }), ...onMain };
    await run('github', review, clone);
    expect(forge.comments[1]?.body).toContain('This revision: 1 change.');
  });

  const stranger = { id: 9, login: 'stranger', type: 'User' };
  const person = { id: 2, login: 'ci', type: 'User' };
  it.each([
    ['the token of a job', '', 'ghs_job', null, { id: 1, login: 'github-actions[bot]', type: 'Bot' }],
    ['the token of a person', ' (long)', 'ghp_person', person, person],
  ])('with %s it leaves a comment alone that a stranger gave its mark%s', async (_, _long, token, me, user) => {
    forge.me = me;
    const body = '<!-- reconcile-plan -->\nnothing to see here';
    forge.comments.push({ id: 2, body, user: stranger }, { id: 3, body, user });
    await run('github', environment(ownBranch, { INPUT_GITHUB_TOKEN: token }), folder);
    expect(forge.comments.map((comment) => comment.body.includes('10.1.0.0/16'))).toEqual([false, false, true]);
  });

  it('plans a pull request of a fork from a snapshot, and the token meets nothing of it (long)', async () => {
    const snapshot = await takeSnapshot();
    const before = world.sim.requests().length;
    forge.readOnly = true;
    const ran = await run('github', environment(fork, { INPUT_SNAPSHOT: snapshot }), folder);
    expect(ran.code).toBe(0);
    expect(summary()).toContain('10.1.0.0/16');
    expect(ran.output).toContain("the plan is in the job's summary");
    expect(world.sim.requests()).toHaveLength(before);
    expect(ran.output + summary()).not.toContain('canary');
  });

  it('says what is missing for a fork without a snapshot, and asks nobody', async () => {
    const ran = await run('github', environment(fork), folder);
    expect(ran.code).toBe(1);
    expect(ran.output).toContain('reconcile snapshot --out FILE');
    expect(world.sim.requests()).toEqual([]);
  });

  it("shows what a fork's pull request changes without a server, alone or beside the plan from a snapshot (long)", async () => {
    const clone = path.join(folder, 'clone');
    const git = (...args: readonly string[]): string =>
      execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
        cwd: clone,
        encoding: 'utf8',
      });
    mkdirSync(path.join(clone, 'p'), { recursive: true });
    git('init', '-q');
    writeFileSync(path.join(clone, 'p/rules.yaml'), rules('10.1.0.0/16'));
    git('add', '-A');
    git('commit', '-q', '-m', 'base');
    git('update-ref', 'refs/remotes/origin/main', 'HEAD');
    writeFileSync(path.join(clone, 'p/rules.yaml'), rules('10.7.0.0/16'));
    const variables = { ...environment(fork, { INPUT_PATH: 'p' }), GITHUB_BASE_REF: 'main' };
    const alone = await run('github', variables, clone);
    expect([alone.code, alone.output]).toEqual([0, expect.not.stringContaining('canary')]);
    expect(summary()).toMatch(
      /### `p` `http\S+` · reconcile diff: 1 to create, 1 to delete[\s\S]*Changes from the base to p\n[\s\S]*10\.7\.0\.0\/16/,
    );
    expect(world.sim.requests()).toEqual([]);
    // Of the plan's flags those count that a diff has too: what is built, and what fails.
    const values = path.join(folder, 'production.yaml');
    writeFileSync(values, 'net: 10.9.0.0/16\n');
    const drop = rules('NET')
      .replace('accept', 'drop')
      .replace(/NET/, () => ['$', '{net}'].join(''));
    writeFileSync(path.join(clone, 'p/rules.yaml'), drop);
    const INPUT_ARGUMENTS = `--max-deletes 10% --values ${values} --fail-on=closes --fail-on drift`;
    const flagged = await run('github', { ...variables, INPUT_ARGUMENTS }, clone);
    expect([flagged.code, flagged.output]).toEqual([3, expect.stringContaining('10.9.0.0/16')]);
    writeFileSync(path.join(clone, 'p/rules.yaml'), rules('10.7.0.0/16'));
    const merge = { CI_MERGE_REQUEST_IID: '3', CI_MERGE_REQUEST_DIFF_BASE_SHA: git('rev-parse', 'origin/main').trim() };
    const ran = await run('gitlab', { ...merge, RECONCILE_PATH: 'p' }, clone);
    expect([ran.code, readFileSync(path.join(clone, 'plan.md'), 'utf8')]).toEqual([
      0,
      expect.stringContaining('### reconcile diff: 1 to create, 1 to delete'),
    ]);
    writeFileSync(path.join(folder, 'summary'), '');
    const both = await run('github', { ...variables, INPUT_SNAPSHOT: await takeSnapshot() }, clone);
    expect(both.code).toBe(0);
    expect(summary()).toMatch(
      /### .* · reconcile: 1 to create[\s\S]*Without the server[\s\S]*### reconcile diff: 1 to create/,
    );
  });

  it("fails a fork's pull request whose difference to an invalid base cannot be judged, where something is to be refused", async () => {
    const { start, checkOut } = openRequest(opens);
    const [work, origin] = [path.join(folder, 'work'), path.join(folder, 'o.git')];
    gitAt(work, 'checkout', '-q', '--detach', start);
    writeFileSync(path.join(work, 'p_1/broken.yaml'), 'kind: Rule\n');
    gitAt(work, 'add', '-A');
    gitAt(work, 'commit', '-q', '-m', 'broken');
    const base = gitAt(work, 'rev-parse', 'HEAD');
    gitAt(work, 'rm', '-q', 'p_1/broken.yaml');
    gitAt(work, 'commit', '-q', '-m', 'mended');
    const head = gitAt(work, 'rev-parse', 'HEAD');
    gitAt(work, 'push', '-q', '-f', origin, `${base}:refs/heads/main`, `${head}:refs/heads/feature`);
    const snapshot = await takeSnapshot();
    const review = (words: string): Promise<Ran> => {
      const inputs = { INPUT_PATH: 'p_1', INPUT_SNAPSHOT: snapshot, INPUT_ARGUMENTS: words };
      const variables = { ...environment(requestOf(head, 'stranger/policy'), inputs), ...onMain, GITHUB_SHA: head };
      return run('github', variables, checkOut('feature', 'whole'));
    };
    expect((await review('')).code).toBe(0);
    const { code, output } = await review('--fail-on opens');
    expect([code, output]).toEqual([4, expect.stringContaining('base-invalid')]);
    expect(summary()).toMatch(/^### .*\n\n\*\*Failed: the difference to the base could not be judged\.\*\*$/m);
  });

  it("refuses a fork's pull request for what it opens beside its base, though its snapshot has that already", async () => {
    const { head, merge, checkOut } = openRequest(opens);
    world.sim.seed([
      { action: 'drop', destination: '10.0.0.0/8' },
      { action: 'accept', destination: '10.2.0.0/16' },
      { action: 'accept', destination: '10.3.0.0/16' },
    ]);
    const inputs = { INPUT_PATH: 'p_1', INPUT_SNAPSHOT: await takeSnapshot(), INPUT_ARGUMENTS: '--fail-on opens' };
    const variables = { ...environment(requestOf(head, 'stranger/policy'), inputs), ...onMain, GITHUB_SHA: merge };
    const ran = await run('github', variables, checkOut('refs/pull/7/merge', 'shallow'));
    expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('fail-on-opens')]);
    expect(summary()).toMatch(
      /^### .* · reconcile: In sync.*\n\n\*\*Refused for its difference to the base\*\*, which stands below\.$/m,
    );
  });

  it.each([
    ['ops/values.yaml', '--values ops/values.yaml'],
    ['ops/the values.yaml', '--values "ops/the values.yaml"'],
    ['ops/the values.yaml', "'--values=ops/the values.yaml'"],
  ])('shows what a pull request changes in a values file that its flags name: %s by %s', async (file, flag) => {
    const { clone } = cloneWithValues(file);
    const INPUT_ARGUMENTS = `--overlay production ${flag} --fail-on any`;
    const inputs = { INPUT_PATH: 'environments', INPUT_ARGUMENTS };
    const ran = await run('github', { ...environment(fork, inputs), GITHUB_BASE_REF: 'main' }, clone);
    expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('10.40.0.0/24 tcp 443 → 0.0.0.0/0 tcp 443')]);
  });

  it('heeds settings by their variables, also where the step without the token reads the base', async () => {
    const { clone } = cloneWithValues('ops/the values.yaml');
    const variables = {
      ...{ RECONCILE_VALUES: 'ops/the values.yaml', RECONCILE_OVERLAY: 'production', RECONCILE_FAIL_ON: 'any' },
      ...{ RECONCILE_SNAPSHOT: await takeSnapshot(), GITHUB_BASE_REF: 'main' },
    };
    const ran = await run('github', { ...environment(fork, { INPUT_PATH: 'environments' }), ...variables }, clone);
    expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('10.40.0.0/24 tcp 443 → 0.0.0.0/0 tcp 443')]);
    expect(summary()).toContain('`--overlay=production` `--values=ops/the values.yaml`');
    // A flag counts more, and the variables are not added to it.
    const INPUT_ARGUMENTS = "--values 'ops/the values.yaml' --fail-on closes";
    const flags = environment(fork, { INPUT_PATH: 'environments', INPUT_ARGUMENTS });
    const beside = { ...variables, RECONCILE_VALUES: "ops/it's not here.yaml" };
    expect(await run('github', { ...flags, ...beside }, clone)).toMatchObject({ code: 3 });
    expect(summary()).toMatch(/`--values=ops\/the values.yaml` `--overlay=production` · [\s\S]*Without the server/);
    expect(summary()).not.toContain('not here');
    const cut = { ...variables, GITHUB_BASE_REF: 'gone', RECONCILE_FAIL_ON: 'opens' };
    const ended = await run('github', { ...environment(fork, { INPUT_PATH: 'environments' }), ...cut }, clone);
    expect([ended.code, ended.output]).toEqual([1, expect.stringMatching(/^::error::.*fetch-depth: 0/)]);
  });

  it('applies nothing under RECONCILE_SUSPEND, and names the variables that have no effect', async () => {
    const push = { ...environment({}), GITHUB_REF: 'refs/heads/main', RECONCILE_SUSPEND: 'true' };
    const ran = await run('github', { ...push, RECONCILE_SUSPND: '1', RECONCILE_OUTPUT: 'html=x.html' }, folder);
    expect([ran.code, ran.output, world.live()]).toEqual([3, expect.stringMatching(/suspend/i), []]);
    expect(ran.output).toContain('::notice::Without effect in this job: RECONCILE_OUTPUT, RECONCILE_SUSPND. ');
    expect(existsSync(path.join(folder, 'x.html'))).toBe(false);
  });

  it('reads the settings file that RECONCILE_CONFIG names from the default branch', async () => {
    const clone = cloneWithSettings('production');
    const event = { ...ownBranch, repository: { default_branch: 'production' } };
    const inputs = environment(event, { INPUT_PATH: 'p', INPUT_BASE_URL: '' });
    const ran = await run('github', { ...inputs, RECONCILE_CONFIG: 'settings.yaml' }, clone);
    expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('--max-deletes')]);
  });

  it('writes no more when the job is cancelled, and says what it did', async () => {
    writeFileSync(
      path.join(world.manifests, 'rules.yaml'),
      Array.from({ length: 40 }, (_, n) => named(`r${n}`, `action: accept, destination: 10.${n}.0.0/16`)).join('---\n'),
    );
    for (const cancelled of ['github', 'gitlab'] as const) {
      const before = world.live().length;
      const inherited: string[] = [];
      const onStart = (shell: ChildProcess): void => {
        const cancel = (): unknown => {
          const isAlive = shell.exitCode === null && shell.signalCode === null;
          if (world.live().length === before) return isAlive && setTimeout(cancel, 20);
          const children = readFileSync(`/proc/${shell.pid}/task/${shell.pid}/children`, 'utf8').trim();
          inherited.push(...readFileSync(`/proc/${children}/environ`, 'utf8').split('\0'));
          for (const _ of ['runners', 'signal', 'more', 'than once'])
            shell.kill(cancelled === 'github' ? 'SIGINT' : 'SIGTERM');
          return;
        };
        cancel();
      };
      const runner = { RUNNER_TRACKING_ID: 'github_77', GITHUB_REF: 'refs/heads/main' };
      const push = { ...environment({}, { INPUT_ARGUMENTS: '--pace 4' }), ...runner };
      const job = { RECONCILE_PACE: '4', RECONCILE_TOKEN: apiToken, RECONCILE_PATH: world.manifests };
      const ran =
        cancelled === 'github'
          ? await runAction(push, folder, { onStart })
          : await runTemplate({ ...job, RECONCILE_BASE_URL: world.sim.url }, folder, {
              onStart,
              more: ['echo went on'],
            });
      expect([ran.code, ran.output]).toEqual([5, expect.stringMatching(/^Stopped: \d+ done, \d+ dropped/m)]);
      expect(ran.output).not.toContain('went on');
      expect(inherited.includes('RUNNER_TRACKING_ID=github_77')).toBe(cancelled === 'github');
      expect(world.live().length).toBeLessThan(before + 20);
    }
  });

  it('names the run in the history, and links the commit', async () => {
    const { start, checkOut } = openRequest(opens);
    const [state, page] = [path.join(folder, 'state'), path.join(folder, 'plan.html')];
    const inputs = {
      ...{ INPUT_PATH: 'p_1', INPUT_MODE: 'apply' },
      INPUT_ARGUMENTS: `--state-dir ${state} --output html=${page}`,
    };
    const job = {
      GITHUB_RUN_ID: '77',
      GITHUB_ACTOR: 'alice',
      GITHUB_SERVER_URL: 'https://github.com',
    };
    const push = { ...environment({}, inputs), ...job, GITHUB_REF: 'refs/heads/main' };
    const clone = checkOut('feature', 'whole');
    gitAt(clone, 'checkout', '-q', '--detach', start);
    expect((await run('github', push, clone)).code).toBe(0);
    const history = execFileSync(process.execPath, [binary, 'history', '--state-dir', state], { encoding: 'utf8' });
    expect(history).toContain('by GitHub run 77 of alice');
    expect(readFileSync(page, 'utf8')).toContain(`https://github.com/team/policy/blob/${start}/p_1/closed.yaml#L4`);
  });

  it('reaches the server and the remote through the proxy of the job', async () => {
    const { start, checkOut } = openRequest(opens);
    const asked: string[] = [];
    const proxy = createServer().on('connect', ({ url = '' }, socket) => {
      asked.push(url);
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const clone = checkOut('feature', 'whole');
    gitAt(clone, 'checkout', '-q', '--detach', start);
    gitAt(clone, 'remote', 'set-url', 'origin', 'https://git.invalid/team/policy.git');
    const inputs = { INPUT_PATH: 'p_1', INPUT_ARGUMENTS: '--proxy env', INPUT_BASE_URL: 'https://vpn.invalid' };
    const push = { ...environment({ repository: { default_branch: 'main' } }, inputs), GITHUB_REF: 'refs/heads/main' };
    const ran = await run('github', { ...push, HTTPS_PROXY: address, NO_PROXY: '*.example.com' }, clone);
    await new Promise((resolve) => proxy.close(resolve));
    expect([ran.code, [...new Set(asked)].sort()]).toEqual([1, ['git.invalid:443', 'vpn.invalid:443']]);
  });

  it('fails for invalid manifests with the exit code of the command, and annotates the line', async () => {
    writeFileSync(path.join(world.manifests, 'rules.yaml'), rules('10.1.0.0/99'));
    const ran = await run('github', environment(ownBranch), folder);
    expect(ran.code).toBe(4);
    expect(ran.output).toMatch(/::error file=.*rules\.yaml,line=4/);
  });

  it('never applies a pull request, whatever the mode says', async () => {
    const ran = await run('github', environment(ownBranch, { INPUT_MODE: 'apply' }), folder);
    expect(ran.code).toBe(1);
    expect(world.live()).toEqual([]);
  });

  it('is a valid Action whose step gets every input', () => {
    const source = readFileSync(path.join(root, 'action.yml'), 'utf8');
    const { validateAction } = createRequire(import.meta.url)('@action-validator/core') as {
      validateAction(text: string): { errors: readonly unknown[] };
    };
    expect(validateAction(source).errors).toEqual([]);
    expect(validateAction(source.replace('using: composite', 'using: magic')).errors).not.toEqual([]);
    const action = parse(source) as {
      inputs: Record<string, unknown>;
      runs: { steps: readonly { run?: string; env?: Record<string, string> }[] };
    };
    const step = action.runs.steps.at(-1);
    expect(step?.run).toBe('exec node "$GITHUB_ACTION_PATH/dist/ci/github.mjs"');
    const given = Object.entries(step?.env ?? {}).filter(([name]) => name !== 'INPUT_PREPARED');
    const own = Object.keys(action.inputs).filter((name) => name !== 'trusted-repositories'); // of the first step
    const wanted = own.map((name) => [`INPUT_${name.replaceAll('-', '_').toUpperCase()}`, `\${{ inputs.${name} }}`]);
    expect(given.sort()).toEqual(wanted.sort());
  });
});

describe('the GitLab template', () => {
  function environment(variables: Readonly<Record<string, string>>): Record<string, string> {
    return {
      CI_API_V4_URL: forge.url,
      CI_MERGE_REQUEST_PROJECT_ID: '42',
      RECONCILE_BASE_URL: world.sim.url,
      RECONCILE_PATH: world.manifests,
      RECONCILE_GITLAB_TOKEN: 'canary-forge-token',
      ...variables,
    };
  }
  const request = { CI_MERGE_REQUEST_IID: '3', CI_MERGE_REQUEST_SOURCE_PROJECT_ID: '42' };

  it('leaves no note about an earlier commit where GitLab refuses the plan', async () => {
    const variables = () => environment({ ...request, RECONCILE_TOKEN: apiToken });
    await run('gitlab', variables(), folder);
    forge.longest = 300;
    expect((await run('gitlab', variables(), folder)).code).toBe(0);
    expect(forge.comments[1]?.body).toContain("the plan is too long for a comment: the job's artifacts");
  });

  it('plans a merge request, keeps one note up to date, and leaves the plan as artifacts', async () => {
    const ran = await run('gitlab', environment({ ...request, RECONCILE_TOKEN: apiToken }), folder);
    expect(ran.code).toBe(0);
    expect(forge.comments).toHaveLength(2);
    await run('gitlab', environment({ ...request, RECONCILE_TOKEN: apiToken }), folder);
    expect(forge.comments).toHaveLength(2);
    const onNotes = forge.calls.filter(({ path: called }) => called.includes('/notes'));
    expect(onNotes.map(({ method }) => method)).toEqual(['GET', 'POST', 'GET', 'PUT']);
    expect(readFileSync(path.join(folder, 'plan.md'), 'utf8')).toContain('10.1.0.0/16');
    expect(JSON.parse(readFileSync(path.join(folder, 'plan.json'), 'utf8'))).toMatchObject({ summary: { create: 1 } });
    expect(world.live()).toEqual([]);
  });

  it('applies nothing under RECONCILE_SUSPEND, and plans what the variables say', async () => {
    const given = environment({ RECONCILE_TOKEN: apiToken, RECONCILE_SUSPEND: 'true' });
    const ran = await run('gitlab', given, folder);
    expect([ran.code, ran.output, world.live()]).toEqual([3, expect.stringMatching(/suspend/i), []]);
    expect(ran.output).not.toContain('Without effect');
    const { clone, base } = cloneWithValues('ops/the values.yaml');
    const opened = await run(
      'gitlab',
      {
        ...{ CI_MERGE_REQUEST_IID: '3', CI_MERGE_REQUEST_DIFF_BASE_SHA: base, RECONCILE_PATH: 'environments' },
        ...{ RECONCILE_VALUES: 'ops/the values.yaml', RECONCILE_OVERLAY: 'production', RECONCILE_FAIL_ON: 'any' },
      },
      clone,
    );
    expect([opened.code, opened.output]).toEqual([
      3,
      expect.stringContaining('10.40.0.0/24 tcp 443 → 0.0.0.0/0 tcp 443'),
    ]);
  });

  it('leaves the note about a newer commit alone where an older job runs again', async () => {
    const job = { ...request, RECONCILE_TOKEN: apiToken, CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'main' };
    forge.request = { sha: 'b'.repeat(40), target_branch: 'main' };
    for (const [head, notes] of [
      [{ CI_COMMIT_SHA: 'a'.repeat(40) }, 1],
      [{ CI_COMMIT_SHA: 'b'.repeat(40), CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'other' }, 1],
      [{ CI_COMMIT_SHA: 'c'.repeat(40), CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: 'b'.repeat(40) }, 2],
    ] as const) {
      const ran = await run('gitlab', environment({ ...job, ...head }), folder);
      expect([ran.code, ran.output.includes('The comment was not written: ')]).toEqual([0, notes === 1]);
      expect(forge.comments).toHaveLength(notes);
    }
    for (const [CI_PIPELINE_ID, written] of [
      ['10', '10'],
      ['9', '10'],
      ['11', '11'],
    ] as const) {
      await run('gitlab', environment({ ...job, CI_COMMIT_SHA: 'b'.repeat(40), CI_PIPELINE_ID }), folder);
      expect(forge.comments.map(({ body }) => / run (\d+) of /.exec(body)?.[1])).toEqual([undefined, written]);
    }
  });

  it('keeps one note for each folder of a project', async () => {
    for (const name of ['office', 'lab', 'office']) {
      mkdirSync(path.join(folder, name), { recursive: true });
      writeFileSync(path.join(folder, name, 'rules.yaml'), rules('10.1.0.0/16'));
      await run('gitlab', environment({ ...request, RECONCILE_TOKEN: apiToken, RECONCILE_PATH: name }), folder);
    }
    expect(forge.comments.slice(1).map(({ body }) => body.split(' · ')[0]?.split('\n')[1])).toEqual(
      ['office', 'lab'].map((name) => `### \`${name}\` \`${world.sim.url}\``),
    );
  });

  it('finds its note among hundreds, and leaves one alone that a stranger gave its mark', async () => {
    forge.me = { id: 1, login: 'project_42_bot', type: 'User' };
    const body = '<!-- reconcile-plan -->\nnothing to see here';
    forge.comments.push({ id: 2, body, author: { id: 9, login: 'stranger', type: 'User' } });
    for (let id = 3; id < 250; id++) forge.comments.push({ id, body: 'chatter' });
    forge.comments.push({ id: 250, body, author: forge.me });
    await run('gitlab', environment({ ...request, RECONCILE_TOKEN: apiToken }), folder);
    expect(forge.comments).toHaveLength(250);
    expect(forge.comments[1]?.body).toBe(body);
    expect(forge.comments[249]?.body).toContain('10.1.0.0/16');
  });

  it("plans a fork's merge request from a snapshot, though a token is there (long)", async () => {
    const snapshot = await takeSnapshot();
    const before = world.sim.requests().length;
    const variables = { ...request, CI_MERGE_REQUEST_SOURCE_PROJECT_ID: '99', RECONCILE_TOKEN: apiToken };
    const ran = await run('gitlab', environment({ ...variables, RECONCILE_SNAPSHOT: snapshot }), folder);
    expect(ran.code).toBe(0);
    expect(world.sim.requests()).toHaveLength(before);
  });

  it.each(['environments/values-production.yaml', 'ops/values.yaml'])(
    'shows what a merge request changes in the values file %s, with a token and without',
    async (values) => {
      const { clone, base } = cloneWithValues(values);
      const variables = {
        ...{ CI_MERGE_REQUEST_IID: '3', CI_MERGE_REQUEST_DIFF_BASE_SHA: base },
        ...{ CI_DEFAULT_BRANCH: 'main', RECONCILE_PATH: 'environments', RECONCILE_CONFIG: 'settings.yaml' },
      };
      const fork = await run('gitlab', variables, clone);
      expect(fork).toMatchObject({
        code: 0,
        output: expect.stringContaining('10.40.0.0/24 tcp 443 → 0.0.0.0/0 tcp 443'),
      });
      const inside = await run(
        'gitlab',
        { ...variables, RECONCILE_TOKEN: apiToken, RECONCILE_BASE_URL: world.sim.url },
        clone,
      );
      expect(inside).toMatchObject({ code: 0, output: expect.stringContaining('This revision: 1 change') });
      expect(inside.output).not.toMatch(/0\.0\.0\.0\/0 tcp 443.*drift/);
      // A link in its place is no file of that side, and today's is never taken for it.
      const file = path.join(clone, values);
      const opened = readFileSync(file);
      rmSync(file);
      symlinkSync('elsewhere.yaml', file);
      execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', 'commit', '-qam', 'link'], {
        cwd: clone,
      });
      const linked = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: clone, encoding: 'utf8' }).trim();
      rmSync(file);
      writeFileSync(file, opened);
      const blind = await run('gitlab', { ...variables, CI_MERGE_REQUEST_DIFF_BASE_SHA: linked }, clone);
      expect([blind.code === 0, blind.output.includes('No differences')]).toEqual([false, false]);
    },
  );

  it('threat 39: reads the settings file from the default branch, and heeds it in plans and applies (long)', async () => {
    const clone = cloneWithSettings('main');
    const given = { RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'p', RECONCILE_CONFIG: 'settings.yaml' };
    const variables = environment({ ...given, CI_DEFAULT_BRANCH: 'main', RECONCILE_BASE_URL: '' });
    for (const job of [request, {}]) {
      const ran = await run('gitlab', { ...variables, ...job }, clone);
      expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('--max-deletes')]);
    }
    expect(world.live()).toEqual(['192.0.2.0/24']);
    const missing = await run('gitlab', { ...variables, CI_DEFAULT_BRANCH: 'gone' }, clone);
    expect([missing.code, missing.output]).toEqual([1, expect.stringContaining('is read from origin/gone')]);
  });

  it('threat 39: reads the settings of the default branch, whatever a merge request makes of the folders', async () => {
    const clone = cloneWithSettings('main', 'ops/settings.yaml');
    const given = { RECONCILE_TOKEN: apiToken, CI_DEFAULT_BRANCH: 'main', RECONCILE_BASE_URL: '', ...request };
    const job = (own: Readonly<Record<string, string>>): Promise<Ran> =>
      run('gitlab', environment({ ...given, RECONCILE_CONFIG: 'ops/settings.yaml', ...own }), clone);
    cpSync(path.join(clone, 'p'), path.join(clone, 'ops/p'), { recursive: true });
    for (const submodule of ['p', 'ops']) {
      makeSubmodule(path.join(clone, submodule));
      const manifests = submodule === 'p' ? 'p' : 'ops/p';
      const ran = await job({ RECONCILE_PATH: manifests });
      expect([ran.code, ran.output]).toEqual([3, expect.stringContaining('--max-deletes')]);
      expect(ran.output).toContain(`${manifests} is in a submodule: the plan is not compared with a base`);
    }
    rmSync(path.join(clone, 'p'), { recursive: true });
    symlinkSync(world.manifests, path.join(clone, 'p'));
    const read = await job({ RECONCILE_PATH: 'p' });
    expect([read.code, read.output]).toEqual([1, 'p is a link out of the checkout, and is not read\n']);
    cpSync(path.join(clone, 'ops'), path.join(folder, 'ops'), { recursive: true });
    rmSync(path.join(clone, 'ops'), { recursive: true });
    const gone = await job({ RECONCILE_PATH: '.' });
    symlinkSync(path.join(folder, 'ops'), path.join(clone, 'ops'));
    const linked = await job({ RECONCILE_PATH: '.' });
    // Another clone that lies on the runner, with a default branch of its own.
    const evil = path.join(folder, 'evil');
    cpSync(path.join(folder, 'ops'), evil, { recursive: true, filter: (one) => path.basename(one) !== '.git' });
    execFileSync('git', ['init', '-q'], { cwd: evil });
    for (const args of [
      ['add', '-A'],
      ['commit', '-q', '-m', 'evil'],
      ['update-ref', 'refs/remotes/origin/main', 'HEAD'],
    ])
      execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], { cwd: evil });
    rmSync(path.join(clone, 'ops'));
    symlinkSync(evil, path.join(clone, 'ops'));
    const other = await job({ RECONCILE_PATH: '.' });
    const message = 'the folder of ops/settings.yaml is gone, or behind a link: put it back\n';
    expect([gone, linked, other]).toEqual([1, 1, 1].map((code) => ({ code, output: message })));
    expect(world.live()).toEqual(['192.0.2.0/24']);
  });

  it('threat 39: writes the plan to no file that a merge request names by a link', async () => {
    const clone = cloneWithSettings('main');
    const victim = path.join(folder, 'victim');
    writeFileSync(victim, 'mine');
    for (const name of ['plan.md', 'plan.json']) symlinkSync(victim, path.join(clone, name));
    const ran = await run('gitlab', environment({ ...request, RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'p' }), clone);
    expect([ran.code, readFileSync(victim, 'utf8')]).toEqual([0, 'mine']);
    expect(readFileSync(path.join(clone, 'plan.md'), 'utf8')).toContain('10.1.0.0/16');
    // A job that ends before its plan leaves no other one as its artifact.
    for (const name of ['plan.md', 'plan.json']) writeFileSync(path.join(clone, name), 'In sync');
    writeFileSync(path.join(clone, 'p/.gitattributes'), '*.yaml ident\n');
    execFileSync('git', ['add', '-A'], { cwd: clone });
    const ended = await run(
      'gitlab',
      environment({ ...request, RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'p' }),
      clone,
    );
    expect([ended.code, ...['plan.md', 'plan.json'].map((name) => existsSync(path.join(clone, name)))]).toEqual([
      ...[1, false, false],
    ]);
  });

  it('applies on the default branch, with arguments of its own, whose quotes keep words together', async () => {
    const command = (text: string, within = '1s'): string =>
      `--state-dir ${folder}/state --confirm-within ${within} --confirm-with '/bin/sh -c "${text}"'`;
    const job = (text: string, more = {}): Promise<Ran> =>
      run('gitlab', environment({ RECONCILE_TOKEN: apiToken, RECONCILE_APPLY_ARGUMENTS: text, ...more }), folder);
    expect(await job(command('exit 1'), request)).toMatchObject({ code: 0 });
    expect([await job(command('exit 1')), world.live()]).toEqual([expect.objectContaining({ code: 3 }), []]);
    expect(await job(command('exit 0', '9m'))).toMatchObject({ code: 0 });
    expect(world.live()).toEqual(['10.1.0.0/16']);
    expect(await job("--confirm-with 'x")).toMatchObject({ code: 1, output: expect.stringContaining('is not closed') });
  });

  it.each(['whole', 'shallow'] as const)(
    'blames the request for nothing of the branch that it was merged with before its pipeline, in a %s clone',
    async (how) => {
      const { start, target, checkOut } = openRequest(opens);
      const merged = { CI_MERGE_REQUEST_DIFF_BASE_SHA: start, CI_MERGE_REQUEST_TARGET_BRANCH_SHA: target };
      const job = { ...request, RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'p_1' };
      const ran = await run('gitlab', environment({ ...job, ...merged }), checkOut('refs/pull/7/merge', how));
      expect(ran).toMatchObject({ code: 0, output: expect.stringContaining('This revision: 1 change.') });
      // Other pipelines leave it empty.
      const detached = { CI_MERGE_REQUEST_DIFF_BASE_SHA: start, CI_MERGE_REQUEST_TARGET_BRANCH_SHA: '' };
      const own = await run('gitlab', environment({ ...job, ...detached }), checkOut('feature', how));
      expect(own).toMatchObject({ code: 0, output: expect.stringContaining('This revision: 1 change.') });
    },
  );

  it('applies a second policy in the same job, and runs the lines after it unless one of them fails', async () => {
    for (const name of ['a', 'b']) mkdirSync(path.join(folder, name));
    writeFileSync(path.join(folder, 'a/r.yaml'), named('a', opens));
    writeFileSync(path.join(folder, 'b/r.yaml'), named('b', 'action: drop, destination: 10.9.0.0/16'));
    const more = ['export RECONCILE_PATH=b', '.reconcile', 'echo went on'];
    const job = environment({ RECONCILE_TOKEN: apiToken, RECONCILE_PATH: 'a', RECONCILE_PRUNE: 'none' });
    expect(await runTemplate(job, folder, { more })).toMatchObject({
      code: 0,
      output: expect.stringMatching(/went on\n$/),
    });
    expect(world.live().toSorted()).toEqual(['10.2.0.0/16', '10.9.0.0/16']);
    writeFileSync(path.join(folder, 'a/r.yaml'), 'x: 1\n');
    const failed = await runTemplate(job, folder, { more });
    expect([failed.code, failed.output]).toEqual([4, expect.not.stringContaining('went on')]);
  });

  it('runs the script that the image holds', () => {
    const template = parse(readFileSync(path.join(root, 'ci/gitlab.yml'), 'utf8')) as Record<
      string,
      { script?: string[] }
    >;
    expect(template['.reconcile']?.script?.at(-1)).toMatch(
      /^RECONCILE_PREPARED="\$prepared" node \/opt\/reconcile\/ci\/gitlab.mjs & /,
    );
    expect(readFileSync(path.join(root, 'Dockerfile'), 'utf8')).toContain('/src/dist /opt/reconcile');
    expect(Object.keys(template)).toEqual(['.reconcile', 'reconcile-plan', 'reconcile-apply']);
  });
});

describe('the pre-commit hooks', () => {
  const hooks = parse(readFileSync(path.join(root, '.pre-commit-hooks.yaml'), 'utf8')) as readonly {
    id: string;
    entry: string;
    args: readonly string[];
  }[];

  it.each(hooks.map(({ id, entry }, index) => [id, index === 0 ? '' : ' (long)', entry] as const))(
    '%s passes for good manifests and fails for bad ones%s',
    async (_id, _long, entry) => {
      const [, ...argv] = entry.split(' ');
      const hook = async (): Promise<unknown> => {
        const child = spawn(process.execPath, [binary, ...argv, '.'], { cwd: world.manifests, stdio: 'ignore' });
        return await new Promise((resolve) => child.on('close', resolve));
      };
      cpSync(path.join(root, 'examples/company'), world.manifests, { recursive: true });
      rmSync(path.join(world.manifests, 'rules.yaml'));
      expect(await hook()).toBe(0);
      writeFileSync(path.join(world.manifests, 'rules.yaml'), 'apiVersion:   firezone/v0\nkind: Rule\nspec: {}\n');
      expect(await hook()).not.toBe(0);
    },
  );
});
