// Prints the list of parts (SPDX) of what is shipped: the packages whose code is inside the bundle.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bundledPackages } from './bundled.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const shipped = new Set(bundledPackages().map(({ name, version }) => `${name}@${version}`));
const text = execFileSync('npm', ['sbom', '--package-lock-only', '--sbom-format', 'spdx'], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 64 * 1024 * 1024,
  stdio: ['ignore', 'pipe', 'ignore'],
});
const all = JSON.parse(text);
const kept = all.packages.filter(({ name, versionInfo }) => shipped.has(`${name}@${versionInfo}`));
const ids = new Set([all.SPDXID, ...kept.map(({ SPDXID }) => SPDXID)]);
const relationships = all.relationships.filter(
  ({ spdxElementId, relatedSpdxElement }) => ids.has(spdxElementId) && ids.has(relatedSpdxElement),
);
console.log(JSON.stringify({ ...all, packages: kept, relationships }, null, 2));
