import { stat } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../adapters/clock.ts';
import { StateFiles } from '../adapters/state-files.ts';
import type { Problem } from '../model/problem.ts';
import { fail, getErrorCode, ok, type Result } from '../model/result.ts';
import { formatRuleKey } from '../model/rule.ts';
import type { BackOrder } from '../pass/go-back.ts';
import type { ApplyOrigin, ApplyRecord, LookUpFormer, Progress } from '../pass/history.ts';
import { countChanges, decodeApplyRecord, encodeApplyRecord, listEnds, makeApplyRecord } from '../pass/history.ts';
import type { Approve, PassDependencies, PassResult } from '../pass/pass.ts';
import type { Plan } from '../plan/plan.ts';
import type { Logger } from '../ports.ts';
import { findServer } from './approval.ts';
import { type Invocation, makeFailure, type Terminal } from './command.ts';
import { findStateFolder } from './last-apply.ts';

/** Is told what an apply is about to change, and what it did, with all secrets; gives what keeps it from going on. */
export type OnRecord = (record: ApplyRecord, plan: Plan) => Promise<readonly Problem[]>;

/** Records that are kept, and bytes of all but the newest; older ones are removed as new ones are written. */
const [mostRecords, mostBytes] = [50, 500_000_000];

/** What is known of rules after an apply: what that created ends as its record says. */
function lookUpAfter(record: ApplyRecord | null, lookUp: LookUpFormer): LookUpFormer {
  const created = new Set(record?.created.map(({ rule }) => formatRuleKey(rule)));
  return (rule) => (created.has(formatRuleKey(rule)) ? record?.said.get(formatRuleKey(rule)) : lookUp(rule));
}

/**
 * Writes the history of one apply: before the first write of each plan what it changes, and at its end what it did. Nothing depends on
 * the history: a folder that cannot be written is a warning. What `lookUp` does not know of a rule that is deleted, the record before
 * may say: an undo puts rules back that no manifest names. Of an apply that goes back (`back`), what it takes back has no say.
 */
export function createHistoryWriter(
  stateFolder: string | null,
  logger: Logger,
  onRecord: OnRecord,
  lookUp: LookUpFormer,
  back?: BackOrder,
) {
  const taken = back?.goesBack ? back.record : null;
  const files = stateFolder === null ? null : new StateFiles(stateFolder, 'history');
  const attempt = async <T>(write: (into: StateFiles) => Promise<T>): Promise<T | undefined> => {
    if (files === null) return undefined;
    return await write(files).catch((error: unknown) => {
      const code = getErrorCode(error);
      logger.warn('the history of applies cannot be written; this apply cannot be undone from it', { code });
      return undefined;
    });
  };
  let end = async (_: PassResult): Promise<void> => {};
  let onReplan: NonNullable<PassDependencies['onReplan']> = async () => [];
  return {
    /** Records each plan that is approved, before its first write. */
    recordApproved(approve: Approve, source: Pick<ApplyOrigin, 'by' | 'server' | 'revision'>): Approve {
      // Makes the records of one apply, each after the newest one that is known.
      const begin = (digest: PassResult['digest']) => {
        const origin = { at: new Date(systemClock.wallTime()).toISOString(), ...source, digest: digest?.plan ?? null };
        let earlier: ApplyRecord | null = null;
        return (plan: Plan, apply: Progress | null, newest: ApplyRecord | null = null): ApplyRecord => {
          earlier = newest ?? earlier;
          const ends = taken?.endsBefore ?? listEnds(earlier);
          return makeApplyRecord(origin, plan, apply, { lookUp: lookUpAfter(taken ?? earlier, lookUp), ends });
        };
      };
      end = async ({ end: how, plan, digest }) => {
        if (how === 'in-sync' && plan !== null)
          await attempt((into) => addRecord(into, (one) => begin(digest)(plan, null, one)));
      };
      return async (plan, desired, digest) => {
        if (!(await approve(plan, desired, digest))) return false;
        const make = begin(digest);
        const number = await attempt((into) => addRecord(into, (newest) => make(plan, null, newest)));
        const save = async (carriedOut: Plan, apply: Progress) => {
          const record = make(carriedOut, apply);
          const obstacles = await onRecord(record, carriedOut);
          if (number !== undefined) await attempt((into) => rewriteRecord(into, number, record));
          return obstacles;
        };
        end = async ({ plan: carriedOut, apply }) => {
          if (carriedOut !== null && apply !== null) await save(carriedOut, apply);
        };
        onReplan = ({ steps }, outcomes) => save({ ...plan, steps }, { outcomes });
        await onRecord(make(plan, null), plan);
        return true;
      };
    },
    /** Records a plan that is made on the way, before its first write: what a killed run has to take back. */
    onReplan: (...told: Parameters<typeof onReplan>) => onReplan(...told),
    /** Records what became of the plan, and what manifests say now of ends where nothing was to be written. */
    end: async (result: PassResult): Promise<void> => await end(result),
  };
}

async function rewriteRecord(files: StateFiles, number: number, record: ApplyRecord): Promise<void> {
  const held = await loadRecord(files, number);
  // Where all were pruned meanwhile, another apply may have its number.
  if (held.ok && held.value.at === record.at) await files.write(`${number}.json`, encodeApplyRecord(record));
  else await addRecord(files, () => record);
}

/** Adds what `make` makes of the newest record, and removes what is too old. Returns its number; undefined: nothing new. */
async function addRecord(files: StateFiles, make: (newest: ApplyRecord | null) => ApplyRecord) {
  for (let tries = 0; ; tries++) {
    const known = await listRecords(files);
    const number = (known[0] ?? 0) + 1 + tries;
    const newest = await loadNewest(files, known);
    const record = make(newest);
    if (countChanges(record) === 0 && isDeepStrictEqual(record.said, listEnds(newest))) return undefined;
    // Another process may take the same number at this moment: then its record is the newest.
    if (!(await files.add(`${number}.json`, encodeApplyRecord(record)))) continue;
    // What has no changes was there for its ends, which this one has too.
    const spent = newest !== null && countChanges(newest) === 0 ? newest.number : null;
    let [bytes, applies] = [0, countChanges(record) === 0 ? 0 : 1];
    for (const old of known) {
      bytes += (await stat(files.locate(`${old}.json`)).catch(() => ({ size: 0 }))).size;
      if (old !== spent) applies++;
      if (old === spent || applies > mostRecords || bytes > mostBytes) await files.remove(`${old}.json`);
    }
    return number;
  }
}

/** The newest that can be read. */
export async function loadNewest(files: StateFiles, numbers?: readonly number[]): Promise<NumberedRecord | null> {
  for (const number of numbers ?? (await listRecords(files))) {
    const record = await loadRecord(files, number);
    if (record.ok) return record.value;
  }
  return null;
}

/** When rules end by the newest record, where that is of this server, and was written after `since` (ms since 1970). */
export async function loadEnds(invocation: Invocation, since = 0): Promise<ApplyRecord['said']> {
  const stateFolder = findStateFolder(invocation);
  if (stateFolder === null) return new Map();
  const files = new StateFiles(stateFolder, 'history');
  const [number] = await listRecords(files).catch(() => []);
  const file = number === undefined ? null : await stat(files.locate(`${number}.json`)).catch(() => null);
  // The record of a large apply is large.
  const newest = file !== null && file.mtimeMs > since ? await loadNewest(files).catch(() => null) : null;
  return listEnds(newest?.server === findServer(invocation.settings) ? newest : null);
}

/** Removes all records; one without changes stays, or is made, where rules are to end. Returns how many it removed. */
export async function pruneHistory(files: StateFiles): Promise<number> {
  const numbers = await listRecords(files);
  const newest = await loadNewest(files, numbers);
  const said = listEnds(newest);
  const kept = newest !== null && said.size > 0 && countChanges(newest) === 0 ? newest.number : null;
  // Where another process adds a record at this moment, that one has the ends.
  if (newest !== null && said.size > 0 && kept === null) {
    const ends = { ...newest, deleted: [], created: [], said, fields: [], before: null, after: null };
    await files.add(`${(numbers[0] ?? 0) + 1}.json`, encodeApplyRecord(ends));
  }
  let removed = 0;
  for (const number of numbers) if (number !== kept && (await files.remove(`${number}.json`))) removed++;
  return removed;
}

async function listRecords(files: StateFiles): Promise<readonly number[]> {
  const numbers = (await files.list()).flatMap((name) => /^(\d{1,15})\.json$/.exec(name)?.[1] ?? []).map(Number);
  return numbers.sort((a, b) => b - a);
}

/** A record, and by which number people call it. */
export interface NumberedRecord extends ApplyRecord {
  readonly number: number;
}

/** One record; fails with a sentence. */
export async function loadRecord(files: StateFiles, number: number): Promise<Result<NumberedRecord, string>> {
  const value = await files.read(`${number}.json`);
  if (value === undefined) return fail(`no apply ${number} is recorded in ${files.folder}`);
  const unread = 'it is damaged, or open to others (if an apply here wrote it: chmod 600)';
  const record = value === null ? fail(unread) : decodeApplyRecord(value);
  if (record.ok) return ok({ ...record.value, number });
  return fail(`apply ${number} in ${files.folder} cannot be used: ${record.error}`);
}

/** The applies that changed something, or may have, newest first; `onBroken` is told of those that cannot be read. Throws a `Failure` where the folder cannot be read. */
export async function* walkHistory(files: StateFiles, onBroken: (number: number, error: string) => void = () => {}) {
  for (const number of await listRecords(files).catch(refuseFolder(files, 'read'))) {
    const record = await loadRecord(files, number);
    if (!record.ok) onBroken(number, record.error);
    else if (countChanges(record.value) > 0) yield record.value;
  }
}

/** The last apply that changed something; throws a `Failure` where a later record cannot be read: that one may be the last. */
export async function loadLast(files: StateFiles): Promise<NumberedRecord | null> {
  const refuse = (_: number, error: string): never => {
    throw makeFailure('state', error, 'to undo an earlier apply, name it: `reconcile undo N`');
  };
  for await (const record of walkHistory(files, refuse)) return record;
  return null;
}

/** Throws a `Failure` for a folder that cannot be read, or pruned. */
export function refuseFolder({ folder }: StateFiles, what: 'read' | 'pruned'): (error: unknown) => never {
  return (error) => {
    const summary = `the history in ${folder} cannot be ${what} (${getErrorCode(error)})`;
    throw makeFailure('state', summary, 'check --state-dir');
  };
}

/** Who runs this: a job of CI, or the user. */
export function describeUser({ env }: Pick<Terminal, 'env'>): string {
  const { GITHUB_RUN_ID, GITHUB_ACTOR, CI_JOB_ID, GITLAB_USER_LOGIN, SUDO_USER, USER, LOGNAME } = env;
  if (GITHUB_RUN_ID !== undefined) return `GitHub run ${GITHUB_RUN_ID} of ${GITHUB_ACTOR ?? 'unknown'}`;
  if (CI_JOB_ID !== undefined) return `GitLab job ${CI_JOB_ID} of ${GITLAB_USER_LOGIN ?? 'unknown'}`;
  return SUDO_USER || USER || LOGNAME || `uid ${process.getuid?.() ?? 'unknown'}`;
}
