import { existsSync } from 'node:fs';
import { link, readdir, unlink } from 'node:fs/promises';
import path from 'node:path';
import { getErrorCode, replaceError } from '../model/result.ts';
import { replaceFile } from './replace-file.ts';
import { claimFolder, closeToOthers, readStateFile } from './state-folder.ts';

const largestBytes = 100_000_000;

/** JSON files in one folder of the state, for their owner alone; each is written in one step that readers see whole. */
export class StateFiles {
  readonly folder: string;
  readonly #folders: readonly string[];

  constructor(stateFolder: string, name: 'history' | 'oneshot') {
    this.folder = path.join(stateFolder, name);
    this.#folders = [stateFolder, this.folder];
  }

  locate(name: string): string {
    return path.join(this.folder, name);
  }

  /** Names of all files, ours or not; none where there is no folder. */
  async list(): Promise<readonly string[]> {
    return await readdir(this.folder).catch(replaceError('ENOENT', []));
  }

  /** The JSON value of a file; undefined: there is none; null: it cannot be read, or is open to others, as what Git checked out. */
  async read(name: string): Promise<unknown> {
    try {
      return JSON.parse(await readStateFile(this.locate(name), largestBytes));
    } catch (error) {
      return getErrorCode(error) === 'ENOENT' ? undefined : null;
    }
  }

  /** The same of a file that decides something: in a folder of another user it cannot be read. */
  async readOwn(name: string): Promise<unknown> {
    if (!existsSync(this.locate(name))) return undefined;
    try {
      for (const one of this.#folders) await closeToOthers(one);
    } catch {
      return null;
    }
    return await this.read(name);
  }

  async write(name: string, value: unknown): Promise<void> {
    for (const one of this.#folders) await claimFolder(one);
    await replaceFile(this.locate(name), `${JSON.stringify(value)}\n`, 0o600, 'replaced');
  }

  /** Writes a file that must not be there yet; false: it is. */
  async add(name: string, value: unknown): Promise<boolean> {
    const draft = `.${name}.${process.pid}`;
    await this.write(draft, value);
    // Unlike a rename, this never takes the place of what is there.
    try {
      return await link(this.locate(draft), this.locate(name)).then(() => true, replaceError('EEXIST', false));
    } finally {
      await unlink(this.locate(draft));
    }
  }

  /** Removes a file; false: it was gone already. */
  async remove(name: string): Promise<boolean> {
    // Not `rm`, which takes a file that was renamed at the same moment for one that it removed.
    return await unlink(this.locate(name)).then(() => true, replaceError('ENOENT', false));
  }
}
