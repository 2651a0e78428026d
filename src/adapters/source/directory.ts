import { createHash } from 'node:crypto';
import type { Limits } from '../../desired/context.ts';
import { digestFiles } from '../../model/digest-files.ts';
import { compareText, makeError, type Problem } from '../../model/problem.ts';
import type { Source, SourceFile, SourceReading } from '../../ports.ts';
import { findTooMuch, largestJson, noteJson } from './limits.ts';
import { readRegularFile } from './regular-file.ts';
import { type FoundFile, listManifests, refuseEntry } from './walk.ts';

/** How often a directory that changes while it is read is read again before giving up. */
const attempts = 3;
/** Files open at once. */
const width = 16;

/** Manifests below a directory, hidden names left out, links followed inside only. One that cannot be read gives no content. */
export function createDirectorySource(root: string, limits: Limits): Source {
  return {
    description: root,
    async read(signal): Promise<SourceReading> {
      for (let attempt = 1; ; attempt++) {
        signal.throwIfAborted();
        const before = await listManifests(root, limits);
        if (before.problems.length > 0) return { content: null, problems: before.problems };
        const read = await readAll(before.files, limits);
        if (read.problems.length === 0) {
          const after = await listManifests(root, limits);
          if (sameListing(before.files, after.files)) {
            const content = { revision: digestFiles(read.files), files: read.files };
            return { content, problems: await noteUnread(before.json) };
          }
        }
        if (attempt === attempts)
          return { content: null, problems: read.problems.length > 0 ? read.problems : [moving(root)] };
      }
    },
  };
}

async function readAll(
  found: readonly FoundFile[],
  limits: Limits,
): Promise<{ files: readonly SourceFile[]; problems: readonly Problem[] }> {
  const files: SourceFile[] = new Array<SourceFile>(found.length);
  const problems: Problem[] = [];
  let total = 0;
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let index = next++; index < found.length; index = next++) {
      const file = found[index];
      if (file === undefined || total > limits.totalBytes) return;
      const bytes = await readRegularFile(file.real, limits.fileBytes);
      if (!bytes.ok) {
        problems.push(refuseEntry(file.path, `cannot be read: ${bytes.error}`));
        continue;
      }
      total += bytes.value.length;
      files[index] = {
        path: file.path,
        bytes: bytes.value,
        hash: createHash('sha256').update(bytes.value).digest('hex'),
      };
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  if (total > limits.totalBytes) problems.push(findTooMuch(limits));
  return { files, problems: problems.sort((a, b) => compareText(a.place?.file ?? '', b.place?.file ?? '')) };
}

async function noteUnread(found: readonly FoundFile[]): Promise<readonly Problem[]> {
  const notes = found.map(async ({ path, real }) => {
    const bytes = await readRegularFile(real, largestJson);
    return bytes.ok ? noteJson(path, bytes.value) : [];
  });
  return (await Promise.all(notes)).flat();
}

function sameListing(a: readonly FoundFile[], b: readonly FoundFile[]): boolean {
  return (
    a.length === b.length &&
    a.every((file, index) => file.path === b[index]?.path && file.identity === b[index]?.identity)
  );
}

function moving(root: string): Problem {
  const hint = 'wait until whatever writes there is done, then run again';
  return makeError('source-unstable', `${root} kept changing while it was read`, hint);
}
