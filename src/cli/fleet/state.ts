import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { replaceFile } from '../../adapters/replace-file.ts';
import { claimFolder, makeTemporaryState, openState } from '../../adapters/state-folder.ts';
import { isObject } from '../../model/result.ts';
import type { Logger } from '../../ports.ts';
import { makeFailure } from '../failure.ts';
import type { Settings } from '../settings.ts';
import type { FailedRevision } from './rollout.ts';

/** What a fleet keeps beside the states of its targets: clones, and the revisions that failed. */
export interface FleetState {
  readonly folder: string;
  /** What an earlier process remembered. */
  readonly failed: readonly FailedRevision[];
  remember(failed: readonly FailedRevision[], logger: Logger): void;
  release(): Promise<void>;
}

/** Opens the state of a fleet; throws a `Failure` where it cannot be used. */
export async function openFleetState({ stateDir }: Settings): Promise<FleetState> {
  // What failed, and the clones, are one process's: another would forget what this one remembers.
  const made = stateDir === null ? makeTemporaryState() : await openState(stateDir);
  if (!made.ok) throw makeFailure('state', made.error, stateDir === null ? 'give --state-dir' : 'check --state-dir');
  const folder = stateDir === null ? made.value.path : path.join(made.value.path, 'fleet');
  await claimFolder(folder).catch(() => {
    throw makeFailure('state', `the state directory ${folder} cannot be used`, 'check --state-dir');
  });
  const file = path.join(folder, 'failed.json');
  let saved: Promise<void> = Promise.resolve();
  return {
    folder,
    failed: readFailed(file),
    remember(failed, logger) {
      saved = saved
        .then(() => replaceFile(file, `${JSON.stringify(failed)}\n`, 0o600))
        .catch(() => logger.error('It cannot be remembered that a revision failed', { file }));
    },
    async release() {
      await saved;
      await made.value.release();
    },
  };
}

function readFailed(file: string): readonly FailedRevision[] {
  if (!existsSync(file)) return [];
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (Array.isArray(value) && value.every(isFailed)) return value;
  } catch {
    // said below
  }
  const hint = 'remove it, if no revision that failed is to be kept from other targets';
  throw makeFailure('state', `${file} cannot be read: it says which revisions failed`, hint);
}

function isFailed(value: unknown): value is FailedRevision {
  if (!isObject(value)) return false;
  const { revision, target, message, at } = value;
  return [revision, target, message].every((one) => typeof one === 'string') && typeof at === 'number';
}
