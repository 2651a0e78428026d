// Every figure of the benchmarks beside its limit: `npm run bench`, or `npm run bench -- WORD` for the names that hold WORD.
// Each file runs in a process of its own: its figures of memory are of nothing else.
import { spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname;
const [, , wanted = '', only] = process.argv;

if (only === undefined) {
  const files = readdirSync(`${root}bench`).filter((file) => file.endsWith('.ts') && !file.includes('world'));
  const ends = files.map((file) =>
    spawnSync(process.execPath, [fileURLToPath(import.meta.url), wanted, file], { stdio: 'inherit' }),
  );
  process.exitCode = ends.every(({ status }) => status === 0) ? 0 : 1;
} else {
  const missed = await measure(only);
  process.exitCode = missed === 0 ? 0 : 1;
}

/** Prints the wanted figures of one file, and returns how many miss their limit. */
async function measure(file) {
  const bundle = `${root}dist/bench-${file.replace('.ts', '.mjs')}`;
  await build({
    absWorkingDir: root,
    entryPoints: [`bench/${file}`],
    outfile: bundle,
    bundle: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
    logLevel: 'error',
  });
  const module = await import(bundle);
  let missed = 0;
  for (const bench of Object.values(module).filter(Array.isArray).flat()) {
    if (!bench.name.includes(wanted)) continue;
    const figure = await bench.measure();
    const limit = bench.limit === null ? '' : `  at most ${bench.limit} ${bench.unit}`;
    const late = bench.limit !== null && figure > bench.limit;
    if (late) missed++;
    const shown = bench.unit === 'ratio' || bench.unit === '×' ? figure.toFixed(2) : figure.toFixed(1);
    console.log(`${late ? 'MISSED' : 'ok    '}  ${bench.name}: ${shown} ${bench.unit}${limit}`);
  }
  rmSync(bundle, { force: true });
  return missed;
}
