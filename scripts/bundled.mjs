// The packages whose code is inside the bundle, as the last build recorded them.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Name, version, licence and the licence's text of each bundled package, sorted by name. */
export function bundledPackages() {
  const { inputs } = JSON.parse(readFileSync(`${root}build/meta.json`, 'utf8'));
  const folders = Object.keys(inputs).map((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const unique = [...new Set(folders.filter((folder) => folder !== undefined))].sort();
  return unique.map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(`${root}${folder}/package.json`, 'utf8'));
    const file = readdirSync(`${root}${folder}`).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
    const text =
      file === undefined || !existsSync(`${root}${folder}/${file}`)
        ? ''
        : readFileSync(`${root}${folder}/${file}`, 'utf8');
    return { name, version, license, text };
  });
}
