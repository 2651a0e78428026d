import { createHash } from 'node:crypto';
import type { BigIntStats, Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../../desired/context.ts';
import { isManifestPath } from '../../manifest/manifest.ts';
import { digestFiles } from '../../model/digest-files.ts';
import { compareText, makeError, type Problem } from '../../model/problem.ts';
import type { Source, SourceFile, SourceReading } from '../../ports.ts';
import { describeJson, isJsonPath, largestJson, mostJson, noteJson, refuseBeyond, refuseTooLarge } from './limits.ts';
import { explainReason, getFileKind, readRegularFile } from './regular-file.ts';

/** How often a directory that changes while it is read is read again before giving up. */
const attempts = 3;
/** Files open at once. */
const width = 16;

/** Manifests below a directory by all their names but hidden ones, links followed inside only. One that cannot be read gives no content. */
export function createDirectorySource(root: string, limits: Limits): Source {
  return {
    description: root,
    async read(signal): Promise<SourceReading> {
      for (let attempt = 1; ; attempt++) {
        signal.throwIfAborted();
        const before = await listManifests(root, limits);
        if (before.problems.length > 0) return { content: null, problems: before.problems };
        const read = await readAll(before.files, limits);
        const after = await listManifests(root, limits);
        const isStill = isDeepStrictEqual(before.files, after.files);
        if (isStill && read.problems.length === 0) {
          const content = { revision: digestFiles(read.files), files: read.files };
          return { content, problems: await noteUnread(before.json) };
        }
        // What could not be read of a file that was just written says nothing.
        const hint = 'wait until whatever writes there is done, then run again';
        const moving = makeError('source-unstable', `${root} kept changing while it was read`, hint);
        if (attempt === attempts) return { content: null, problems: isStill ? read.problems : [moving] };
      }
    },
  };
}

async function readAll(found: readonly FoundFile[], limits: Limits) {
  const files: SourceFile[] = [];
  const problems: Problem[] = [];
  let total = 0;
  for (let at = 0; at < found.length && total <= limits.totalBytes; at += width) {
    const some = found.slice(at, at + width);
    const read = await Promise.all(
      some.map(async ({ path, real }) => ({ path, bytes: await readRegularFile(real, limits.fileBytes) })),
    );
    for (const { path, bytes } of read) {
      if (bytes.ok) {
        total += bytes.value.length;
        files.push({ path, bytes: bytes.value, hash: createHash('sha256').update(bytes.value).digest('hex') });
      } else problems.push(refuseEntry(path, `cannot be read: ${bytes.error}`));
    }
  }
  return { files, problems: total > limits.totalBytes ? [refuseBeyond(limits, 'totalBytes'), ...problems] : problems };
}

async function noteUnread(found: readonly FoundFile[]): Promise<readonly Problem[]> {
  const notes = found.map(async ({ path, real }) => {
    const bytes = await readRegularFile(real, largestJson);
    return bytes.ok ? noteJson(path, bytes.value) : [];
  });
  return (await Promise.all(notes)).flat();
}

/** A manifest to read. `identity` changes when the file is written, replaced or led elsewhere. */
interface FoundFile {
  /** Relative to the root, with `/`. */
  readonly path: string;
  readonly real: string;
  readonly identity: string;
}

interface Walk {
  readonly files: FoundFile[];
  /** Some of the JSON files beside them, which are not read as manifests. */
  readonly json: FoundFile[];
  /** Any means that the files are not to be used. */
  readonly problems: Problem[];
  readonly realRoot: string;
  readonly limits: Limits;
  /** Real paths of the folders that were listed, and whether manifests lie below: without, none is walked by another name. */
  readonly seen: Map<string, boolean>;
  /** Entries of folders that were listed by another name before: a few links can stand for billions of paths. */
  again: number;
}

/** Lists the manifests below `root`, sorted by path, without opening any. */
async function listManifests(root: string, limits: Limits): Promise<Pick<Walk, 'files' | 'json' | 'problems'>> {
  const rooted = await resolveRoot(root);
  if (typeof rooted !== 'string') return { files: [], json: [], problems: [rooted] };
  const walk: Walk = { realRoot: rooted, limits, files: [], json: [], problems: [], seen: new Map(), again: 0 };
  await walkDirectory(walk, { real: rooted, path: '', above: [] });
  if (walk.files.length > limits.files) walk.problems.push(refuseBeyond(limits, 'files'));
  const many = `links to folders give more than ${limits.files} entries another name`;
  if (walk.again > limits.files) walk.problems.push(refuseTooLarge(many, 'limits.files'));
  if (walk.files.length === 0 && walk.problems.length === 0) walk.problems.push(nothingThere(root, walk.json));
  walk.files.sort((a, b) => compareText(a.path, b.path));
  return walk;
}

async function resolveRoot(root: string): Promise<string | Problem> {
  const found = await resolveEntry(root);
  const refuse = (why: string, hint: string) => makeError('no-source', `${root} cannot be used: ${why}`, hint);
  if (typeof found === 'string') return refuse(found, 'PATH is the directory that holds the manifests (*.yaml, *.yml)');
  if (found.stats.isDirectory()) return found.real;
  return refuse('it is not a directory', 'name the directory that holds the manifests');
}

interface Directory {
  readonly real: string;
  readonly path: string;
  /** Real paths of the directories on the way here: to meet one again is a loop. */
  readonly above: readonly string[];
}

async function walkDirectory(walk: Walk, directory: Directory): Promise<void> {
  if (Math.max(walk.files.length, walk.again) > walk.limits.files || walk.seen.get(directory.real) === false) return;
  const before = walk.files.length + walk.problems.length;
  if (directory.above.length > walk.limits.depth) {
    walk.problems.push(refuseBeyond(walk.limits, 'depth', directory.path));
    return;
  }
  let entries: readonly Dirent[];
  try {
    entries = await readdir(directory.real, { withFileTypes: true });
  } catch (error) {
    walk.problems.push(refuseEntry(directory.path || '.', `cannot be listed: ${explainReason(error)}`));
    return;
  }
  if (walk.seen.has(directory.real)) walk.again += entries.length;
  // Hidden names hold editor locks, .git, and the ..data links of a mounted ConfigMap, whose files are linked by name.
  const sorted = [...entries].sort((a, b) => compareText(a.name, b.name));
  for (const entry of sorted) if (!entry.name.startsWith('.')) await visit(walk, directory, entry);
  walk.seen.set(directory.real, walk.files.length + walk.problems.length > before);
}

async function visit(walk: Walk, directory: Directory, found: Dirent): Promise<void> {
  const { name } = found;
  const path = directory.path === '' ? name : `${directory.path}/${name}`;
  const refuse = (what: string): void => void walk.problems.push(refuseEntry(path, what));
  const isManifest = isManifestPath(name);
  const entry = await resolveEntry(join(directory.real, name));
  if (typeof entry === 'string') {
    // The system knows the name in other bytes than we have it. A folder of such a name may hold manifests.
    const isNotUtf8 = name.includes('\uFFFD');
    if (isNotUtf8 && (isManifest || !found.isFile())) refuse('has a name that is not UTF-8');
    else if (isManifest) refuse(`cannot be read: ${entry}`);
    return;
  }
  const { real, stats } = entry;
  const above = [...directory.above, directory.real];
  const below = real.slice(walk.realRoot.length).split(sep);
  const inside = `${real}${sep}`.startsWith(walk.realRoot + sep) && !below.includes('.git');
  const file = (): FoundFile => ({
    path,
    real,
    identity: `${real} ${stats.dev} ${stats.ino} ${stats.size} ${stats.mtimeNs} ${stats.ctimeNs}`,
  });
  if (!isManifest && !stats.isDirectory()) {
    if (inside && stats.isFile() && isJsonPath(name) && walk.json.length < mostJson) walk.json.push(file());
    return;
  }
  if (!inside) refuse('is a link that leads out of the directory, or into .git; links are followed inside it only');
  else if (above.includes(real)) refuse('is a link that leads back to a directory above it');
  else if (!stats.isFile() && !stats.isDirectory()) refuse(`is ${getFileKind(stats)}, not a regular file`);
  else if (stats.isFile()) walk.files.push(file());
  else await walkDirectory(walk, { real, path, above });
}

async function resolveEntry(path: string): Promise<{ real: string; stats: BigIntStats } | string> {
  try {
    const real = await realpath(path);
    return { real, stats: await stat(real, { bigint: true }) };
  } catch (error) {
    return explainReason(error);
  }
}

function refuseEntry(path: string, what: string): Problem {
  const hint = 'nothing is planned from a part of the manifests: mend it, or move it out of the directory';
  return makeError('unreadable-file', `${path} ${what}`, hint, { file: path, line: 1, column: 1 });
}

function nothingThere(root: string, json: readonly FoundFile[]): Problem {
  const hint =
    'an empty directory is not taken for "delete everything": check PATH; to want no rules, write a RuleSet with `rules: []`';
  return makeError('no-manifests', `${root} holds no manifest (*.yaml, *.yml)${describeJson(json)}`, hint);
}
