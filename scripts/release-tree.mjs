// Writes the tree that a release tag holds, and that the npm package is packed from: `npm run release-tree`, or with `-- FOLDER`.
// Nothing in it is built or installed: the bundle is there, and its package.json has neither scripts nor dependencies.
// RECONCILE_REPOSITORY (https://HOST/OWNER/NAME) is the one place that names the repository's home in the package's manifest.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundledPackages } from './bundled.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = resolve(process.argv[2] ?? `${root}build/release`);
const run = (...args) => execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' });

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const packed = [
  'dist',
  'schemas',
  'docs',
  'examples',
  'deploy',
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'LICENSE',
];
for (const name of [...packed, 'ci', 'action.yml', '.pre-commit-hooks.yaml']) {
  cpSync(`${root}${name}`, `${out}/${name}`, { recursive: true, filter: (file) => !file.endsWith('.map') });
}
writeFileSync(`${out}/sbom.spdx.json`, run('scripts/sbom.mjs'));
writeFileSync(`${out}/THIRD-PARTY.md`, thirdParty());
const { scripts, dependencies, devDependencies, ...manifest } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
const files = [...packed, 'sbom.spdx.json', 'THIRD-PARTY.md'];
writeFileSync(`${out}/package.json`, `${JSON.stringify({ ...manifest, ...home(), files }, null, 2)}\n`);
console.log(out);

function home() {
  const url = process.env.RECONCILE_REPOSITORY ?? '';
  if (url === '') return {};
  if (!/^https:\/\/[^/\s]+\/\S+[^/\s]$/.test(url))
    throw new Error('RECONCILE_REPOSITORY must be https://HOST/OWNER/NAME');
  return {
    repository: { type: 'git', url: `git+${url}.git` },
    homepage: `${url}#readme`,
    bugs: { url: `${url}/issues` },
  };
}

/** The licences of what the bundle holds. */
function thirdParty() {
  const sections = bundledPackages().map(
    ({ name, version, license, text }) =>
      `## ${name} ${version} (${license})\n\n\`\`\`text\n${text.trimEnd()}\n\`\`\`\n`,
  );
  return `# Licences of the packages inside the bundle\n\n${sections.join('\n')}`;
}
