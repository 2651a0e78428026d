import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Result } from '../model/result.ts';
import { fail, ok } from '../model/result.ts';
import { makeFolder } from './make-folder.ts';

/** The folder that one controller keeps its state in: clone, record, journal. */
export interface StateFolder {
  readonly path: string;
  /** Lets another process have it; a temporary folder is removed. */
  release(): Promise<void>;
}

/** Makes a temporary state folder: nothing survives a restart. */
export function temporaryState(): Result<StateFolder, string> {
  try {
    const folder = mkdtempSync(path.join(tmpdir(), 'reconcile-'));
    return ok({ path: folder, release: async () => rmSync(folder, { recursive: true, force: true }) });
  } catch (error) {
    return fail(`no temporary folder can be made in ${tmpdir()} (${codeOf(error)}), and there is no --state-dir`);
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'failed';
}

/**
 * Takes a state folder for this process. Refused while the process that holds it is alive on this machine; the mark of one
 * that was killed is passed over at once.
 */
export async function openState(folder: string): Promise<Result<StateFolder, string>> {
  const mark = path.join(folder, 'owner');
  const mine = `${process.pid} ${startOf(process.pid)} ${bootId()}`;
  try {
    await makeFolder(folder, 0o700);
    const holder = await readFile(mark, 'utf8').catch(() => '');
    if (holder !== mine && isAlive(holder)) {
      return fail(
        `the state directory ${folder} is in use by process ${holder.split(' ')[0]}; give each process its own`,
      );
    }
    await writeFile(mark, mine, { mode: 0o600 });
  } catch (error) {
    return fail(`the state directory ${folder} cannot be written (${codeOf(error)})`);
  }
  return ok({ path: folder, release: () => rm(mark, { force: true }) });
}

function isAlive(holder: string): boolean {
  const [pid = '', start = '', boot = ''] = holder.split(' ');
  return boot === bootId() && start !== '' && start === startOf(Number(pid));
}

/** When a process started, in ticks since boot: with its number, the same for no other process. */
function startOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
