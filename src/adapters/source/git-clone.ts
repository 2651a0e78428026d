import { existsSync, readdirSync, statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ProcessCaps } from '../run-process.ts';
import { askpassScript, type GitHome } from './git-access.ts';
import { type GitRepository, openRepository, type RepositoryContext, runLocal } from './git-repository.ts';

/** A bare repository of our own. */
export interface Clone extends GitRepository {
  /** Keeps a commit, by a name of ours, from being collected. */
  keep(name: string, commit: string): Promise<void>;
}

/** A fetch notes that the remote promises what it left out; then git dies at a missing object instead of naming it. */
export const forgetPromise = ['config', '--local', '--unset-all', 'remote.origin.partialclonefilter'];

/** Where the clone of a remote lies, and what all runs of git for it get. */
export interface ClonePlace {
  readonly folder: string;
  readonly url: string;
  readonly home: GitHome;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly caps: ProcessCaps;
}

/**
 * Opens the clone for the runs that `signal` stops. Somebody may have removed it, or what belongs to it: then it is made anew.
 * `isChecked`: this process has looked at it before, and found it good.
 */
export async function openClone(place: ClonePlace, isChecked: boolean, signal: AbortSignal): Promise<Clone> {
  const { folder, home, environment, caps } = place;
  const context = { gitDir: folder, environment, home: home.home, caps, signal };
  const parts = [path.join(folder, 'HEAD'), home.home, home.askpass];
  if (!isChecked || !parts.every((part) => existsSync(part))) await makeClone(place, context);
  const keep: Clone['keep'] = async (name, commit) =>
    void (await runLocal(context, ['update-ref', '--end-of-options', name, commit]));
  return { ...openRepository(context), keep };
}

/** Makes the clone, unless it is there. One of another URL is removed first, and so is what a killed git left in it. */
async function makeClone({ folder, url, home }: ClonePlace, context: RepositoryContext): Promise<void> {
  await mkdir(home.home, { recursive: true, mode: 0o700 });
  await writeFile(home.askpass, askpassScript, { mode: 0o700 });
  if (existsSync(folder)) await removeLeftovers(folder);
  if (existsSync(path.join(folder, 'HEAD'))) {
    const asked = ['config', '--local', '--get', 'remote.origin.url'];
    const known = await runLocal(context, asked, [0, 1, 128]);
    if (known.stdout.toString('utf8').trim() === url) return void (await runLocal(context, forgetPromise, [0, 5]));
  }
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await runLocal(context, ['init', '--quiet', '--bare', '--initial-branch=none', folder]);
  await runLocal(context, ['config', '--local', 'remote.origin.url', url]);
}

/** Removes the locks and the half-written packs of a git that was killed: nobody else works in this folder. */
export async function removeLeftovers(folder: string): Promise<void> {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.lock') && !path.basename(name).startsWith('tmp_')) continue;
    await rm(path.join(folder, name), { recursive: true, force: true });
  }
}

/** Bytes of the packs of a clone, which is nearly all of it. */
export function measureClone(folder: string): number {
  const packs = path.join(folder, 'objects/pack');
  if (!existsSync(packs)) return 0;
  return readdirSync(packs).reduce((sum, name) => sum + statSync(path.join(packs, name)).size, 0);
}
