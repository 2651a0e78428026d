// Builds `reconcile` as one file that needs no Node: `npm run executable`, or `npm run executable -- NAME=NODE …` for other systems, where
// NODE is the node binary of that system and NAME is linux-arm64, darwin-arm64, win-x64 and so on. Writes to build/executable.
// Those of other systems are built, not run; macOS starts one only when it is signed (`codesign --sign - FILE`, on a Mac).
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { inject } from 'postject';
import { patientUndici, slimUndici } from './slim-undici.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = `${root}build/executable`;
const own = `${process.platform}-${process.arch}`;
const wanted = process.argv.slice(2).map((word) => word.split('='));
const targets = wanted.length === 0 ? [[own, process.execPath]] : wanted;
const entryUrl = "const __entry = require('node:url').pathToFileURL(process.execPath).href;";
const builtinRequire = "import { createRequire } from 'node:module'; const require = createRequire('file:///');";
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const worker = await bundle('src/adapters/manifest-worker.ts', 'esm', {});
writeFileSync(
  `${out}/main.cjs`,
  await bundle('src/main.ts', 'cjs', {
    __RECONCILE_VERSION__: JSON.stringify(version),
    __RECONCILE_WORKER__: JSON.stringify(worker),
    'import.meta.url': '__entry',
  }),
);
for (const [name, node] of targets) {
  if (node === undefined) throw new Error(`${name}: write NAME=PATH, with the path of that system's node binary`);
  const file = `${out}/reconcile-${name}${name.startsWith('win') ? '.exe' : ''}`;
  const config = { main: `${out}/main.cjs`, output: `${out}/blob`, disableExperimentalSEAWarning: true };
  // What V8 compiled is of use only to the very Node that compiled it.
  writeFileSync(`${out}/sea.json`, JSON.stringify({ ...config, useCodeCache: node === process.execPath }));
  execFileSync(process.execPath, ['--experimental-sea-config', `${out}/sea.json`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  copyFileSync(node, file);
  chmodSync(file, 0o755);
  await inject(file, 'NODE_SEA_BLOB', readFileSync(`${out}/blob`), {
    sentinelFuse: 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2',
    ...(name.startsWith('darwin') ? { machoSegmentName: 'NODE_SEA' } : {}),
  });
  console.log(file);
}
for (const name of ['main.cjs', 'sea.json', 'blob']) rmSync(`${out}/${name}`);

/** One file with everything in it; bundled CommonJS packages call require() for Node's own modules. */
async function bundle(entry, format, define) {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [entry],
    bundle: true,
    write: false,
    format,
    platform: 'node',
    target: 'node20.19',
    // A lazy import becomes a require inside the file.
    supported: { 'dynamic-import': format === 'esm' },
    plugins: [slimUndici, patientUndici],
    legalComments: 'none',
    minifyWhitespace: true,
    minifySyntax: true,
    define,
    banner: { js: format === 'cjs' ? entryUrl : builtinRequire },
  });
  return outputFiles[0].text;
}
