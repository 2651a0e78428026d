import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureBuilt } from '../controller/support/sidecar.ts';

const root = path.resolve(import.meta.dirname, '../..');

describe('the npm package', () => {
  let folder = '';
  let tarball = '';
  let consumer = '';
  let installed = '';
  let files: readonly string[] = [];

  beforeAll(() => {
    ensureBuilt();
    folder = mkdtempSync(path.join(tmpdir(), 'package-'));
    execFileSync(process.execPath, ['scripts/types.mjs'], { cwd: root });
    execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], { cwd: root });
    tarball = path.join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '');
    files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' })
      .split('\n')
      .filter((name) => name !== '')
      .map((name) => name.replace(/^package\//, ''));
    consumer = path.join(folder, 'consumer');
    installed = path.join(consumer, 'node_modules/firezone-reconcile');
    mkdirSync(installed, { recursive: true });
    execFileSync('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  }, 120_000);

  afterAll(() => rmSync(folder, { recursive: true }));

  it('holds the bundle, its declarations, the schemas and the papers, and no source or test', () => {
    expect(files).toEqual(
      expect.arrayContaining([
        'package.json',
        'README.md',
        'LICENSE',
        'CHANGELOG.md',
        'SECURITY.md',
        'dist/reconcile.js',
        'dist/index.js',
        'dist/types/index.d.ts',
        'schemas/Rule.json',
      ]),
    );
    const others = files.filter(
      (name) => !/^(dist\/|schemas\/|(README|CHANGELOG|SECURITY)\.md$|LICENSE$|package\.json$)/.test(name),
    );
    expect(others).toEqual([]);
    expect(files.filter((name) => /\.ts$/.test(name) && !name.endsWith('.d.ts'))).toEqual([]);
  });

  it('is found right by publint and by attw', async () => {
    const { messages, pkg } = await publint({ pkgDir: installed, pack: false, strict: true });
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
    const attw = path.join(root, 'node_modules/.bin/attw');
    const { status, stdout } = spawnSync(attw, [tarball, '--profile', 'esm-only'], { encoding: 'utf8' });
    expect([status, stdout]).toEqual([0, expect.stringContaining('firezone-reconcile')]);
  }, 60_000);

  it('plans for a TypeScript program that imports it, alone, without any dependency', () => {
    symlinkSync(path.join(root, 'node_modules/typescript'), path.join(consumer, 'node_modules/typescript'));
    writeFileSync(path.join(consumer, 'package.json'), '{"type": "module"}');
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
    const output = execFileSync(process.execPath, ['main.js'], { cwd: consumer, encoding: 'utf8' });
    expect(output).toContain('1 to create, 0 unchanged. 1 request.');
  }, 60_000);

  it('lists its parts for those who must know them', () => {
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
