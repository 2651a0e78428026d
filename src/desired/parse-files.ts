import { type FileManifests, isManifestPath, refuseFile } from '../manifest/manifest.ts';
import { type ReadOptions, readManifests } from '../manifest/read-manifests.ts';
import { formatCount } from '../model/printable.ts';
import { compareText, makeError } from '../model/problem.ts';
import type { SourceFile } from '../ports.ts';
import type { Limits } from './context.ts';

export interface ParseOptions extends ReadOptions {
  readonly limits: Limits;
}

/** The files of a source, and what its manifests hold: one entry a manifest file, by path. */
export interface ParsedFiles {
  readonly files: readonly SourceFile[];
  readonly manifests: readonly FileManifests[];
}

/** Parses the files of a source. Never throws for what they hold; a file that was parsed before is not parsed again. */
export type ParseFiles = (files: readonly SourceFile[]) => Promise<ParsedFiles>;

/** Parses in place, without a memory and without bounds of time. */
export function parseFiles(files: readonly SourceFile[], options: ParseOptions): ParsedFiles {
  const manifests = selectManifestFiles(files, options.limits).map((file) => readManifests(file, options));
  return { files, manifests };
}

/** In place of manifests that together cost more than they may: one problem, at the largest file. */
export function refuseAll(files: readonly SourceFile[], { work }: Limits): readonly FileManifests[] {
  const largest = files.reduce((most, file) => (file.bytes.length > most.bytes.length ? file : most));
  const cost = `takes more than ${formatCount(work)} units of work (\`limits.work\`)`;
  const summary = `Reading all manifests together ${cost}; this file is the largest.`;
  const hint = 'Remove files that are not manifests, or raise `limits.work` in the settings (a rule takes about 50).';
  const problem = makeError('too-expensive', summary, hint, { file: largest.path, line: 1, column: 1 });
  return files.map((file) => refuseFile(file.path, file === largest ? [problem] : []));
}

/** Manifests in the one order of every output: by path. */
export function selectManifestFiles(files: readonly SourceFile[], limits: Limits): readonly SourceFile[] {
  const manifests = files.filter(({ path }) => isManifestPath(path));
  return manifests.sort((a, b) => compareText(a.path, b.path)).slice(0, limits.files);
}
