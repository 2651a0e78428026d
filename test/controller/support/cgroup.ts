import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

interface Files {
  readonly root: string;
  readonly limit: string;
  readonly swap: string | null;
  readonly events: string;
}

const places: readonly Files[] = [
  { root: '/sys/fs/cgroup', limit: 'memory.max', swap: 'memory.swap.max', events: 'memory.events' },
  { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes', swap: null, events: 'memory.oom_control' },
];

/** How this machine limits memory, where this process may; null: it may not, and tests of it are skipped. */
export const memoryCgroups: Files | null = places.find(isUsable) ?? null;

function isUsable({ root, limit }: Files): boolean {
  const folder = path.join(root, `reconcile-probe-${process.pid}`);
  try {
    mkdirSync(folder);
    try {
      return existsSync(path.join(folder, limit));
    } finally {
      rmdirSync(folder);
    }
  } catch {
    return false;
  }
}

/** A group of processes whose memory together is limited. */
export interface MemoryCgroup {
  add(pid: number): void;
  /** How many of its processes the system has killed for want of memory. */
  kills(): number;
  remove(): void;
}

/** Makes a group with at most so many bytes. */
export function enterMemoryCgroup(bytes: number): MemoryCgroup {
  if (memoryCgroups === null) throw new Error('no memory cgroup can be made here');
  const { root, limit, swap, events } = memoryCgroups;
  const folder = path.join(root, `reconcile-test-${process.pid}-${Date.now()}`);
  mkdirSync(folder);
  writeFileSync(path.join(folder, limit), String(bytes));
  if (swap !== null && existsSync(path.join(folder, swap))) writeFileSync(path.join(folder, swap), '0');
  return {
    add: (pid) => writeFileSync(path.join(folder, 'cgroup.procs'), String(pid)),
    kills: () => Number(/oom_kill (\d+)/.exec(readFileSync(path.join(folder, events), 'utf8'))?.[1] ?? 0),
    remove: () => rmdirSync(folder),
  };
}
