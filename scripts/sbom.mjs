// Prints the list of parts (SPDX) of what is shipped: the lockfile's packages that are not for development alone.
// `npm sbom --omit dev` will not do: it leaves out what development tools need as well (npm 11).
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const root = new URL('..', import.meta.url).pathname;
const { packages } = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8'));
const shipped = new Set(
  Object.entries(packages)
    .filter(([, entry]) => !entry.dev && !entry.devOptional)
    .map(([path, entry]) => `${entry.name ?? path.split('node_modules/').at(-1)}@${entry.version}`),
);
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
