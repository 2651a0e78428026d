import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended, startWorld, token } from '../cli/harness.ts';
import { ensureBuilt, rules } from '../controller/support/sidecar.ts';

const root = path.resolve(import.meta.dirname, '../..');
/** `npm run test:tools`: these take Go, Python and their package registries. */
const isAsked = process.env['RECONCILE_TEST_TOOLS'] === '1';

describe.skipIf(!isAsked)(`with the real tools${isAsked ? '' : ' (skipped: npm run test:tools)'}`, () => {
  let folder: string;

  beforeAll(() => {
    ensureBuilt();
    folder = mkdtempSync(path.join(tmpdir(), 'tools-'));
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('actionlint finds nothing in the workflows', () => {
    const workflows = readdirSync(path.join(root, '.github/workflows')).map((name) => `.github/workflows/${name}`);
    expect(workflows.length).toBeGreaterThan(1);
    const argv = ['run', 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.7'];
    const lint = (...files: readonly string[]) => spawnSync('go', [...argv, ...files], { cwd: root, encoding: 'utf8' });
    expect(lint(...workflows)).toMatchObject({ status: 0, stdout: '' });
    const init = ['dist/reconcile.js', 'init', path.join(folder, 'init'), '--example', '--forge', 'github'];
    execFileSync(process.execPath, init, { cwd: root });
    expect(lint(path.join(folder, 'init/.github/workflows/firezone.yml'))).toMatchObject({ status: 0, stdout: '' });
    const wrong = path.join(folder, 'wrong.yml');
    writeFileSync(wrong, 'on: push\njobs: {a: {steps: [{run: echo}]}}\n');
    expect(lint(wrong)).toMatchObject({ status: 1 });
  }, 300_000);

  it('pre-commit runs the hooks from a release tag: good manifests pass, bad ones do not', () => {
    const tree = path.join(folder, 'tree');
    execFileSync(process.execPath, ['scripts/types.mjs'], { cwd: root });
    execFileSync(process.execPath, ['scripts/release-tree.mjs', tree], { cwd: root });
    const commit = commitAll(tree);
    const policy = path.join(folder, 'policy');
    cpSync(path.join(root, 'examples/minimal'), policy, { recursive: true });
    const hooks = ['reconcile-validate', 'reconcile-fmt', 'reconcile-test'].map((id) => ({ id }));
    const config = { repos: [{ repo: `file://${tree}`, rev: commit, hooks }] };
    writeFileSync(path.join(policy, '.pre-commit-config.yaml'), JSON.stringify(config));
    commitAll(policy);
    const preCommit = installPreCommit(folder);
    const env = { ...process.env, PRE_COMMIT_HOME: path.join(folder, 'cache') };
    const run = () => spawnSync(preCommit, ['run', '--all-files', '--verbose'], { cwd: policy, env, encoding: 'utf8' });
    const passed = run();
    expect([passed.status, passed.stdout]).toEqual([0, expect.stringContaining('no problems')]);
    const shown =
      readFileSync(path.join(root, 'docs/how-to/install.md'), 'utf8').match(/^ +Firezone .*Passed$/gm) ?? [];
    expect(shown).toHaveLength(3);
    for (const line of shown) expect(passed.stdout).toContain(line.trim());
    writeFileSync(path.join(policy, 'bad.yaml'), rules('10.0.0.0/8').replace('accept', 'allow'));
    commitAll(policy);
    const failed = run();
    expect([failed.status, failed.stdout]).toEqual([1, expect.stringContaining('bad.yaml:')]);
  }, 300_000);
});

describe.skipIf(!isAsked)('with the real sops and age', () => {
  it('the how-to: an encrypted file serves one run by exec-env, and every run by secretsFrom', async () => {
    const world = await startWorld();
    try {
      const bin = path.join(world.folder, 'bin');
      const modules = ['github.com/getsops/sops/v3/cmd/sops@v3.9.4', 'filippo.io/age/cmd/age-keygen@v1.2.1'];
      for (const one of modules)
        execFileSync('go', ['install', one], { env: { ...process.env, GOBIN: bin }, stdio: 'ignore' });
      const recipient = execFileSync(path.join(bin, 'age-keygen'), ['-o', 'key.txt'], {
        cwd: world.folder,
        stdio: 'pipe',
      });
      expect(recipient.toString()).toBe('');
      const key = /public key: (age1\w+)/.exec(world.read('key.txt'))?.[1] ?? '';
      const launcher = `#!/bin/sh\nexec "${process.execPath}" "${root}/dist/reconcile.js" "$@"\n`;
      writeFileSync(path.join(bin, 'reconcile'), launcher, { mode: 0o755 });
      world.write('secrets.env', `RECONCILE_TOKEN=${token}\n`);
      world.write('policy/a.yaml', rules('10.0.0.0/8'));
      const env = {
        PATH: `${bin}:${process.env['PATH'] ?? ''}`,
        SOPS_AGE_RECIPIENTS: key,
        SOPS_AGE_KEY_FILE: path.join(world.folder, 'key.txt'),
        RECONCILE_BASE_URL: world.simulator.url,
      };
      const run = (program: string, args: readonly string[]) =>
        ended(spawn(path.join(bin, program), args, { cwd: world.folder, env }));
      const encrypted = await run('sops', [
        'encrypt',
        '--input-type',
        'dotenv',
        '--output-type',
        'dotenv',
        'secrets.env',
      ]);
      expect([encrypted.code, encrypted.out]).toEqual([0, expect.not.stringContaining(token)]);
      world.write('secrets.enc.env', encrypted.out);
      const once = await run('sops', ['exec-env', 'secrets.enc.env', 'reconcile plan policy']);
      expect([once.code, once.out]).toEqual([0, expect.stringContaining('1 to create')]);
      world.write('settings.yaml', 'secretsFrom: [sops, decrypt, secrets.enc.env]\n');
      const planned = await run('reconcile', ['plan', 'policy', '--config', 'settings.yaml']);
      expect([planned.code, planned.out]).toEqual([0, expect.stringContaining('1 to create')]);
    } finally {
      await world.close();
    }
  }, 900_000);
});

/** Makes a repository of the folder with one more commit; gives its id. */
function commitAll(cwd: string): string {
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd, encoding: 'utf8' });
  if (!existsSync(path.join(cwd, '.git'))) git('init', '--quiet');
  git('add', '--all');
  git('commit', '--quiet', '--message', 'a commit');
  return git('rev-parse', 'HEAD').trim();
}

/** pre-commit from PyPI, in an environment of its own. */
function installPreCommit(folder: string): string {
  const venv = path.join(folder, 'venv');
  mkdirSync(venv);
  execFileSync('python3', ['-m', 'venv', venv]);
  execFileSync(path.join(venv, 'bin/pip'), ['install', '--quiet', '--disable-pip-version-check', 'pre-commit==4.7.0']);
  return path.join(venv, 'bin/pre-commit');
}
