import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { chmod, lstat, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { attempt, fail, getErrorCode, ok, type Result, replaceError } from '../model/result.ts';
import { makeFolder, replaceFile } from './replace-file.ts';

/** The folder that one controller keeps its state in: clone, record, journal. */
export interface StateFolder {
  readonly path: string;
  /** Lets another process have it; a temporary folder is removed. */
  release(): Promise<void>;
}

/** Makes a temporary state folder: nothing survives a restart. */
export function makeTemporaryState(): Result<StateFolder, string> {
  try {
    const folder = mkdtempSync(path.join(tmpdir(), 'reconcile-'));
    return ok({ path: folder, release: async () => rmSync(folder, { recursive: true, force: true }) });
  } catch (error) {
    return fail(`no folder can be made in ${tmpdir()} (${getErrorCode(error, 'failed')}): give --state-dir`);
  }
}

/** Takes `reconcile` below the state folder for this process; refused while the process that holds it is alive here. */
export async function openState(directory: string): Promise<Result<StateFolder, string>> {
  const folder = findOwnFolder(directory);
  const mark = path.join(folder, 'owner');
  const mine = markProcess();
  try {
    await claimFolder(folder);
    // The mark of 0.1 lies above.
    for (const place of [mark, path.join(directory, 'owner')]) {
      const holder = await readStateFile(place, 1000, true).catch(() => '');
      if (holder !== mine && isAlive(holder)) {
        const pid = holder.split(' ')[0];
        return fail(`the state folder ${directory} is in use by process ${pid}; give each process its own`);
      }
    }
    await moveOld(directory, folder);
    // On a full disk the mark of a dead process makes room for ours; where there is none, its rules end all the same.
    await rm(mark, { force: true });
    const written = replaceFile(mark, mine, 0o600, 'replaced');
    await written.catch(replaceError('ENOSPC', undefined)).catch(replaceError('EDQUOT', undefined));
  } catch (error) {
    const code = getErrorCode(error, 'failed');
    if (error instanceof Error && code === 'not-ours') return fail(error.message);
    return fail(`the state folder ${folder} cannot be written (${code})`);
  }
  return ok({ path: folder, release: () => rm(mark, { force: true }) });
}

/** The text of a file of the state; rejects for a link, and for a named pipe, which would be waited for without end. */
export async function readStateFile(file: string, largestBytes: number, mayBeOpen = false): Promise<string> {
  const found = await lstat(file);
  // Ours have mode 0600, and Kubernetes adds what it gives a volume's group (0660); Git makes neither under umask 022.
  const isOurs = mayBeOpen || process.geteuid === undefined || [0, 0o060].includes(found.mode & 0o077);
  if (isOurs && found.isFile() && found.size <= largestBytes) return await readFile(file, 'utf8');
  throw Object.assign(new Error('not a file of ours'), { code: 'not-a-file' });
}

/** What is ours in a state folder. */
export function findOwnFolder(directory: string): string {
  return path.join(directory, 'reconcile');
}

/** Makes a folder of the state, for its owner alone, and those above it; rejects where it cannot, or where it is not ours. */
export async function claimFolder(folder: string): Promise<void> {
  await makeFolder(folder, 0o700);
  await closeToOthers(folder);
}

/** Closes a folder to others, who could put links there; rejects where it is theirs. The one above may be a group's mount point. */
export async function closeToOthers(folder: string): Promise<void> {
  const found = await lstat(folder);
  const odd = found.isDirectory() ? (isAnothers(found) ? 'belongs to another user' : null) : 'is a link or a file';
  const summary = `the state folder ${folder} ${odd}; remove it, or give another --state-dir`;
  if (odd !== null) throw Object.assign(new Error(summary), { code: 'not-ours' });
  if ((found.mode & 0o077) === 0) return;
  // Kubernetes opens a volume to its group each time it mounts it: what others put there meanwhile is neither followed nor believed.
  await chmod(folder, 0o700);
  for (const name of await readdir(folder)) {
    const entry = await lstat(path.join(folder, name));
    if (entry.isSymbolicLink() || isAnothers(entry)) await rm(path.join(folder, name), { recursive: true });
  }
}

/** What 0.1 kept in the state folder itself, where it is ours and no link. */
async function moveOld(directory: string, folder: string): Promise<void> {
  for (const name of ['record.json', 'journal.jsonl', 'git']) {
    const [old, place] = [path.join(directory, name), path.join(folder, name)];
    const found = await lstat(old).catch(() => null);
    if (found === null || found.isSymbolicLink() || isAnothers(found)) continue;
    if ((await lstat(place).catch(() => null)) === null) await rename(old, place);
  }
}

/** Never so on Windows, where files have no number of a user. */
function isAnothers({ uid }: { readonly uid: number }): boolean {
  return process.geteuid !== undefined && uid !== process.geteuid();
}

/** What names this process, and no other one on this machine. */
export function markProcess(): string {
  return `${process.pid} ${startOf(process.pid)} ${bootId()}`;
}

/** Whether the process with this mark still runs. */
export function isAlive(holder: string): boolean {
  const [pid = '', start = '', boot = ''] = holder.split(' ');
  return boot === bootId() && start !== '' && start === startOf(Number(pid));
}

/** When a process started, in ticks since boot: with its number, the same for no other process. */
function startOf(pid: number): string {
  const text = readProc(`${pid}/stat`);
  return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

function bootId(): string {
  return readProc('sys/kernel/random/boot_id').trim();
}

function readProc(file: string): string {
  return attempt(() => readFileSync(`/proc/${file}`, 'utf8'), '');
}
