import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

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
