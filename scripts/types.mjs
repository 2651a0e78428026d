// Writes the declarations of the library to dist/types: everything that src/index.ts exports, and what that needs.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, 'dist/types');
rmSync(out, { recursive: true, force: true });
const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson(
  {
    ...config.compilerOptions,
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    outDir: out,
    rootDir: join(root, 'src'),
    stripInternal: true,
  },
  root,
);
const program = ts.createProgram([join(root, 'src/index.ts'), join(root, 'src/version.ts')], options);
const problems = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
if (problems.length > 0) {
  const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => root, getNewLine: () => '\n' };
  console.error(ts.formatDiagnostics(problems, host));
  process.exit(1);
}
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
for (const name of readdirSync(out, { recursive: true })) {
  const file = join(out, name);
  if (name.endsWith('.d.ts') && !reached.has(file)) rmSync(file);
}
