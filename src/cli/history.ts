import { systemClock } from '../adapters/clock.ts';
import { StateFiles } from '../adapters/state-files.ts';
import { fail, getErrorCode, isObject, ok, type Result } from '../model/result.ts';
import { formatRuleKey } from '../model/rule.ts';
import {
  type ApplyOrigin,
  type ApplyRecord,
  countChanges,
  decodeApplyRecord,
  encodeApplyRecord,
  type LookUpFormer,
  makeApplyRecord,
} from '../pass/history.ts';
import type { Approve, PassResult } from '../pass/pass.ts';
import type { Plan } from '../plan/plan.ts';
import type { Logger } from '../ports.ts';
import { makeFailure, type Terminal } from './command.ts';

/** Is told what an apply is about to change, and what it did, with the secrets that the records leave out. */
export type OnRecord = (record: ApplyRecord, plan: Plan) => Promise<void>;

/** Records that are kept; older ones are removed as new ones are written. */
const mostRecords = 50;
/** Names and ends of rules of removed records that are still to end, by `formatRuleKey`. */
const endsFile = 'ends.json';

/**
 * Writes the history of one apply: before its first write what it is about to change, and at its end what it did. Nothing depends on
 * the history: a folder that cannot be written is a warning. What `lookUp` does not know of a rule that is deleted, the history may say.
 */
export function createHistoryWriter(
  stateFolder: string | null,
  logger: Logger,
  onRecord: OnRecord,
  lookUp: LookUpFormer,
) {
  const files = stateFolder === null ? null : new StateFiles(stateFolder, 'history');
  let begun: { readonly origin: ApplyOrigin; readonly number: number; readonly former: LookUpFormer } | null = null;
  const attempt = async <T>(write: (into: StateFiles) => Promise<T>): Promise<T | undefined> => {
    if (files === null) return undefined;
    return await write(files).catch((error: unknown) => {
      const code = getErrorCode(error);
      logger.warn('the history of applies cannot be written; this apply cannot be undone from it', { code });
      return undefined;
    });
  };
  return {
    /** Records each plan that is approved, before its first write. */
    recordApproved(approve: Approve, source: Pick<ApplyOrigin, 'by' | 'server' | 'revision'>): Approve {
      return async (plan, desired, digest) => {
        if (!(await approve(plan, desired, digest))) return false;
        const origin = { at: new Date(systemClock.wallTime()).toISOString(), ...source, digest: digest.plan };
        const former = await findFormer(plan, lookUp, files);
        const record = makeApplyRecord(origin, plan, null, former);
        const number = await attempt((into) => addRecord(into, encodeApplyRecord(record)));
        begun = { origin, number: number ?? 0, former };
        await onRecord(record, plan);
        return true;
      };
    },
    async end({ plan, apply }: PassResult): Promise<void> {
      if (begun === null || plan === null || apply === null) return;
      const { origin, number, former } = begun;
      begun = null;
      const record = makeApplyRecord(origin, plan, apply, former);
      await onRecord(record, plan);
      if (number > 0) await attempt((into) => into.write(`${number}.json`, encodeApplyRecord(record)));
    },
  };
}

/** An undo puts rules back that no manifest names: only its record, the newest that names a rule, says when they end. */
async function findFormer({ steps }: Plan, known: LookUpFormer, files: StateFiles | null): Promise<LookUpFormer> {
  const changed = steps.flatMap((step) =>
    'live' in step && known(step.live.rule) === undefined ? step.live.rule : [],
  );
  if (files === null || changed.length === 0) return known;
  const wanted = new Set(changed.map(formatRuleKey));
  const found = await readFormer(files, await listRecords(files).catch(() => []), wanted);
  return (rule) => known(rule) ?? found.get(formatRuleKey(rule));
}

/** What the first of these records that names a rule says of it, else those that were removed; `wanted` null: of all rules. */
async function readFormer(files: StateFiles, numbers: readonly number[], wanted: ReadonlySet<string> | null) {
  const found = new Map<string, NonNullable<ReturnType<LookUpFormer>>>();
  for (const number of numbers) {
    if (found.size === wanted?.size) break;
    const loaded = await loadRecord(files, number);
    if (!loaded.ok) continue;
    const { created, deleted, names, expires } = loaded.value;
    for (const { rule } of [...created, ...deleted]) {
      const key = formatRuleKey(rule);
      if (wanted?.has(key) === false || found.has(key)) continue;
      found.set(key, { name: names.get(key) ?? null, expires: expires.get(key) });
    }
  }
  const removed = await files.read(endsFile);
  for (const [key, end] of Object.entries(isObject(removed) ? removed : {})) {
    if (!isObject(end) || found.has(key)) continue;
    found.set(key, { name: typeof end['name'] === 'string' ? end['name'] : null, expires: Number(end['expires']) });
  }
  return found;
}

/**
 * Removes records, the newest given first, but not when rules in them end: an undo would bring such a rule back for good. Returns how
 * many it removed.
 */
export async function dropRecords(files: StateFiles, numbers: readonly number[]): Promise<number> {
  if ((await files.list()).length === 0) return 0;
  const { runAlone } = await import('../adapters/run-alone.ts');
  return await runAlone(files.folder, async () => {
    const now = systemClock.wallTime();
    const known = [...(await readFormer(files, numbers, null))];
    const ends = known.filter(([, { expires = 0 }]) => expires > now);
    await (ends.length === 0 ? files.remove(endsFile) : files.write(endsFile, Object.fromEntries(ends)));
    let removed = 0;
    for (const number of numbers) if (await files.remove(`${number}.json`)) removed++;
    return removed;
  });
}

/** Adds a record with the next number, and removes what is older than the last 50. Returns its number. */
async function addRecord(files: StateFiles, value: unknown): Promise<number> {
  const known = await listRecords(files);
  let number = (known[0] ?? 0) + 1;
  // Another process may take the same number at this moment.
  while (!(await files.add(`${number}.json`, value))) number++;
  if (known.length >= mostRecords) await dropRecords(files, known.slice(mostRecords - 1));
  return number;
}

async function listRecords(files: StateFiles): Promise<readonly number[]> {
  const numbers = (await files.list()).flatMap((name) => /^(\d{1,9})\.json$/.exec(name)?.[1] ?? []).map(Number);
  return numbers.sort((a, b) => b - a);
}

/** Numbers of the records, the newest first; throws a `Failure` where the folder cannot be read. */
export async function listHistory(files: StateFiles): Promise<readonly number[]> {
  return await listRecords(files).catch((error: unknown) => {
    const summary = `the history in ${files.folder} cannot be read (${getErrorCode(error)})`;
    throw makeFailure('state', summary, 'check --state-dir');
  });
}

/** A record, and by which number people call it. */
export interface NumberedRecord extends ApplyRecord {
  readonly number: number;
}

/** One record; fails with a sentence. */
export async function loadRecord(files: StateFiles, number: number): Promise<Result<NumberedRecord, string>> {
  const record = decodeApplyRecord(await files.read(`${number}.json`));
  if (record.ok) return ok({ ...record.value, number });
  return fail(`apply ${number} in ${files.folder} cannot be used: ${record.error}`);
}

/** The applies that changed something, or of which nobody knows, the newest first. What cannot be read is left out. */
export async function readHistory(files: StateFiles): Promise<readonly NumberedRecord[]> {
  const loaded = await Promise.all((await listHistory(files)).map((number) => loadRecord(files, number)));
  return loaded.flatMap((record) => (record.ok && countChanges(record.value) > 0 ? [record.value] : []));
}

/** Who runs this: a job of CI, or the user. */
export function describeUser({ env }: Pick<Terminal, 'env'>): string {
  const { GITHUB_RUN_ID, GITHUB_ACTOR, CI_JOB_ID, GITLAB_USER_LOGIN, SUDO_USER, USER, LOGNAME } = env;
  if (GITHUB_RUN_ID !== undefined) return `GitHub run ${GITHUB_RUN_ID} of ${GITHUB_ACTOR ?? 'unknown'}`;
  if (CI_JOB_ID !== undefined) return `GitLab job ${CI_JOB_ID} of ${GITLAB_USER_LOGIN ?? 'unknown'}`;
  return SUDO_USER ?? USER ?? LOGNAME ?? 'unknown';
}
