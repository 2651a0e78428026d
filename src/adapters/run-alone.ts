import path from 'node:path';
import { lock } from 'proper-lockfile';

/** Does work while no other process does such work in this folder; rejects where another takes longer than some ten seconds. */
export async function runAlone<T>(folder: string, work: () => Promise<T>): Promise<T> {
  // A process that was killed leaves a lock, which is stale after five seconds.
  const release = await lock(folder, {
    lockfilePath: path.join(folder, '.lock'),
    realpath: false,
    stale: 5000,
    retries: { retries: 100, factor: 1, minTimeout: 100 },
    // The library's own way is to throw from a timer, which would end an apply.
    onCompromised: () => undefined,
  });
  try {
    return await work();
  } finally {
    await release().catch(() => undefined);
  }
}
