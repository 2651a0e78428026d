import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createManifestParser, manifestWorker } from '../adapters/manifest-parser.ts';
import { findWorkTree, readAtRef } from '../adapters/source/git-ref.ts';
import { openRepository } from '../adapters/source/git-repository.ts';
import { defaultLimits } from '../desired/context.ts';
import { listReferencedFiles } from '../desired/parse-files.ts';
import { profileNamed } from '../model/profile.ts';

// The first step of a review in CI, run with no secret in its environment: it alone starts git, in a checkout that a stranger
// may have prepared. The second step has the token, and gets what this one wrote:
//   OUT/revision   COMMIT (BRANCH)
//   OUT/base/      the manifests of --base, where the clone holds it, and the files they name
const { values: given } = parseArgs({
  options: {
    path: { type: 'string', default: '.' },
    out: { type: 'string' },
    branch: { type: 'string', default: '' },
    base: { type: 'string', default: '' },
  },
});
process.exitCode = await main();

async function main(): Promise<number> {
  if (given.out === undefined) return say('--out is missing', 1);
  const [directory, out] = [resolve(given.path), resolve(given.out)];
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const found = findWorkTree(directory);
  if (found === null) return say(`${given.path} is not in a Git work tree: the plan is not compared with a base`, 0);
  const signal = new AbortController().signal;
  const environment = { PATH: process.env['PATH'], TMPDIR: process.env['TMPDIR'] };
  const repository = openRepository({ gitDir: found.gitDir, environment, signal });
  const head = (await repository.commitOf('HEAD')) ?? 'no commit';
  writeFileSync(join(out, 'revision'), given.branch === '' ? head : `${head} (${given.branch})`);
  const commit = given.base === '' ? null : await repository.commitOf(given.base);
  if (commit === null) return 0;
  const parse = createManifestParser(
    { profile: profileNamed('firezone-0.7'), values: null, limits: defaultLimits },
    { workerUrl: manifestWorker(), measure: 'alone' },
  );
  const content = await readAtRef({
    directory,
    ref: commit,
    limits: defaultLimits,
    references: async (files) => listReferencedFiles(await parse(files)),
    environment,
    signal,
  });
  if (!content.ok) return say(`${content.error.summary}\n${content.error.hint ?? ''}`, 1);
  const base = join(out, 'base');
  mkdirSync(base);
  for (const { path, bytes } of content.value.files) {
    mkdirSync(dirname(join(base, path)), { recursive: true });
    writeFileSync(join(base, path), bytes);
  }
  return 0;
}

function say(text: string, code: number): number {
  process.stdout.write(`${text}\n`);
  return code;
}
