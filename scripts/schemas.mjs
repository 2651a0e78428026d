// Writes schemas/ and the field tables in docs/reference/manifests.md from the sources' own schemas. A test fails when this was forgotten.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname;
const bundle = `${root}dist/schema-files.mjs`;
await build({
  absWorkingDir: root,
  stdin: {
    contents:
      "export * from './scripts/schema-files.ts'; export * from './scripts/manifest-reference.ts'; export * from './scripts/command-reference.ts';",
    resolveDir: root,
  },
  outfile: bundle,
  bundle: true,
  format: 'esm',
  platform: 'node',
  packages: 'external',
});
const { allSchemaFiles, prometheusRule, withFieldTables, withReferenceTables } = await import(bundle);
rmSync(bundle);
mkdirSync(`${root}schemas`, { recursive: true });
for (const [name, text] of allSchemaFiles()) {
  writeFileSync(`${root}schemas/${name}`, text);
  console.log(`schemas/${name}`);
}
const reference = `${root}docs/reference/manifests.md`;
writeFileSync(reference, withFieldTables(readFileSync(reference, 'utf8')));
console.log('docs/reference/manifests.md');
const commands = `${root}docs/reference/commands.md`;
writeFileSync(commands, withReferenceTables(readFileSync(commands, 'utf8')));
console.log('docs/reference/commands.md');
const rule = 'deploy/kubernetes/monitoring/prometheus-rule.yaml';
writeFileSync(`${root}${rule}`, prometheusRule(readFileSync(`${root}deploy/alerts.yaml`, 'utf8')));
console.log(rule);
// A chart reads only files of its own.
for (const from of ['alerts.yaml', 'grafana/dashboard.json']) {
  const copy = `deploy/helm/firezone-reconcile/files/${from.split('/').at(-1)}`;
  copyFileSync(`${root}deploy/${from}`, `${root}${copy}`);
  console.log(copy);
}
