import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import module from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { type CompileCacheInput, type FolderLook, findCompileCache } from '../../src/cli/compile-cache.ts';

const me = 1000;
const mine: FolderLook = { isDirectory: () => true, uid: me, mode: 0o40700 };
const roots: FolderLook = { isDirectory: () => true, uid: 0, mode: 0o40755 };
const shared: FolderLook = { isDirectory: () => true, uid: 0, mode: 0o41777 };
const usual = { '/': roots, '/home': roots, '/home/me': mine, '/home/me/.cache': mine };

/** Where the cache goes, with these folders. */
function cacheIn(
  folders: Readonly<Record<string, FolderLook>>,
  more: Partial<Pick<CompileCacheInput, 'env' | 'args' | 'home'>> = {},
): string | null {
  const look = (folder: string): FolderLook | undefined => folders[folder];
  return findCompileCache({ env: {}, args: ['plan', 'm'], home: '/home/me', uid: me, look, ...more });
}

describe('what V8 compiled is kept', () => {
  test('below the cache folder of the user, or where XDG_CACHE_HOME says', () => {
    expect(cacheIn(usual)).toBe('/home/me/.cache/firezone-reconcile');
    expect(cacheIn({ '/': roots, '/home': roots, '/home/me': mine })).toBe('/home/me/.cache/firezone-reconcile');
    expect(cacheIn(usual, { env: { XDG_CACHE_HOME: '/home/me/c' } })).toBe('/home/me/c/firezone-reconcile');
    expect(cacheIn({ ...usual, '/home/me/.cache/firezone-reconcile': mine })).not.toBeNull();
  });

  test('not in CI, not by a sidecar, not without a home, and not below a relative folder', () => {
    expect(cacheIn(usual, { env: { CI: 'true' } })).toBeNull();
    expect(cacheIn(usual, { args: ['watch', 'm'] })).toBeNull();
    expect(cacheIn(usual, { args: ['--watch', 'm'] })).toBeNull();
    expect(cacheIn(usual, { home: '' })).toBeNull();
    expect(cacheIn(usual, { env: { XDG_CACHE_HOME: 'c' } })).toBeNull();
  });

  test.each<[string, Readonly<Record<string, FolderLook>>]>([
    ['of somebody else', { '/home/me/.cache/firezone-reconcile': { ...mine, uid: 1001 } }],
    ['of root', { '/home/me/.cache/firezone-reconcile': { ...mine, uid: 0 } }],
    ['that others can read', { '/home/me/.cache/firezone-reconcile': { ...mine, mode: 0o40755 } }],
    ['that is a link', { '/home/me/.cache/firezone-reconcile': { ...mine, isDirectory: () => false } }],
    ['below a link', { '/home/me/.cache': { ...mine, isDirectory: () => false } }],
    ['below a folder of somebody else', { '/home/me/.cache': { ...mine, uid: 1001 } }],
    ['below a folder that a group can write', { '/home/me': { ...mine, mode: 0o40770 } }],
  ])('threat 47: not in a planted folder: one %s', (_, planted) => {
    expect(cacheIn({ ...usual, ...planted })).toBeNull();
  });

  test('never below a shared temporary folder, though only owners can remove what is there', () => {
    const folders = { '/': roots, '/tmp': shared, '/tmp/mine': mine };
    expect(cacheIn(folders, { env: { XDG_CACHE_HOME: '/tmp/mine' } })).toBeNull();
    expect(cacheIn(folders, { home: '/tmp' })).toBeNull();
  });
});

/** Null in a Node that keeps nothing. */
const cachingNode = 'enableCompileCache' in module ? process.execPath : (process.env['RECONCILE_TEST_NODE'] ?? null);

describe.skipIf(cachingNode === null)('the built command, with a Node from 22.1 on', () => {
  let base = '';
  afterEach(() => rmSync(base, { recursive: true, force: true }));

  const run = (): number | null =>
    spawnSync(cachingNode ?? '', ['dist/reconcile.js', 'validate', '--help'], {
      env: { PATH: process.env['PATH'], HOME: homedir(), XDG_CACHE_HOME: base },
    }).status;

  test('keeps it for its user alone, and puts nothing into a folder that others can write', () => {
    base = mkdtempSync(path.join(homedir(), '.reconcile-test-'));
    const folder = path.join(base, 'firezone-reconcile');
    expect(run()).toBe(0);
    expect(readdirSync(folder)).toHaveLength(1);
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    chmodSync(folder, 0o777);
    expect(run()).toBe(0);
    expect(readdirSync(folder)).toEqual([]);
  });
});
