// Every figure of the benchmarks beside its floor and its limit: `npm run bench`, or `npm run bench -- WORD` for the names that hold WORD.
// Each file runs in a process of its own: its figures of memory are of nothing else. `node scripts/speed-page.mjs` makes a page of the last run.
import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname;
const results = `${root}build/bench.jsonl`;
const [, , wanted = '', only] = process.argv;

if (only === undefined) {
  mkdirSync(`${root}build`, { recursive: true });
  rmSync(results, { force: true });
  const files = readdirSync(`${root}bench`).filter((file) => file.endsWith('.ts') && !/world|figure/.test(file));
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
    const line = describe(bench, await bench.measure());
    if (line.late) missed++;
    console.log(`${line.late ? 'MISSED' : 'ok    '}  ${bench.name}: ${line.text}`);
    appendFileSync(results, `${JSON.stringify({ name: bench.name, ...line })}\n`);
  }
  rmSync(bundle, { force: true });
  return missed;
}

/** The line as text, and in parts for the page. */
function describe({ unit, counts, limit }, { ours, floor }) {
  const ratio = ours / floor;
  const counted = { ours, over: ours - floor, ratio }[counts];
  const show = (value, as = unit) => (as === '×' ? `${value.toFixed(2)} ×` : `${value.toFixed(1)} ${as}`);
  const most = { ours: () => show(limit), over: () => `${show(limit)} over the floor`, ratio: () => show(limit, '×') };
  const parts = {
    late: limit !== null && !(counted <= limit),
    ours: show(ours),
    floor: show(floor),
    ratio: show(ratio, '×'),
    limit: limit === null ? '' : most[counts](),
  };
  const atMost = limit === null ? '' : `, at most ${parts.limit}`;
  return { ...parts, text: `ours ${parts.ours}, floor ${parts.floor}, ratio ${parts.ratio}${atMost}` };
}
