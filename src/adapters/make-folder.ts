import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';

/** Makes a folder and those above it. Node's `recursive` never returns where the system refuses to make one (below `/proc`). */
export async function makeFolder(folder: string, mode = 0o777): Promise<void> {
  if (await isFolder(folder)) return;
  const parent = path.dirname(folder);
  if (parent !== folder) await makeFolder(parent, mode);
  try {
    await mkdir(folder, { mode });
  } catch (error) {
    if (!(await isFolder(folder))) throw error; // another process may have made it
  }
}

async function isFolder(folder: string): Promise<boolean> {
  try {
    return (await stat(folder)).isDirectory();
  } catch {
    return false; // making it says why
  }
}
