import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiToken, ensureBuilt, makeWorld, rules } from '../controller/support/sidecar.ts';
import { runAction } from './review-steps.ts';

const root = path.resolve(import.meta.dirname, '../..');

const isFolder = (name: string): boolean => !name.includes('.');

/** npm without a registry: whatever it wanted from one would fail. */
function npm(args: readonly string[], cwd: string): string {
  const argv = [...args, '--offline', '--registry', 'http://127.0.0.1:9/', '--no-audit', '--no-fund'];
  return execFileSync('npm', argv, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** What docs/how-to/install.md shows of npm. */
const added = /^\s*added 1 package in /m;

describe('a release', () => {
  it('installs as the page shows it', () => {
    const page = readFileSync(path.join(root, 'docs/how-to/install.md'), 'utf8');
    expect(page.match(new RegExp(added.source, 'gm'))).toHaveLength(2);
  });

  let folder = '';
  let tree = '';
  let tarball = '';
  let consumer = '';
  let installed = '';
  let files: readonly string[] = [];

  beforeAll(() => {
    ensureBuilt();
    folder = mkdtempSync(path.join(tmpdir(), 'package-'));
    execFileSync(process.execPath, ['scripts/types.mjs'], { cwd: root });
    tree = path.join(folder, 'tree');
    const env = { ...process.env, RECONCILE_REPOSITORY: 'https://git.example.com/team/reconcile' };
    execFileSync(process.execPath, ['scripts/release-tree.mjs', tree], { cwd: root, env });
    npm(['pack', '--silent', '--pack-destination', folder], tree);
    tarball = path.join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '');
    files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' })
      .split('\n')
      .filter((name) => name !== '')
      .map((name) => name.replace(/^package\//, ''));
    consumer = path.join(folder, 'consumer');
    installed = path.join(consumer, 'node_modules/firezone-reconcile');
    mkdirSync(consumer);
    writeFileSync(path.join(consumer, 'package.json'), '{"type": "module"}');
    expect(npm(['install', tarball], consumer)).toMatch(added);
  }, 120_000);

  afterAll(() => rmSync(folder, { recursive: true }));

  it('holds the bundle, its declarations, the schemas and the papers, and no source or test', () => {
    expect(files).toEqual(
      expect.arrayContaining([
        'package.json',
        'README.md',
        'LICENSE',
        'THIRD-PARTY.md',
        'sbom.spdx.json',
        'docs/start/getting-started.md',
        'dist/reconcile.js',
        'dist/index.mjs',
        'dist/types/index.d.ts',
        'schemas/Rule.json',
      ]),
    );
    expect(files.filter((name) => /^(src|test|scripts|bench)\/|\.map$/.test(name))).toEqual([]);
    expect(files.filter((name) => /\.ts$/.test(name) && !name.endsWith('.d.ts'))).toEqual([]);
  });

  it('is one package: no dependency, no script, and nothing of what it holds runs on install', () => {
    expect(readdirSync(path.join(consumer, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual([
      'firezone-reconcile',
    ]);
    const manifest = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8')) as Record<string, unknown>;
    expect(Object.keys(manifest).filter((name) => /dependencies|scripts/i.test(name))).toEqual([]);
    expect(manifest['homepage']).toBe('https://git.example.com/team/reconcile#readme');
    const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version?: string; hasInstallScript?: boolean }>;
    };
    const parts = readFileSync(path.join(installed, 'THIRD-PARTY.md'), 'utf8');
    const names = [...parts.matchAll(/^## (\S+) \S+ \(\S+\)$/gm)].map(([, name = '']) => name);
    expect(names).toContain('yaml');
    expect(names.filter((name) => lock.packages[`node_modules/${name}`]?.hasInstallScript)).toEqual([]);
  });

  it('runs every command (long)', () => {
    const bin = path.join(consumer, 'node_modules/.bin/reconcile');
    const run = (...args: string[]) => spawnSync(bin, args, { cwd: consumer, encoding: 'utf8' });
    const commands = [...run('--help').stdout.matchAll(/^ {2}([a-z]+)(?: \S+)* {2,}\S/gm)].map(([, name = '']) => name);
    expect(commands.length).toBeGreaterThan(10);
    for (const name of commands.filter((command) => command !== 'help'))
      expect([name, run(name, '--help').status]).toEqual([name, 0]);
    const example = path.join(
      installed,
      'examples',
      readdirSync(path.join(installed, 'examples')).find(isFolder) ?? '',
    );
    expect(run('validate', example)).toMatchObject({ status: 0, stderr: '' });
  });

  it('has no link to a file that is not there', () => {
    const pages = files.filter((name) => name.endsWith('.md') && name !== 'THIRD-PARTY.md');
    const broken = pages.flatMap((page) => {
      const text = readFileSync(path.join(installed, page), 'utf8').replace(/```[\s\S]*?```/g, '');
      const links = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, link = '']) => link);
      const missing = links.filter(
        (link) => !/^[a-z]+:/.test(link) && !existsSync(path.join(installed, page, '..', link)),
      );
      return missing.map((link) => `${page}: ${link}`);
    });
    expect(broken).toEqual([]);
  });

  it('installs from a tag of a Git repository, and runs with npx from there, without a build (long)', () => {
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: tree });
    git('init', '--quiet');
    git('add', '--all');
    git('commit', '--quiet', '--message', 'release');
    git('tag', 'v1');
    const other = path.join(folder, 'from-git');
    mkdirSync(other);
    writeFileSync(path.join(other, 'package.json'), '{}');
    const from = `git+file://${tree}#v1`;
    expect(npm(['install', from], other)).toMatch(added);
    expect(readdirSync(path.join(other, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual([
      'firezone-reconcile',
    ]);
    const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string };
    const bin = path.join(other, 'node_modules/.bin/reconcile');
    expect(execFileSync(bin, ['--version'], { encoding: 'utf8' }).trim()).toBe(version);
    const argv = ['--yes', from, '--version'];
    // Where npx itself runs the tests, what it was told (`npm_config_package`) would hold for this one too.
    const ours = Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'));
    const npx = execFileSync('npx', argv, {
      cwd: folder,
      encoding: 'utf8',
      env: { ...Object.fromEntries(ours), npm_config_offline: 'true' },
    });
    expect(npx.trim()).toBe(version);
  }, 60_000);

  it('is an Action that plans as it stands: nothing is built, and no package is fetched', async () => {
    const world = await makeWorld();
    try {
      writeFileSync(path.join(world.manifests, 'rules.yaml'), rules('10.1.0.0/16'));
      const [event, outputs] = ['event.json', 'outputs'].map((name) => path.join(folder, name));
      writeFileSync(event ?? '', JSON.stringify({ repository: { default_branch: 'main' } }));
      const env = { GITHUB_EVENT_PATH: event ?? '', GITHUB_REPOSITORY: 'team/policy', GITHUB_REF: 'refs/heads/topic' };
      const inputs = { INPUT_PATH: world.manifests, INPUT_BASE_URL: world.sim.url, INPUT_TOKEN: apiToken };
      const { code, output } = await runAction({ ...env, ...inputs, GITHUB_OUTPUT: outputs ?? '' }, folder, {
        home: tree,
      });
      expect([code, output]).toEqual([0, expect.stringContaining('1 to create')]);
    } finally {
      await world.close();
    }
  });

  it('is found right by publint and by attw (long)', async () => {
    const { messages, pkg } = await publint({ pkgDir: installed, pack: false, strict: true });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
    const attw = path.join(root, 'node_modules/.bin/attw');
    const { status, stdout } = spawnSync(attw, [tarball, '--profile', 'esm-only'], { encoding: 'utf8' });
    expect([status, stdout]).toEqual([0, expect.stringContaining('firezone-reconcile')]);
  }, 60_000);

  it('plans for a TypeScript program that imports it, alone, without any dependency (long)', () => {
    symlinkSync(path.join(root, 'node_modules/typescript'), path.join(consumer, 'node_modules/typescript'));
    writeFileSync(path.join(consumer, 'main.ts'), exampleOf('docs/library.md'));
    const strict = [
      '--strict',
      '--module',
      'nodenext',
      '--target',
      'es2023',
      '--lib',
      'es2023,dom',
      '--skipLibCheck',
      'false',
    ];
    execFileSync(process.execPath, [path.join(root, 'node_modules/typescript/bin/tsc'), ...strict, 'main.ts'], {
      cwd: consumer,
    });
    // Nor does its use ask for the types of a browser or of Node.
    writeFileSync(path.join(consumer, 'bare.ts'), "export { apply, plan } from 'firezone-reconcile';\n");
    const bare = strict.map((one) => (one === 'es2023,dom' ? 'es2022' : one));
    execFileSync(process.execPath, [path.join(root, 'node_modules/typescript/bin/tsc'), ...bare, 'bare.ts'], {
      cwd: consumer,
    });
    const output = execFileSync(process.execPath, ['main.js'], { cwd: consumer, encoding: 'utf8' });
    expect(output).toContain('1 to create, 0 unchanged. 1 request.');
  }, 60_000);

  it('lists its parts for those who must know them (long)', () => {
    const text = execFileSync('npm', ['run', '--silent', 'sbom'], { cwd: root, encoding: 'utf8' });
    const sbom = JSON.parse(text) as {
      spdxVersion: string;
      packages: readonly { name: string; versionInfo: string }[];
    };
    expect(sbom.spdxVersion).toBe('SPDX-2.3');
    const { dependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    const found = new Map(sbom.packages.map(({ name, versionInfo }) => [name, versionInfo]));
    for (const [name, version] of Object.entries(dependencies)) expect(found.get(name)).toBe(version);
  }, 60_000);
});

/** The first TypeScript example of a page. */
function exampleOf(page: string): string {
  const example = /```ts\n([\s\S]*?)```/.exec(readFileSync(path.join(root, page), 'utf8'))?.[1];
  if (example === undefined) throw new Error(`${page} holds no example`);
  return example;
}
