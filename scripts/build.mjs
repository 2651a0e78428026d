// Bundles the command into dist/: one entry and chunks loaded on demand, runnable without node_modules.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { slimUndici } from './slim-undici.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
/** Bundled CommonJS packages call require(); an ES module has none of its own. */
const ownRequire =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);";
const common = {
  metafile: true,
  absWorkingDir: root,
  outdir: 'dist',
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  sourcemap: true,
  plugins: [slimUndici],
  legalComments: 'none',
  // A start spends a fifth of its time on loading this code. Shorter names on top would not make that less.
  minifyWhitespace: true,
  minifySyntax: true,
  define: { __RECONCILE_VERSION__: JSON.stringify(version) },
};
const command = {
  ...common,
  entryPoints: { reconcile: 'src/main.ts' },
  splitting: true,
  chunkNames: 'chunks/[name]-[hash]',
};

rmSync(`${root}dist`, { recursive: true, force: true });
const first = (await build({ ...command, write: false })).metafile;
const { metafile } = await build({ ...command, plugins: [slimUndici, loadTogether(first)] });
// One line in the one chunk that calls it: in each it would cost a start 10 ms.
for (const path of Object.keys(metafile.outputs).filter((name) => name.endsWith('.js'))) {
  const text = readFileSync(root + path, 'utf8');
  if (text.includes('typeof require')) writeFileSync(root + path, `${ownRequire}\n${text}`);
}
const alone = await build({
  ...common,
  entryPoints: {
    index: 'src/index.ts',
    'manifest-worker': 'src/adapters/manifest-worker.ts',
    'ci/base': 'src/cli/write-base.ts',
  },
  banner: { js: ownRequire },
});
// The review scripts of the Action and the GitLab template run the bundle that lies beside them.
cpSync(`${root}ci`, `${root}dist/ci`, { recursive: true, filter: (name) => !name.endsWith('.yml') });
// Which packages are inside: for their licences and the list of parts (scripts/bundled.mjs).
mkdirSync(`${root}build`, { recursive: true });
writeFileSync(
  `${root}build/meta.json`,
  JSON.stringify({ ...metafile, inputs: { ...alone.metafile.inputs, ...metafile.inputs } }),
);

/**
 * What is loaded on demand loads with it what is there anyway (`process.ts`), and all that `validate` or a plan needs where it needs most of
 * that. esbuild makes a chunk of what the same entries need: so there are few, and each file costs a start up to half a millisecond.
 */
function loadTogether({ inputs, outputs }) {
  const reach = (path, seen = new Set()) => {
    if (seen.has(path) || inputs[path] === undefined) return seen;
    seen.add(path);
    for (const { path: next, kind } of inputs[path].imports) if (kind !== 'dynamic-import') reach(next, seen);
    return seen;
  };
  const bundled = Object.fromEntries(Object.values(outputs).flatMap((output) => Object.entries(output.inputs ?? {})));
  const bytesOf = (paths) => [...paths].reduce((sum, path) => sum + (bundled[path]?.bytesInOutput ?? 0), 0);
  const cores = [
    { path: 'src/cli/process.ts', share: 0 },
    { path: 'src/cli/commands/validate.ts', share: 0.7 },
    { path: 'src/cli/commands/reconcile.ts', share: 0.7 },
  ].map((core) => ({ ...core, all: reach(core.path) }));
  const lazy = Object.values(inputs).flatMap(({ imports }) => imports.filter(({ kind }) => kind === 'dynamic-import'));
  const joined = new Map();
  for (const entry of new Set(lazy.map(({ path }) => path))) {
    const own = reach(entry);
    const joins = cores.filter(({ all, share }) => {
      const shared = [...all].filter((path) => own.has(path));
      return !all.has(entry) && bytesOf(shared) >= bytesOf(all) * share;
    });
    joined.set(root + entry, joins.map(({ path }) => `import ${JSON.stringify(root + path)};\n`).join(''));
  }
  return {
    name: 'load-together',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const imports = joined.get(path);
        return imports === undefined ? null : { contents: imports + readFileSync(path, 'utf8'), loader: 'ts' };
      });
    },
  };
}
