// Bundles the command into dist/: one entry and chunks loaded on demand, runnable without node_modules.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { slimUndici } from './slim-undici.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));

rmSync(`${root}dist`, { recursive: true, force: true });
const { metafile } = await build({
  metafile: true,
  absWorkingDir: root,
  entryPoints: {
    reconcile: 'src/main.ts',
    index: 'src/index.ts',
    'manifest-worker': 'src/adapters/manifest-worker.ts',
    'ci/base': 'src/cli/write-base.ts',
  },
  outdir: 'dist',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  sourcemap: true,
  plugins: [slimUndici],
  legalComments: 'none',
  // A twentieth of the time of a small plan is the loading of this code.
  minifyWhitespace: true,
  minifySyntax: true,
  chunkNames: 'chunks/[name]-[hash]',
  define: { __RECONCILE_VERSION__: JSON.stringify(version) },
  // Bundled CommonJS packages call require(); an ES module has none of its own.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
});
// The review scripts of the Action and the GitLab template run the bundle that lies beside them.
cpSync(`${root}ci`, `${root}dist/ci`, { recursive: true, filter: (name) => !name.endsWith('.yml') });
// Which packages are inside: for their licences and the list of parts (scripts/bundled.mjs).
mkdirSync(`${root}build`, { recursive: true });
writeFileSync(`${root}build/meta.json`, JSON.stringify(metafile));
