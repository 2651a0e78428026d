import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { rule, startWorld, token, type World } from '../cli/harness.ts';
import { ensureBuilt } from '../controller/support/sidecar.ts';
import { runAction, runTemplate } from '../ship/review-steps.ts';

const web = rule('web', 'action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443');
const db = rule('db', 'action: accept, destination: 10.2.0.5, port_type: tcp, port_range: 5432');

let world: World;
let clone: string;
let canary: string;
let trap: string;

beforeAll(ensureBuilt);
beforeEach(async () => {
  world = await startWorld();
  clone = join(world.folder, 'clone');
  canary = join(world.folder, 'canary');
  trap = world.write('trap.sh', `#!/bin/sh\nenv > ${canary}\nexit 1\n`);
  chmodSync(trap, 0o755);
});
afterEach(() => world.close());

function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', '-c', 'gc.auto=0', ...args], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}

/** A clone as CI has it: `origin/main` holds the rule `web`; the checked-out branch adds `db`. */
function makeClone(): void {
  mkdirSync(join(clone, 'policy'), { recursive: true });
  git(clone, 'init', '-q', '-b', 'feature');
  world.write('clone/policy/rules.yaml', web);
  git(clone, 'add', '-A');
  git(clone, 'commit', '-q', '-m', 'base');
  git(clone, 'update-ref', 'refs/remotes/origin/main', 'HEAD');
  world.write('clone/policy/rules.yaml', web + db);
  git(clone, 'commit', '-q', '-a', '-m', 'Open the database');
}

/** A folder that git takes for a bare repository, with nothing in it that a commit could not hold. */
function plantBareRepository(folder: string, config: string): void {
  mkdirSync(join(folder, 'objects/info'), { recursive: true });
  mkdirSync(join(folder, 'refs/heads'), { recursive: true });
  for (const name of ['objects/info/keep', 'refs/heads/keep']) writeFileSync(join(folder, name), '');
  writeFileSync(join(folder, 'HEAD'), 'ref: refs/heads/main\n');
  writeFileSync(join(folder, 'config'), config);
}

const promisor = (): string => `[core]
  repositoryformatversion = 1
  bare = true
[extensions]
  partialClone = origin
[remote "origin"]
  promisor = true
  url = ext::sh ${trap}
[protocol "ext"]
  allow = always
`;

const secrets = { RECONCILE_SECRET_IDP: 'canary-secret', GITHUB_TOKEN: 'canary-forge', RECONCILE_TOKEN: token };
/** Of a CI job, and for no child of ours. */
const settings = { GIT_EXTERNAL_DIFF: 'canary-diff', NODE_OPTIONS: '--title=canary-options' };

async function reviewOnGithub(variables: Readonly<Record<string, string>> = {}): Promise<string> {
  const event = { pull_request: { number: 7, head: { repo: { full_name: 'team/policy' } } } };
  const env = {
    ...secrets,
    ...settings,
    GITHUB_EVENT_PATH: world.write('event.json', JSON.stringify(event)),
    GITHUB_REPOSITORY: 'team/policy',
    GITHUB_HEAD_REF: 'feature',
    GITHUB_BASE_REF: 'main',
    GITHUB_STEP_SUMMARY: world.write('summary.md', ''),
    INPUT_PATH: 'policy',
    INPUT_BASE_URL: world.simulator.url,
    INPUT_TOKEN: token,
    INPUT_COMMENT: 'false',
    ...variables,
  };
  return (await runAction(env, clone)).output;
}

async function reviewOnGitlab(variables: Readonly<Record<string, string>> = {}): Promise<string> {
  const env = {
    ...secrets,
    ...settings,
    CI_MERGE_REQUEST_IID: '3',
    CI_MERGE_REQUEST_SOURCE_BRANCH_NAME: 'feature',
    CI_MERGE_REQUEST_DIFF_BASE_SHA: git(clone, 'rev-parse', 'origin/main'),
    RECONCILE_BASE_URL: world.simulator.url,
    RECONCILE_PATH: 'policy',
    ...variables,
  };
  return (await runTemplate(env, clone)).output;
}

describe('a bare repository among the manifests of a pull request', () => {
  it('threat 31: runs no code in the job of the Action', async () => {
    makeClone();
    plantBareRepository(join(clone, 'policy'), promisor());
    const output = await reviewOnGithub();
    expect(existsSync(canary), output).toBe(false);
    expect(world.read('summary.md')).toContain('This revision: 1 change.');
  });

  it('threat 31: runs no code in the job of the GitLab template (long)', async () => {
    makeClone();
    plantBareRepository(join(clone, 'policy'), promisor());
    const output = await reviewOnGitlab();
    expect(existsSync(canary), output).toBe(false);
  });

  it('threat 31: runs no code under --base', async () => {
    makeClone();
    plantBareRepository(join(clone, 'policy'), promisor());
    const run = await world.cli(['--plan', '--base', 'origin/main', '--output', 'markdown', 'clone/policy']);
    expect(existsSync(canary), run.err).toBe(false);
    expect(run.out).toContain('This revision: 1 change.');
  });

  it.each([
    ['diff', ['diff', 'origin/main..HEAD', 'clone/policy']],
    ['blame', ['blame', 'clone/policy', '--destination', '10.2.0.5', '--protocol', 'tcp', '--port', '5432']],
    ['log', ['log', 'clone/policy']],
  ])('threat 31: runs no code under %s, and tells no history of its own', async (_, argv) => {
    makeClone();
    const plain = await world.cli(argv);
    plantBareRepository(join(clone, 'policy'), promisor());
    writeFileSync(join(clone, '.git/config'), `${world.read('clone/.git/config')}[core]\n  fsmonitor = ${trap}\n`);
    const run = await world.cli(argv);
    expect(existsSync(canary), run.err).toBe(false);
    expect(run).toMatchObject({ code: 0, out: plain.out, err: '' });
    const bare = join(world.folder, 'bare');
    plantBareRepository(bare, promisor());
    const alone = await world.cli(argv.map((word) => (word === 'clone/policy' ? 'bare' : word)));
    expect([alone.code, alone.err]).toEqual([1, expect.stringContaining('name a work tree')]);
    expect(existsSync(canary)).toBe(false);
  });

  it('threat 32: does not forge the headline of the review', async () => {
    makeClone();
    // In the planted repository `origin/main` holds what the pull request adds: it would seem to change nothing.
    const forged = join(world.folder, 'forged');
    cpSync(join(clone, 'policy'), forged, { recursive: true });
    git(forged, 'init', '-q', '-b', 'main');
    git(forged, 'add', '-A');
    git(forged, 'commit', '-q', '-m', 'forged');
    git(forged, 'update-ref', 'refs/remotes/origin/main', 'HEAD');
    cpSync(join(forged, '.git'), join(clone, 'policy'), { recursive: true });
    await reviewOnGithub();
    expect(world.read('summary.md')).toContain('This revision: 1 change.');
  });
});

describe('the two steps of a review', () => {
  /** A git that notes what it was given before it does its work. */
  function watchGit(): string {
    const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
    mkdirSync(join(world.folder, 'bin'));
    const spy = world.write(
      'bin/git',
      `#!/bin/sh\n{ env; cat /proc/$PPID/environ; } >> ${canary}\nexec ${real} "$@"\n`,
    );
    chmodSync(spy, 0o755);
    return `${join(world.folder, 'bin')}:${process.env['PATH'] ?? ''}`;
  }

  it.each([
    ['the Action', '', reviewOnGithub],
    ['the GitLab template', ' (long)', reviewOnGitlab],
  ])(
    'threat 31: git runs in %s in a process without any secret, and whose parent has none%s',
    async (_, _long, review) => {
      makeClone();
      const output = await review({ PATH: watchGit() });
      const seen = world.read('canary');
      expect(seen, output).toContain('GIT_ALLOW_PROTOCOL=none');
      for (const other of [token, 'canary-secret', 'canary-forge', ...Object.values(settings)])
        expect(seen).not.toContain(other);
    },
  );

  it.each([
    ['a plan', ['--plan', '--base', 'base', '--output', 'json']],
    ['an apply', ['--yes', '--base', 'base', '--output', 'json']],
  ])('threat 31: %s starts no git where RECONCILE_REVISION is set, and names that revision', async (_, argv) => {
    makeClone();
    world.write('base/rules.yaml', web);
    mkdirSync(join(world.folder, 'bin'));
    cpSync(trap, join(world.folder, 'bin/git'));
    const env = { PATH: join(world.folder, 'bin'), RECONCILE_REVISION: '0123abc (feature)' };
    const run = await world.cli([...argv, 'clone/policy'], { env });
    expect([run.code, run.err]).toEqual([0, '']);
    expect(run.json()).toMatchObject({ revision: '0123abc (feature)' });
    const refused = await world.cli(['--plan', '--base', 'origin/main', 'clone/policy'], { env });
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('write the base into a folder first')]);
    expect(existsSync(canary)).toBe(false);
  });
});

describe('the configuration of the repository that --base reads', () => {
  const plan = (path: string): ReturnType<World['cli']> =>
    world.cli(['--plan', '--base', 'origin/main', '--output', 'markdown', path]);

  it.each([
    ['a file system monitor', (): string => `[core]\n  fsmonitor = ${trap}\n`],
    ['a folder of hooks', (): string => `[core]\n  hooksPath = ${join(world.folder, 'hooks')}\n`],
    ['a pager', (): string => `[core]\n  pager = ${trap}\n[pager]\n  rev-parse = ${trap}\n  cat-file = ${trap}\n`],
    ['an external diff', (): string => `[diff]\n  external = ${trap}\n[diff "x"]\n  textconv = ${trap}\n`],
    ['a gpg program', (): string => `[gpg]\n  program = ${trap}\n[log]\n  showSignature = true\n`],
    ['an ssh command', (): string => `[core]\n  sshCommand = ${trap}\n  gitProxy = ${trap}\n  askPass = ${trap}\n`],
    ['a credential helper', (): string => `[credential]\n  helper = !${trap}\n`],
    ['an alias', (): string => `[alias]\n  rev-parse = !${trap}\n  cat-file = !${trap}\n  ls-tree = !${trap}\n`],
    ['a command for alternates', (): string => `[core]\n  alternateRefsCommand = ${trap}\n`],
    [
      'an included file',
      (): string => `[include]\n  path = ${world.write('more', `[core]\n  fsmonitor = ${trap}\n`)}\n`,
    ],
  ])('threat 33: %s is not run', async (_, config) => {
    makeClone();
    mkdirSync(join(world.folder, 'hooks'));
    for (const name of ['post-index-change', 'reference-transaction', 'pre-auto-gc']) {
      cpSync(trap, join(world.folder, 'hooks', name));
    }
    writeFileSync(join(clone, '.git/info/attributes'), '* diff=x filter=x\n');
    writeFileSync(join(clone, '.git/config'), `${world.read('clone/.git/config')}${config()}`);
    const run = await plan('clone/policy');
    expect([run.code, run.out]).toEqual([0, expect.stringContaining('This revision: 1 change.')]);
    expect(existsSync(canary)).toBe(false);
  });

  it('threat 33: a remote that promises the missing files is not asked', async () => {
    makeClone();
    const blob = git(clone, 'rev-parse', 'origin/main:policy/rules.yaml');
    rmSync(join(clone, '.git/objects', blob.slice(0, 2), blob.slice(2)));
    writeFileSync(join(clone, '.git/config'), promisor().replace('bare = true', 'bare = false'));
    const run = await plan('clone/policy');
    expect(existsSync(canary), run.err).toBe(false);
    expect([run.code, run.err]).toEqual([
      1,
      expect.stringMatching(/cannot be read from the repository[\s\S]*partial clone/),
    ]);
  });

  it('threat 33: a configuration of the user or of the machine has no effect', async () => {
    makeClone();
    world.write(
      '.gitconfig',
      `[core]\n  fsmonitor = ${trap}\n[protocol "ext"]\n  allow = always\n[alias]\n  x = !${trap}\n`,
    );
    const env = {
      HOME: world.folder,
      XDG_CONFIG_HOME: world.folder,
      GIT_CONFIG_SYSTEM: join(world.folder, '.gitconfig'),
    };
    const hostile = {
      GIT_DIR: '/nonexistent',
      GIT_SSH_COMMAND: trap,
      GIT_EXTERNAL_DIFF: trap,
      GIT_EXEC_PATH: world.folder,
    };
    const argv = ['--plan', '--base', 'origin/main', '--output', 'markdown', 'clone/policy'];
    const run = await world.cli(argv, { env: { PATH: process.env['PATH'] ?? '', ...env, ...hostile } });
    expect([run.code, run.out]).toEqual([0, expect.stringContaining('This revision: 1 change.')]);
    expect(existsSync(canary)).toBe(false);
  });
});

describe('the repository that --base finds', () => {
  const headline = async (path: string, base = 'origin/main'): Promise<string> => {
    const run = await world.cli(['--plan', '--base', base, '--output', 'markdown', path]);
    return /This revision: \d+ changes?/.exec(run.out)?.[0] ?? run.err;
  };

  it('is that of PATH at the root of the work tree', async () => {
    clone = join(world.folder, 'root');
    mkdirSync(clone);
    git(clone, 'init', '-q');
    world.write('root/rules.yaml', web);
    git(clone, 'add', '-A');
    git(clone, 'commit', '-q', '-m', 'base');
    world.write('root/rules.yaml', web + db);
    expect(await headline('root', 'HEAD')).toBe('This revision: 1 change');
  });

  it('is that of a linked worktree', async () => {
    makeClone();
    git(clone, 'worktree', 'add', '-q', '-b', 'other', '../linked');
    expect(await headline('linked/policy')).toBe('This revision: 1 change');
  });

  it('is that of PATH through a link', async () => {
    makeClone();
    execFileSync('ln', ['-s', join(clone, 'policy'), join(world.folder, 'short')]);
    expect(await headline('short')).toBe('This revision: 1 change');
  });

  it.skipIf(process.getuid?.() !== 0)('may belong to another user, as in a container', async () => {
    makeClone();
    for (const name of ['', ...readdirSync(clone, { recursive: true, encoding: 'utf8' })]) {
      chownSync(join(clone, name), 12_345, 12_345);
    }
    expect(await headline('clone/policy')).toBe('This revision: 1 change');
  });

  it('is never a bare one', async () => {
    makeClone();
    git(world.folder, 'clone', '-q', '--bare', 'clone', 'bare.git');
    world.write('bare.git/policy/rules.yaml', web);
    expect(await headline('bare.git/policy')).toMatch(/is not in a Git work tree/);
  });
});
