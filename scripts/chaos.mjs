// Ten minutes of random faults in API, Git, files and process; afterwards everything must be in order.
// npm run chaos [-- --minutes N --seed N]
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname;
// Below the repository, so that packages are found, and not in node_modules, which may be a link to elsewhere.
mkdirSync(path.join(root, 'build'), { recursive: true });
const folder = mkdtempSync(path.join(root, 'build', 'chaos-'));
const outfile = path.join(folder, 'chaos.mjs');
try {
  await build({
    absWorkingDir: root,
    entryPoints: ['./test/controller/support/chaos/main.ts'],
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
