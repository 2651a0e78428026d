import { beginPending, type PendingPlace, readPending, writePending } from '../adapters/pending-apply.ts';

import type { ConfigurationField } from '../model/configuration.ts';
import { configurationFields } from '../model/configuration.ts';
import { escapeControls } from '../model/printable.ts';
import { getErrorCode, isObject } from '../model/result.ts';
import { type ApplyRecord, decodeApplyRecord, encodeApplyRecord } from '../pass/history.ts';
import { findServer } from './approval.ts';
import type { Invocation } from './command.ts';
import { makeFailure } from './failure.ts';
import { findStateFolder } from './last-apply.ts';

/** How an apply is to be confirmed. */
export interface ConfirmTerms {
  readonly withinMs: number;
  /** Program and arguments; null: a person confirms. */
  readonly command: readonly string[] | null;
}

/** An apply that nobody has confirmed yet. */
export interface PendingApply extends ConfirmTerms {
  readonly record: ApplyRecord;
  /** Its number in the history. */
  readonly number: number | null;
  /** The rules that were live before it, by `formatRuleKey`. */
  readonly known: ReadonlySet<string>;
  /** When it is taken back (ms since 1970); null: it is still being written. */
  readonly until: number | null;
  /** What is left of it once all else was taken back: fields that wait for a secret. */
  readonly waiting: readonly ConfigurationField[];
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
  const { record, known, ...rest } = pending;
  const value = {
    format_version: 1,
    kind: 'pending-apply',
    ...rest,
    known: [...known],
    record: encodeApplyRecord(record),
  };
  let isOurs = true;
  try {
    if (isFirst) isOurs = await beginPending(folder, value);
    else await writePending(folder, value);
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
  place: PendingPlace,
): Promise<PendingApply | null> {
  const value = await readPending(folder, place);
  if (value === undefined) return null;
  const pending = decodePending(value);
  const where = `${folder}/oneshot/${place}.json`;
  if (pending === null)
    throw makeFailure('state', `the record of an apply in ${where} cannot be read`, `check the server, then remove it`);
  const server = findServer(invocation.settings);
  if (pending.record.server === server) return pending;
  const summary = `an apply to ${escapeControls(String(pending.record.server))} waits to be confirmed, and this is ${server}`;
  throw makeFailure('state', summary, 'check --base-url and --state-dir');
}

function decodePending(value: unknown): PendingApply | null {
  if (!isObject(value) || value['format_version'] !== 1 || value['kind'] !== 'pending-apply') return null;
  const { withinMs, command, number, until, waiting, known } = value;
  const record = decodeApplyRecord(value['record']);
  if (!record.ok || typeof withinMs !== 'number') return null;
  const texts = (list: unknown): readonly string[] | null =>
    Array.isArray(list) && list.every((one) => typeof one === 'string') ? list : null;
  return {
    withinMs,
    record: record.value,
    command: texts(command),
    number: typeof number === 'number' ? number : null,
    until: typeof until === 'number' ? until : null,
    known: new Set(texts(known) ?? []),
    waiting: configurationFields.filter((field) => texts(waiting)?.includes(field)),
  };
}
