// Writes schemas/ from the sources' own schemas. A test fails when this was forgotten.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname;
const bundle = `${root}dist/schema-files.mjs`;
await build({
  absWorkingDir: root,
  entryPoints: ['scripts/schema-files.ts'],
  outfile: bundle,
  bundle: true,
  format: 'esm',
  platform: 'node',
});
const { allSchemaFiles } = await import(bundle);
rmSync(bundle);
mkdirSync(`${root}schemas`, { recursive: true });
for (const [name, text] of allSchemaFiles()) {
  writeFileSync(`${root}schemas/${name}`, text);
  console.log(`schemas/${name}`);
}
