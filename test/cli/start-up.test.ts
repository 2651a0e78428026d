import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startSimulator } from '../../src/simulator/server.ts';
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

  it('has V8 compile the HTTP parser once for a plan, and leaves the flags as they were', async () => {
    const hook = path.join(folder, 'hook.cjs');
    writeFileSync(
      hook,
      `const v8 = require('node:v8');
      const seen = [];
      const { setFlagsFromString } = v8;
      v8.setFlagsFromString = (flag) => { seen.push(flag); setFlagsFromString(flag); };
      WebAssembly.Module = class extends WebAssembly.Module { constructor(bytes) { super(bytes); seen.push('parser'); } };
      process.on('exit', () => process.stderr.write('\\nseen ' + JSON.stringify(seen)));`,
    );
    const server = await startSimulator({ token: 'token' });
    writeFileSync(path.join(folder, 'token'), 'token\n');
    const asked = ['--base-url', server.url, '--token-file', path.join(folder, 'token')];
    const args = ['--require', hook, main, 'plan', folder, ...asked];
    const { stderr } = await promisify(execFile)(process.execPath, args, { env: { PATH: process.env['PATH'] } });
    await server.close();
    const seen = JSON.parse(stderr.split('\nseen ')[1] ?? '[]') as string[];
    const usual = process.versions.v8.startsWith('11.') ? 1_800_000 : 13_000_000;
    expect(seen).toEqual(['--wasm-tiering-budget=200000000', 'parser', `--wasm-tiering-budget=${usual}`]);
  });

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
