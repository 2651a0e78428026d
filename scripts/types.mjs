// Writes the declarations of the library to dist/types: everything that src/index.ts exports, and what that needs.
import { execFileSync } from 'node:child_process';
import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'dist/types');
rmSync(out, { recursive: true, force: true });
execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', join(root, 'scripts/types.json')], { stdio: 'inherit' });
// Keep only what the entry reaches, and name it as it stands beside the bundle.
const reached = new Set();
const visit = (file) => {
  if (reached.has(file)) return;
  reached.add(file);
  const text = readFileSync(file, 'utf8');
  for (const match of text.matchAll(/(?:from|import\()\s*'(\.[^']*)\.ts'/g))
    visit(join(file, '..', `${match[1]}.d.ts`));
  writeFileSync(file, text.replace(/((?:from|import\()\s*'\.[^']*)\.ts'/g, "$1.js'"));
};
visit(join(out, 'index.d.ts'));
// Programs without the types of a browser or of Node have no such interface; where there is one, it is this and more.
appendFileSync(join(out, 'index.d.ts'), 'declare global { interface AbortSignal { readonly aborted: boolean } }\n');
// They declare an ES module; what lies beside them is CommonJS.
writeFileSync(join(out, 'package.json'), '{ "type": "module" }\n');
for (const name of readdirSync(out, { recursive: true })) {
  const file = join(out, name);
  if (name.endsWith('.d.ts') && !reached.has(file)) rmSync(file);
}
