import { createHash } from 'node:crypto';
import type { Limits } from '../../desired/context.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import type { Problem } from '../../model/problem.ts';
import type { ProblemCode } from '../../model/problem-code.ts';
import type { Result } from '../../model/result.ts';
import { fail, ok } from '../../model/result.ts';
import type { SourceContent, SourceFile } from '../../ports.ts';
import { hasControl } from './git-address.ts';
import type { RemoteCalls } from './git-remote.ts';
import type { GitRepository, TreeEntry } from './git-repository.ts';

/** Which manifests of a commit to read, and how much of them. */
export interface ContentSettings {
  /** Components of the path inside the repository: the root of the manifests. */
  readonly path: readonly string[];
  readonly limits: Limits;
  /** Other files that manifests name relative to themselves, by their path from the root. */
  readonly references: (manifests: readonly SourceFile[]) => Promise<readonly string[]>;
}

interface Load {
  readonly repository: GitRepository;
  readonly calls: RemoteCalls;
  readonly settings: ContentSettings;
  readonly commit: string;
  readonly signal: AbortSignal;
}

/** The manifests of a commit, and the files that they name; all of them or a problem. Nothing else is fetched. */
export async function loadContent(load: Load): Promise<Result<SourceContent, Problem>> {
  const { repository, settings, commit } = load;
  const tree = await findTree(repository, commit, settings.path);
  if (!tree.ok) return tree;
  const entries = await repository.listTree(tree.value, true);
  const chosen = chooseManifests(entries, settings.limits);
  if (!chosen.ok) return chosen;
  const manifests = await readEntries(load, tree.value, chosen.value);
  if (!manifests.ok) return manifests;
  const named = new Set(await settings.references(manifests.value));
  const others = await readEntries(
    load,
    tree.value,
    entries.filter((entry) => named.has(entry.path) && isRegular(entry) && !isManifestPath(entry.path)),
  );
  return others.ok ? ok({ revision: commit, files: [...manifests.value, ...others.value] }) : others;
}

/** The files of these entries in their order; what a partial fetch left out is fetched in one request. */
async function readEntries(
  { repository, calls, settings: { limits }, signal }: Load,
  tree: string,
  entries: readonly TreeEntry[],
): Promise<Result<readonly SourceFile[], Problem>> {
  if (entries.length === 0) return ok([]);
  const ids = [...new Set(entries.map((entry) => entry.id))];
  const missing = await repository.missingBelow(tree);
  const absent = ids.filter((id) => missing.has(id));
  if (absent.length > 0) {
    const fetched = await calls.fetchObjects(absent, signal);
    if (!fetched.ok) return fetched;
  }
  let blobs: readonly Buffer[];
  try {
    blobs = await repository.readBlobs(ids, limits.totalBytes, signal);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const summary = `the manifests are larger than ${limits.totalBytes} bytes together`;
    return fail(problem('too-large', summary, 'narrow --git-path'));
  }
  const byId = new Map(ids.map((id, index) => [id, blobs[index] ?? Buffer.alloc(0)]));
  const files: SourceFile[] = [];
  for (const { path, id } of entries) {
    const bytes = byId.get(id) ?? Buffer.alloc(0);
    const bad = fileProblem(path, bytes, limits);
    if (bad !== null) return fail(bad);
    files.push({ path, bytes, hash: createHash('sha256').update(bytes).digest('hex') });
  }
  return ok(files);
}

async function findTree(
  repo: GitRepository,
  commit: string,
  parts: readonly string[],
): Promise<Result<string, Problem>> {
  let tree = commit;
  const walked: string[] = [];
  for (const part of parts) {
    walked.push(part);
    const entry = (await repo.listTree(tree, false)).find((one) => one.path === part);
    if (entry?.type !== 'tree') {
      const what = entry === undefined ? 'is not there' : 'is not a directory';
      return fail(
        problem(
          'git-path-missing',
          `${walked.join('/')} ${what} in commit ${commit.slice(0, 12)}`,
          'correct --git-path; nothing is deleted because of this',
        ),
      );
    }
    tree = entry.id;
  }
  return ok(tree);
}

function isRegular({ type, mode }: TreeEntry): boolean {
  return type === 'blob' && mode !== '120000';
}

/** Regular files named *.yaml or *.yml outside hidden folders, sorted by path. A link or submodule of such a name is a problem. */
function chooseManifests(entries: readonly TreeEntry[], limits: Limits): Result<readonly TreeEntry[], Problem> {
  const chosen: TreeEntry[] = [];
  for (const entry of entries) {
    const parts = entry.path.split('/');
    if (!isManifestPath(entry.path)) continue;
    if (hasControl(entry.path) || parts.includes('..') || entry.path.includes('\uFFFD')) {
      return fail(
        problem('unsafe-file-name', 'a manifest’s file name holds control characters or is not UTF-8', 'rename it'),
      );
    }
    if (!isRegular(entry)) {
      const what = entry.type === 'blob' ? 'a symbolic link' : 'a submodule';
      return fail(
        problem('not-a-regular-file', `${entry.path} is ${what}, which is not followed`, 'commit the file itself'),
      );
    }
    if (parts.length > limits.depth) {
      return fail(problem('too-deep', `${entry.path} lies deeper than ${limits.depth} folders`, 'move it up'));
    }
    chosen.push(entry);
    if (chosen.length > limits.files) {
      return fail(problem('too-many-files', `there are more than ${limits.files} manifests`, 'narrow --git-path'));
    }
  }
  if (chosen.length === 0) {
    return fail(
      problem(
        'no-manifests',
        'there are no *.yaml or *.yml files at the path',
        'correct --git-path; nothing is deleted because of this',
      ),
    );
  }
  return ok(chosen.sort((a, b) => (a.path < b.path ? -1 : 1)));
}

function fileProblem(name: string, bytes: Buffer, limits: Limits): Problem | null {
  if (bytes.length > limits.fileBytes) {
    return problem('too-large', `${name} is larger than ${limits.fileBytes} bytes`, 'split it');
  }
  if (bytes.subarray(0, 40).toString('latin1').startsWith('version https://git-lfs.github.com/')) {
    return problem('git-lfs', `${name} is stored in Git LFS, which is not fetched`, 'commit the file itself');
  }
  return null;
}

function problem(code: ProblemCode, summary: string, hint: string): Problem {
  return { code, severity: 'error', summary, hint };
}
