import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureBuilt } from '../controller/support/sidecar.ts';

/** Files and bytes of the bundle are counted, not time: they are what a start takes, on any machine. */
describe('what a start loads', () => {
  const main = new URL('../../dist/reconcile.js', import.meta.url).pathname;
  let folder: string;

  beforeAll(() => {
    ensureBuilt();
    folder = mkdtempSync(path.join(tmpdir(), 'start-up-'));
    const report =
      "process.on('exit', () => process.stderr.write('\\nloaded ' + JSON.stringify(Object.keys(require.cache))))";
    writeFileSync(path.join(folder, 'report.cjs'), report);
    writeFileSync(
      path.join(folder, 'set.yaml'),
      'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: web}\nspec: {rules: []}\n',
    );
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function load(...args: string[]): { readonly files: number; readonly kb: number } {
    const run = spawnSync(process.execPath, ['--require', path.join(folder, 'report.cjs'), main, ...args], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] },
    });
    const loaded = JSON.parse(run.stderr.split('\nloaded ')[1] ?? '[]') as string[];
    const files = loaded.filter((file) => file.startsWith(path.dirname(main)));
    return { files: files.length, kb: files.reduce((sum, file) => sum + statSync(file).size, 0) / 1000 };
  }

  it.each([
    ['--help', 8, 150],
    ['validate', 30, 650],
    ['--plan', 45, 1_350],
  ])('of %s is at most %i files and %i kB', (word, files, kb) => {
    // Nothing listens there: all that a plan needs is loaded before it asks.
    const server = ['--base-url', 'http://127.0.0.1:9', '--token-file', path.join(folder, 'report.cjs')];
    const loaded = load(word, ...(word === '--help' ? [] : [folder]), ...(word === '--plan' ? server : []));
    expect(loaded.files).toBeGreaterThan(2);
    expect(loaded.files).toBeLessThanOrEqual(files);
    expect(loaded.kb).toBeLessThanOrEqual(kb);
  });
});
