import { lstatSync, mkdirSync, type Stats } from 'node:fs';
import module from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';

/** What decides whether a folder may hold code that is run: who it belongs to, and who else can write there. */
export type FolderLook = Pick<Stats, 'isDirectory' | 'uid' | 'mode'>;

/** Who runs what, and how folders are looked at; undefined where there is none. */
export interface CompileCacheInput {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly args: readonly string[];
  readonly home: string;
  readonly uid: number;
  readonly look: (folder: string) => FolderLook | undefined;
}

/** The folder for what V8 compiled; null: none. Who can write there, or above, decides what the next run does: only we may. */
export function findCompileCache({ env, args, home, uid, look }: CompileCacheInput): string | null {
  // CI keeps nothing, and a sidecar starts once.
  if (env['CI'] || args.includes('watch') || args.includes('--watch')) return null;
  const base = env['XDG_CACHE_HOME'] || (home === '' ? '' : path.join(home, '.cache'));
  if (!path.isAbsolute(base)) return null;
  const folder = path.join(base, 'firezone-reconcile');
  const own = look(folder);
  if (own !== undefined && (own.uid !== uid || (own.mode & 0o077) !== 0)) return null;
  for (let at = folder; ; at = path.dirname(at)) {
    const found = look(at);
    if (found !== undefined && !isSafe(found, uid)) return null;
    if (at === path.dirname(at)) return folder;
  }
}

/** A link is none; a folder that all can write, as the shared temporary one is, is not either, sticky or not. */
function isSafe(folder: FolderLook, mine: number): boolean {
  return folder.isDirectory() && (folder.uid === mine || folder.uid === 0) && (folder.mode & 0o022) === 0;
}

/** Turns the cache on, where this Node has one; nothing depends on it. */
export function enableCompileCache(args: readonly string[]): void {
  const uid = process.geteuid?.();
  // From Node 22.1 on.
  const node: typeof module & { readonly enableCompileCache?: (folder: string) => unknown } = module;
  if (node.enableCompileCache === undefined || uid === undefined) return;
  try {
    const look = (folder: string): Stats | undefined => lstatSync(folder, { throwIfNoEntry: false });
    const folder = findCompileCache({ env: process.env, args, home: homedir(), uid, look });
    if (folder === null) return;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    node.enableCompileCache(folder);
  } catch {
    // A folder that cannot be made is not worth a message: the start takes as long as without.
  }
}
