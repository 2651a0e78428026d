import { randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** Writes a file so that readers see the old content or the new; an existing mode and a link stay, unless `replaced`: they may be planted. Throws as the system. */
export async function replaceFile(file: string, text: string, mode = 0o644, link: 'kept' | 'replaced' = 'kept') {
  const target = link === 'replaced' ? file : await realpath(file).catch(() => file);
  const existing = link === 'replaced' ? null : await lstat(target).catch(() => null);
  // The leading dot keeps it out of the manifests.
  // In containers that share a folder, processes have the same number.
  const mark = `${process.pid}-${randomBytes(4).toString('hex')}`;
  const temporary = path.join(path.dirname(target), `.${path.basename(target)}.${mark}.new`);
  try {
    await writeFile(temporary, text, { flag: 'wx', mode, flush: true });
    if (existing?.isFile()) await chmod(temporary, existing.mode & 0o7777);
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Makes a folder and those above it. Node's `recursive` never returns where the system refuses to make one (below `/proc`). */
export async function makeFolder(folder: string, mode = 0o777): Promise<void> {
  if (await isFolder(folder)) return;
  const parent = path.dirname(folder);
  if (parent !== folder) await makeFolder(parent, mode);
  await mkdir(folder, { mode }).catch(async (error: unknown) => {
    if (!(await isFolder(folder))) throw error; // another process may have made it
  });
}

async function isFolder(folder: string): Promise<boolean> {
  const found = await stat(folder).catch(() => null); // making it says why
  return found?.isDirectory() === true;
}
