// Ten minutes of random faults in API, Git, files and process; afterwards everything must be in order.
// npm run chaos [-- --minutes N --seed N]
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname;
const folder = mkdtempSync(path.join(root, 'node_modules', '.chaos-'));
const outfile = path.join(folder, 'chaos.mjs');
try {
  await build({
    absWorkingDir: root,
    entryPoints: ['./test/controller/support/chaos.ts'],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
    logLevel: 'warning',
  });
  process.exitCode =
    spawnSync(process.execPath, [outfile, ...process.argv.slice(2)], { stdio: 'inherit', cwd: root }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
