// Bundles the command into dist/: one entry and chunks loaded on demand, runnable without node_modules.
import * as childProcess from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import * as readline from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import * as workers from 'node:worker_threads';
import * as croner from 'croner';
import { build } from 'esbuild';
import * as yaml from 'yaml';
import { patientUndici, slimUndici } from './slim-undici.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
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
  // Shorter names on top would load no faster.
  minifyWhitespace: true,
  minifySyntax: true,
  define: { __RECONCILE_VERSION__: JSON.stringify(version) },
};
/**
 * Loaded when they are first asked for: packages, in files of their own (manifests in the usual form need no YAML library), and modules of
 * Node's that most commands never call, 1 to 2 ms each.
 */
const late = {
  yaml,
  croner,
  'node:child_process': childProcess,
  'node:readline/promises': readline,
  'node:worker_threads': workers,
};
const loadLate = {
  name: 'load-late',
  setup({ onResolve, onLoad }) {
    const filter = new RegExp(`^(?:${Object.keys(late).join('|')})$`);
    onResolve({ filter }, ({ path, namespace }) =>
      namespace === 'late' ? { path, external: true } : { path, namespace: 'late' },
    );
    onResolve({ filter: /^\.\.\/(?:yaml|croner)\.js$/ }, ({ path }) => ({ path, external: true }));
    onLoad({ filter: /.*/, namespace: 'late' }, ({ path }) => ({
      contents: `let loaded;
        for (const name of ${JSON.stringify(Object.keys(late[path]))})
          Object.defineProperty(exports, name, {
            enumerable: true,
            get: () => (loaded ??= require('${path.startsWith('node:') ? path : `../${path}.js`}'))[name],
          });`,
    }));
  },
};
/** Node loads CommonJS 10 to 20 ms sooner than ES modules: their loader, and what each import of a module of Node's costs. */
const commonJs = {
  format: 'cjs',
  supported: { 'dynamic-import': false },
  define: { ...common.define, 'import.meta.url': '__moduleUrl' },
};
const moduleUrl = "const __moduleUrl = require('node:url').pathToFileURL(__filename).href;";

rmSync(`${root}dist`, { recursive: true, force: true });
const { metafile } = await bundleCommand();
const library = await build({
  ...common,
  entryPoints: { index: 'src/index.ts' },
  outExtension: { '.js': '.mjs' },
  // Bundled CommonJS packages call require(); an ES module has none of its own.
  banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
});
const alone = await build({
  ...common,
  ...commonJs,
  entryPoints: {
    'manifest-worker': 'src/adapters/manifest-worker.ts',
    'ci/base': 'src/cli/write-base.ts',
    'ci/options': 'src/cli/options.ts',
    yaml: 'yaml',
    croner: 'croner',
  },
  banner: { js: moduleUrl },
});
writeFileSync(`${root}dist/package.json`, '{ "type": "commonjs" }\n');
// The review scripts of the Action and the GitLab template run the bundle that lies beside them.
cpSync(`${root}ci`, `${root}dist/ci`, { recursive: true, filter: (name) => !name.endsWith('.yml') });
// Which packages are inside: for their licences and the list of parts (scripts/bundled.mjs).
const inputs = { ...library.metafile.inputs, ...alone.metafile.inputs, ...metafile.inputs };
writeFileSync(`${root}build/meta.json`, JSON.stringify({ ...metafile, inputs }));

/** The command in chunks. Only ES modules can be split, so that they are made first, and CommonJS of each. */
async function bundleCommand() {
  const plugins = [slimUndici, patientUndici, loadLate];
  const split = {
    ...common,
    entryPoints: { reconcile: 'src/main.ts' },
    outdir: 'build/command',
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
  };
  rmSync(`${root}build/command`, { recursive: true, force: true });
  const first = await build({ ...split, plugins, write: false });
  const second = await build({ ...split, plugins: [...plugins, loadTogether(first.metafile)] });
  const { metafile: last } = await build({
    ...common,
    ...commonJs,
    bundle: false,
    plugins: [],
    entryPoints: Object.keys(second.metafile.outputs).filter((name) => name.endsWith('.js')),
    outbase: 'build/command',
  });
  for (const path of Object.keys(last.outputs).filter((name) => name.endsWith('.js'))) {
    const text = readFileSync(root + path, 'utf8');
    if (text.includes('__moduleUrl')) writeFileSync(root + path, moduleUrl + text);
  }
  return second;
}

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
    { path: 'src/cli/commands/validate.ts', share: 0.5 },
    { path: 'src/cli/commands/reconcile.ts', share: 0.5 },
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
