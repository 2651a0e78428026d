import { dirname, join } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { addRecord, listRecords, readRecord, replaceRecord } from '../adapters/history-folder.ts';
import { claimFolder } from '../adapters/state-folder.ts';
import { getErrorCode, type Result } from '../model/result.ts';
import {
  type ApplyOrigin,
  type ApplyRecord,
  countChanges,
  decodeApplyRecord,
  encodeApplyRecord,
  type FormerRules,
  makeApplyRecord,
} from '../pass/history.ts';
import type { Approve, PassResult } from '../pass/pass.ts';
import type { Plan } from '../plan/plan.ts';
import type { Logger } from '../ports.ts';
import type { Terminal } from './command.ts';
import { makeFailure } from './failure.ts';

/** Is told what an apply is about to change, and what it did, with the secrets that the records leave out. */
export type OnRecord = (record: ApplyRecord, plan: Plan, number: number | null) => Promise<void>;

/** Writes the history of applies: before the first write of each what is about to change, and at its end what did. */
export interface HistoryWriter {
  /** Records each plan that is approved, before its first write. */
  recordApproved(approve: Approve, origin: Pick<ApplyOrigin, 'by' | 'server' | 'revision'>): Approve;
  end(result: PassResult): Promise<void>;
}

/** The folder of the history below a state folder. */
export function locateHistory(stateFolder: string): string {
  return join(stateFolder, 'history');
}

/**
 * A writer for one apply; `former` names rules that a plan deletes. Nothing depends on the history: a folder that cannot be
 * written is a warning.
 */
export function createHistoryWriter(
  stateFolder: string | null,
  logger: Logger,
  former?: FormerRules,
  onRecord: OnRecord = () => Promise.resolve(),
): HistoryWriter {
  let begun: { readonly origin: ApplyOrigin; readonly number: number | null } | null = null;
  const attempt = async (write: (folder: string) => Promise<void>): Promise<void> => {
    if (stateFolder === null) return;
    try {
      await write(locateHistory(stateFolder));
    } catch (error) {
      logger.warn('the history of applies cannot be written; this apply cannot be undone from it', {
        code: getErrorCode(error),
      });
    }
  };
  return {
    recordApproved: (approve, source) => async (plan, desired, digest) => {
      const agreed = await approve(plan, desired, digest);
      const origin = { at: new Date(systemClock.wallTime()).toISOString(), ...source, digest: digest.plan };
      const record = makeApplyRecord(origin, plan, null, former);
      let number: number | null = null;
      const begin = async (folder: string): Promise<void> => {
        for (const one of [dirname(folder), folder]) await claimFolder(one);
        number = await addRecord(folder, encodeApplyRecord(record));
      };
      if (agreed) {
        await attempt(begin);
        begun = { origin, number };
        await onRecord(record, plan, number);
      }
      return agreed;
    },
    async end({ plan, apply }) {
      if (begun === null || plan === null || apply === null) return;
      const { origin, number } = begun;
      begun = null;
      const record = makeApplyRecord(origin, plan, apply, former);
      await onRecord(record, plan, number);
      if (number !== null) await attempt((folder) => replaceRecord(folder, number, encodeApplyRecord(record)));
    },
  };
}

/** Numbers of the records, the newest first; throws a `Failure` where the folder cannot be read. */
export async function listHistory(folder: string): Promise<readonly number[]> {
  try {
    return await listRecords(folder);
  } catch (error) {
    throw makeFailure('state', `the history in ${folder} cannot be read (${getErrorCode(error)})`, 'check --state-dir');
  }
}

/** One record; fails with a sentence. */
export async function loadRecord(folder: string, number: number): Promise<Result<ApplyRecord, string>> {
  const value = await readRecord(folder, number);
  const record = decodeApplyRecord(value);
  return record.ok ? record : { ok: false, error: `apply ${number} in ${folder} cannot be used: ${record.error}` };
}

/** A record and its number. */
export interface NumberedRecord {
  readonly number: number;
  readonly record: ApplyRecord;
}

/** The applies that changed something, or of which nobody knows, the newest first. What cannot be read is left out. */
export async function readHistory(folder: string): Promise<readonly NumberedRecord[]> {
  const numbers = await listHistory(folder);
  const records = await Promise.all(numbers.map((number) => loadRecord(folder, number)));
  return records.flatMap((loaded, index) =>
    loaded.ok && countChanges(loaded.value) > 0 ? [{ number: numbers[index] ?? 0, record: loaded.value }] : [],
  );
}

/** Who runs this: a job of CI, or the user. */
export function describeUser({ env }: Pick<Terminal, 'env'>): string {
  const { GITHUB_RUN_ID, GITHUB_ACTOR, CI_JOB_ID, GITLAB_USER_LOGIN, SUDO_USER, USER, LOGNAME } = env;
  if (GITHUB_RUN_ID !== undefined) return `GitHub run ${GITHUB_RUN_ID} of ${GITHUB_ACTOR ?? 'unknown'}`;
  if (CI_JOB_ID !== undefined) return `GitLab job ${CI_JOB_ID} of ${GITLAB_USER_LOGIN ?? 'unknown'}`;
  return SUDO_USER ?? USER ?? LOGNAME ?? 'unknown';
}
