import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { alice, rule, startWorld, token, type World } from './harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
  world.simulator.seed([
    { action: 'drop', destination: '10.0.0.0/8' },
    { action: 'accept', destination: '10.1.0.0/16', port_type: 'tcp', port_range: '443', user_id: alice },
  ]);
  const provider = {
    id: 'google',
    label: 'Google',
    client_id: 'c',
    client_secret: 'CANARY',
    discovery_document_uri: 'https://accounts.google.com/d',
    auto_create_users: false,
  };
  const answer = await fetch(`${world.simulator.url}/v0/configuration`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({ configuration: { openid_connect_providers: [provider] } }),
  });
  expect(answer.status).toBe(200);
});
afterEach(() => world.close());

/** Every file below a folder with its content. */
const filesIn = (folder: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    readdirSync(join(world.folder, folder), { recursive: true, encoding: 'utf8' })
      .filter((path) => statSync(join(world.folder, folder, path)).isFile())
      .sort()
      .map((path) => [path, readFileSync(join(world.folder, folder, path), 'utf8')]),
  );

describe('reconcile init', () => {
  it.each([5, 10])('writes settings that refuse a plan which deletes most of %i rules', async (count) => {
    const more = Array.from(
      { length: count - 2 },
      (_, n) => ({ action: 'drop', destination: `11.2.${n}.0/24` }) as const,
    );
    world.simulator.seed(more);
    expect((await world.cli(['init', 'fw', '--forge', 'github'])).code).toBe(0);
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    const run = await world.cli([
      'apply',
      '--config',
      'fw/settings.yaml',
      'm',
      '--token-file',
      world.write('t', token),
    ]);
    expect([run.code, run.out]).toEqual([3, expect.stringContaining('[too-many-deletes]')]);
  });

  it('makes a repository whose plan is empty, writes nothing to the server, and changes nothing when it runs again', async () => {
    const first = await world.cli(['init', 'fw', '--forge', 'github']);
    expect([first.code, first.out]).toEqual([0, expect.stringContaining('In sync: 2 objects unchanged')]);
    const files = filesIn('fw');
    expect(Object.keys(files)).toEqual([
      '.github/workflows/firezone.yml',
      '.pre-commit-config.yaml',
      'README.md',
      'policy/.firezone-manifest.schema.json',
      'policy/configuration.yaml',
      'policy/rules/alice@example.com.yaml',
      'policy/rules/everyone.yaml',
      'settings.yaml',
    ]);
    expect(JSON.stringify(files)).not.toMatch(/CANARY|test-token/);
    expect((files['README.md'] ?? '').trim().split('\n').length).toBeLessThanOrEqual(12);
    const again = await world.cli(['init', 'fw', '--forge', 'github']);
    expect([again.code, again.out]).toEqual([0, expect.not.stringMatching(/^ {2}written/m)]);
    expect(filesIn('fw')).toEqual(files);
    expect(world.simulator.requests().filter(({ method }) => method !== 'GET')).toHaveLength(1);
  });

  it('its settings and its workflow can be used: the plan takes the one, the other names the Action', async () => {
    await world.cli(['init', 'fw', '--forge', 'github']);
    const plan = await world.cli(['plan', 'fw/policy', '--config', 'fw/settings.yaml', '--detailed-exitcode'], {
      env: { RECONCILE_BASE_URL: '' },
    });
    expect([plan.code, plan.err]).toEqual([0, '']);
    expect(parse(world.read('fw/settings.yaml'))).toMatchObject({
      secrets: {
        bind: [{ name: 'RECONCILE_SECRET_OIDC_GOOGLE', provider: 'google', host: 'accounts.google.com' }],
      },
    });
    const workflow = parse(world.read('fw/.github/workflows/firezone.yml'));
    // `edited`: another target branch has another base.
    expect(workflow.on.pull_request).toEqual({ types: ['opened', 'synchronize', 'reopened', 'edited'] });
    // GitHub keeps one waiting run of a group: that of a pull request must not end an apply that waits.
    expect(workflow.concurrency).toEqual({ group: `firezone-\${{ github.ref }}`, 'cancel-in-progress': false });
    const { inputs } = parse(readFileSync(new URL('../../action.yml', import.meta.url), 'utf8'));
    const step = workflow.jobs.firezone.steps[1];
    expect(step.uses).toMatch(/^OWNER\/firezone-reconcile@v/);
    for (const name of Object.keys(step.with)) expect(Object.keys(inputs)).toContain(name);
    const hooks = parse(readFileSync(new URL('../../.pre-commit-hooks.yaml', import.meta.url), 'utf8')) as {
      id: string;
    }[];
    expect(parse(world.read('fw/.pre-commit-config.yaml')).repos[0].hooks.map(({ id }: { id: string }) => id)).toEqual(
      hooks.map(({ id }) => id),
    );
  });

  it.each([
    ['https://github.com/acme/fw.git', '.github/workflows/firezone.yml'],
    ['git@gitlab.acme.example:net/fw.git', '.gitlab-ci.yml'],
    ['ssh://git@gitlab.com/net/fw.git', '.gitlab-ci.yml'],
    ['https://git.acme.example/github/fw.git', null],
  ])('the remote %s: the workflow is %s', async (url, file) => {
    world.write('fw/.git/config', `[core]\n\tbare = false\n[remote "origin"]\n\turl = ${url}\n\tfetch = x\n`);
    const run = await world.cli(['init', 'fw']);
    const written = ['.github/workflows/firezone.yml', '.gitlab-ci.yml'].filter((path) =>
      existsSync(join(world.folder, 'fw', path)),
    );
    expect(written).toEqual(file === null ? [] : [file]);
    expect(run.out.includes('give --forge github or --forge gitlab')).toBe(file === null);
  });

  it.each([
    [
      'the default branch of origin',
      { 'refs/remotes/origin/HEAD': 'ref: refs/remotes/origin/trunk', HEAD: 'ref: refs/heads/x' },
    ],
    ['the branch that is checked out', { HEAD: 'ref: refs/heads/trunk' }],
    ['main, where Git keeps refs in a table', { HEAD: 'ref: refs/heads/.invalid' }],
    ['main, where a commit is checked out', { HEAD: '1'.repeat(40) }],
  ])('the workflow applies pushes to %s', async (what, files: Readonly<Record<string, string>>) => {
    for (const [name, text] of Object.entries(files)) world.write(`fw/.git/${name}`, `${text}\n`);
    await world.cli(['init', 'fw', '--forge', 'github']);
    const branch = what.startsWith('main') ? 'main' : 'trunk';
    expect(parse(world.read('fw/.github/workflows/firezone.yml')).on.push).toEqual({ branches: [branch] });
  });

  it('writes no workflow below the top of a repository, where no forge reads it, and says what to do', async () => {
    world.write('mono/.git/HEAD', 'ref: refs/heads/main\n');
    for (const forge of ['github', 'gitlab'])
      expect(await world.cli(['init', 'mono/infra/fw', '--forge', forge])).toMatchObject({
        code: 1,
        err: expect.stringMatching(
          /infra\/fw lies in the repository .*mono, [\s\S]*hint: run `reconcile init` there, or first `git init mono\/infra\/fw`/,
        ),
      });
    expect(existsSync(join(world.folder, 'mono/infra'))).toBe(false);
    expect((await world.cli(['init', 'mono/infra/fw', '--example'])).code).toBe(0);
    expect((await world.cli(['init', 'mono', '--example', '--forge', 'github'])).code).toBe(0);
  });

  it('overwrites no file, and adds nothing to manifests that are there', async () => {
    world.write('fw/README.md', 'mine\n');
    world.write(
      'fw/policy/mine.yaml',
      'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: a}\nspec: {rules: []}\n',
    );
    const run = await world.cli(['init', 'fw']);
    expect([run.code, run.out]).toEqual([3, expect.stringContaining('2 to delete')]);
    expect(world.read('fw/README.md')).toBe('mine\n');
    expect(readdirSync(join(world.folder, 'fw/policy'))).toEqual(['mine.yaml']);
    expect(world.simulator.rules()).toHaveLength(2);
  });

  it('a server that cannot be used: what the doctor says, and nothing is written', async () => {
    const run = await world.cli(['init', 'fw'], { env: { RECONCILE_TOKEN: 'wrong' } });
    expect([run.code, run.out]).toEqual([1, expect.stringContaining('Nothing was written.')]);
    expect(existsSync(join(world.folder, 'fw'))).toBe(false);
  });

  it('a file where the folder should be is a sentence', async () => {
    world.write('taken', 'a file\n');
    for (const argv of [
      ['init', 'taken'],
      ['init', '--example', 'taken/below'],
    ])
      expect(await world.cli(argv)).toMatchObject({
        code: 1,
        err: expect.stringMatching(/^error \[output\] [\s\S]*a file stands/m),
      });
    expect(world.read('taken')).toBe('a file\n');
  });

  it('--example needs no server and no token', async () => {
    const env = { RECONCILE_BASE_URL: '', RECONCILE_TOKEN: '' };
    const run = await world.cli(['init', '--example', '--forge', 'gitlab'], { env });
    expect([run.code, run.err, run.out]).toEqual([0, '', expect.stringContaining('policy: 2 rules; no problems.')]);
    expect(parse(world.read('.gitlab-ci.yml')).variables).toMatchObject({
      RECONCILE_PATH: 'policy',
      RECONCILE_CONFIG: 'settings.yaml',
    });
    expect(world.simulator.requests().filter(({ method }) => method === 'GET')).toEqual([]);
  });
});
