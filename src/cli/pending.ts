import { existsSync, statSync } from 'node:fs';
import { readFile, rename } from 'node:fs/promises';
import { StateFiles } from '../adapters/state-files.ts';
import { isAlive, markProcess } from '../adapters/state-folder.ts';
import { type ConfigurationField, configurationFields } from '../model/configuration.ts';
import { escapeControls } from '../model/printable.ts';
import { getErrorCode, isObject } from '../model/result.ts';
import { type ApplyRecord, decodeApplyRecord, encodeApplyRecord } from '../pass/history.ts';
import { findServer } from './approval.ts';
import { type Invocation, makeFailure } from './command.ts';
import { findStateFolder } from './last-apply.ts';

export interface ConfirmTerms {
  readonly withinMs: number;
  /** Program and arguments; null: a person confirms. */
  readonly command: readonly string[] | null;
}

/** An apply that nobody has confirmed yet. */
export interface PendingApply extends ConfirmTerms {
  readonly record: ApplyRecord;
  /** The rules that were live before it, by `formatRuleKey`. */
  readonly known: ReadonlySet<string>;
  /** When it is taken back (ms since 1970); null: it is still being written. */
  readonly until: number | null;
  /** What is left of it once all else was taken back: fields that wait for a secret. */
  readonly waiting: readonly ConfigurationField[];
}

/** Removing the first keeps the apply, renaming it to the second takes it back: one step each, and only one of them can succeed. */
const places = { waits: 'pending.json', goesBack: 'going-back.json' } as const;
type PendingPlace = keyof typeof places;

const ownerFile = 'pending.owner';

function filesOf(folder: string): StateFiles {
  return new StateFiles(folder, 'oneshot');
}

/** The state folder that pending applies lie in; throws a `Failure` without one. */
export function pendingFolderOf(invocation: Invocation): string {
  const folder = findStateFolder(invocation);
  if (folder !== null) return folder;
  const summary =
    'an apply that is to be confirmed needs a state folder: what it must put back if it is killed lies there';
  throw makeFailure('state', summary, 'give --state-dir DIR (in CI nothing is kept without it)');
}

/** Writes the record without secrets; without it nothing is applied. `isFirst`: of this apply; one of another process is left alone. */
export async function savePending(folder: string, pending: PendingApply, isFirst = false): Promise<void> {
  const { withinMs, command, until, waiting, known, record } = pending;
  const kept = { withinMs, command, until, waiting, known: [...known], record: encodeApplyRecord(record) };
  const value = { format_version: 1, kind: 'pending-apply', ...kept };
  const files = filesOf(folder);
  let isOurs = true;
  try {
    if (isFirst) isOurs = !existsSync(files.locate(places.goesBack)) && (await files.add(places.waits, value));
    if (isOurs) await ownPending(folder);
    if (!isFirst) await files.write(places.waits, value);
  } catch (error) {
    const summary = `what must be put back if nobody confirms cannot be written in ${folder} (${getErrorCode(error)})`;
    throw makeFailure('state', summary, 'check --state-dir; nothing more is written to the server');
  }
  if (!isOurs)
    throw makeFailure('state', 'another apply began at the same time, and waits to be confirmed', 'wait for it');
}

/** Reads the record; null: there is none. Throws a `Failure` for one that cannot be read, or is of another server. */
export async function loadPending(
  invocation: Invocation,
  folder: string,
): Promise<(PendingApply & { readonly place: PendingPlace }) | null> {
  const files = filesOf(folder);
  for (const place of ['goesBack', 'waits'] as const) {
    const value = await files.readOwn(places[place]);
    if (value === undefined) continue;
    const pending = decodePending(value);
    const where = files.locate(places[place]);
    if (pending === null)
      throw makeFailure(
        'state',
        `the record of an apply in ${where} cannot be read`,
        'check the server, then remove it',
      );
    const server = findServer(invocation.settings);
    if (pending.record.server === server) return { ...pending, place };
    const summary = `an apply to ${escapeControls(String(pending.record.server))} waits to be confirmed, and this is ${server}`;
    throw makeFailure('state', summary, 'check --base-url and --state-dir');
  }
  return null;
}

function decodePending(value: unknown): PendingApply | null {
  if (!isObject(value) || value['format_version'] !== 1 || value['kind'] !== 'pending-apply') return null;
  const { withinMs, command, until, waiting, known } = value;
  const record = decodeApplyRecord(value['record']);
  if (!record.ok || typeof withinMs !== 'number') return null;
  const texts = (list: unknown): readonly string[] | null =>
    Array.isArray(list) && list.every((one) => typeof one === 'string') ? list : null;
  return {
    withinMs,
    record: record.value,
    command: texts(command),
    until: typeof until === 'number' ? until : null,
    known: new Set(texts(known) ?? []),
    waiting: configurationFields.filter((field) => texts(waiting)?.includes(field)),
  };
}

/** Says that this process sees to the record. */
export async function ownPending(folder: string): Promise<void> {
  await filesOf(folder).writeText(ownerFile, markProcess());
}

/** The number of the process that sees to the record, where that one is alive and not this one. */
export async function findPendingOwner(folder: string): Promise<number | null> {
  const mark = await readFile(filesOf(folder).locate(ownerFile), 'utf8').catch(() => '');
  return mark !== markProcess() && isAlive(mark) ? Number(mark.split(' ')[0]) : null;
}

/** Whether the apply still waits. A state folder that is gone, or cannot be read, confirms nothing. */
export function isPending(folder: string): boolean {
  try {
    statSync(filesOf(folder).locate(places.waits));
    return true;
  } catch (error) {
    return !isRemoved(folder, error);
  }
}

/** Removes the record; false: it was gone already. */
export async function removePending(folder: string, place: PendingPlace): Promise<boolean> {
  return await filesOf(folder).remove(places[place]);
}

/** Decides that the apply is taken back; false: it was kept already. */
export async function claimGoingBack(folder: string): Promise<boolean> {
  const files = filesOf(folder);
  return await rename(files.locate(places.waits), files.locate(places.goesBack)).then(
    () => true,
    (error: unknown) => !isRemoved(folder, error),
  );
}

/** Whether an error says that the record alone was taken away. */
function isRemoved(folder: string, error: unknown): boolean {
  return getErrorCode(error) === 'ENOENT' && existsSync(filesOf(folder).folder);
}
