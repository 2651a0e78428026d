import { existsSync, readdirSync } from 'node:fs';
import { rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { StateFiles } from '../adapters/state-files.ts';
import { isAlive, markProcess } from '../adapters/state-folder.ts';
import { escapeControls } from '../model/printable.ts';
import type { Problem } from '../model/problem.ts';
import { attempt, getErrorCode, isObject } from '../model/result.ts';
import { type BackOrder, listWaiting } from '../pass/go-back.ts';
import { decodeApplyRecord, encodeApplyRecord, joinApplyRecords } from '../pass/history.ts';
import { renderProblems } from '../report/problems.ts';
import { findServer } from './approval.ts';
import { lineToType } from './arguments.ts';
import { type Answer, exitCodes, Failure, type Invocation, makeFailure } from './command.ts';
import { findStateFolder } from './last-apply.ts';
import { describeScope } from './plan-settings.ts';

export interface ConfirmTerms {
  readonly withinMs: number;
  /** Program and arguments; null: a person confirms. */
  readonly command: readonly string[] | null;
}

/** An apply that nobody has confirmed yet. */
export interface PendingApply extends ConfirmTerms, Required<Pick<BackOrder, 'record' | 'known'>> {
  /** The part of the server that it was restricted to (`describeScope`); null: an older version wrote the record. */
  readonly scope: string | null;
  /** When it is taken back (ms since 1970); null: it is still being written. */
  readonly until: number | null;
  /** Until when a request of it without an answer may be carried out (ms since 1970); 0: there is none. */
  readonly openUntil: number;
}

/** One that was read: `until` of one that was killed while it was written counts from its start. */
export interface EarlierApply extends PendingApply {
  readonly until: number;
  /** `writing` while the process that applies it lives, `written` where it was killed before all of it was. */
  readonly stage: 'writing' | 'written' | 'waits' | 'goesBack' | 'wantsSecret';
}

/** Removing the first keeps the apply, renaming it to the second takes it back: one step each, and only one of them can succeed. */
const places = { goesBack: 'going-back.json', waits: 'pending.json', wantsSecret: 'wants-secret.json' } as const;
type Place = keyof typeof places;

const ownerFile = 'owner.json';

/** Where the pending apply lies, and which process sees to it. */
export class PendingFiles extends StateFiles {
  /** Writes the record of an apply that begins; throws a `Failure` where it cannot, or where one of another process waits. */
  async begin(pending: PendingApply): Promise<void> {
    let isOurs: boolean;
    try {
      isOurs = !existsSync(this.locate(places.goesBack)) && (await this.add(places.waits, encodePending(pending)));
      if (isOurs) await this.own();
    } catch (error) {
      throw this.#describeUnwritable(error);
    }
    if (!isOurs)
      throw makeFailure('state', 'another apply began at the same time, and waits to be confirmed', 'wait for it');
  }

  /** Writes it anew, or gives why not. One that was written once is enough to go back: a full disk must not end a run that has written. */
  async save(pending: PendingApply): Promise<readonly Problem[]> {
    const refuse = (error: unknown): readonly Problem[] => this.#describeUnwritable(error).problems;
    return await this.write(places.waits, encodePending(pending)).then(() => [], refuse);
  }

  #describeUnwritable(error: unknown): Failure {
    const summary = `what must be put back if nobody confirms cannot be written in ${dirname(this.folder)} (${getErrorCode(error)})`;
    return makeFailure('state', summary, 'check --state-dir; nothing more is written to the server');
  }

  /** Says that this process sees to the record. */
  async own(): Promise<void> {
    await this.write(ownerFile, markProcess());
  }

  /** The number of the process that sees to the record, where that one is alive and not this one. */
  async findOwner(): Promise<number | null> {
    const mark = await this.read(ownerFile);
    return typeof mark === 'string' && mark !== markProcess() && isAlive(mark) ? Number(mark.split(' ')[0]) : null;
  }

  /** Whether the apply still waits. A state folder that is gone, or cannot be read, confirms nothing. */
  isWaiting(): boolean {
    return attempt(() => readdirSync(this.folder).includes(places.waits), true);
  }

  /** Removes the record; false: it was gone already. Throws a `Failure` where it cannot. */
  async forget(place: Place): Promise<boolean> {
    return await this.remove(places[place]).catch((error: unknown) => {
      const hint = 'remove it to keep the apply: the next one with this state folder would go back';
      throw makeFailure('state', `${this.locate(places[place])} cannot be removed (${getErrorCode(error)})`, hint);
    });
  }

  /** Decides that the apply is taken back; false: it was kept already. */
  async claimGoingBack(): Promise<boolean> {
    return await rename(this.locate(places.waits), this.locate(places.goesBack)).then(
      () => true,
      () => this.isWaiting(),
    );
  }

  /** Ends going back: all that is left of the apply are fields that wait for a secret (`rest`), or nothing. Where it rejects, the next run does it again. */
  async endGoingBack(rest: PendingApply | null): Promise<void> {
    const earlier = rest && decodePending(await this.readOwn(places.wantsSecret), 'wantsSecret');
    // What waits already is not forgotten for what comes to wait.
    const record = earlier && joinApplyRecords([earlier.record, rest.record]);
    if (record) await this.write(places.wantsSecret, encodePending({ ...rest, record }));
    const file = this.locate(places.goesBack);
    await (rest && !record ? rename(file, this.locate(places.wantsSecret)) : unlink(file));
  }
}

/** Where the pending apply lies; throws a `Failure` without a state folder. */
export function openPending(invocation: Invocation): PendingFiles {
  const folder = findStateFolder(invocation);
  if (folder !== null) return new PendingFiles(folder, 'oneshot');
  const summary =
    'an apply that is to be confirmed needs a state folder: what it must put back if it is killed lies there';
  throw makeFailure('state', summary, 'give --state-dir DIR (in CI, or without HOME, nothing is kept without it)');
}

/** The record as a JSON value, without secrets. */
function encodePending({ known, record, withinMs, command, until, openUntil, scope }: PendingApply): unknown {
  const kept = { withinMs, command, until, openUntil, scope, known: [...known], record: encodeApplyRecord(record) };
  return { format_version: 1, kind: 'pending-apply', writer: markProcess(), ...kept };
}

/** Reads the record; null: there is none, as without a state folder. Throws a `Failure` for one that cannot be read, or is of another server. */
export async function loadPending(invocation: Invocation): Promise<EarlierApply | null> {
  if (findStateFolder(invocation) === null) return null;
  const files = openPending(invocation);
  for (const place of Object.keys(places) as readonly Place[]) {
    const value = await files.readOwn(places[place]);
    if (value === undefined) continue;
    const pending = decodePending(value, place);
    if (pending === null) {
      const file = files.locate(places[place]);
      const summary = `the record of an apply in ${file} is open to others, is another user's, or damaged`;
      const hint = `if an apply here wrote it: chmod 600 ${file}, or run as its user; any other keeps what was applied once you remove it`;
      throw makeFailure('state', summary, hint);
    }
    const server = findServer(invocation.settings);
    if (pending.record.server === server) return pending;
    const summary = `an apply to ${escapeControls(String(pending.record.server))} waits to be confirmed, and this is ${server}`;
    throw makeFailure('state', summary, 'check --base-url and --state-dir');
  }
  return null;
}

function decodePending(value: unknown, place: Place): EarlierApply | null {
  if (!isObject(value) || value['format_version'] !== 1 || value['kind'] !== 'pending-apply') return null;
  const { withinMs, command, until, openUntil, scope, writer } = value;
  const record = decodeApplyRecord(value['record']);
  if (!record.ok || typeof withinMs !== 'number') return null;
  const texts = (list: unknown): readonly string[] | null =>
    Array.isArray(list) && list.every((one) => typeof one === 'string') ? list : null;
  const isWritten = typeof until !== 'number';
  const halfway = typeof writer === 'string' && isAlive(writer) ? 'writing' : 'written';
  const end = isWritten ? Date.parse(record.value.at) + withinMs : until;
  const now = systemClock.wallTime();
  return {
    withinMs,
    record: record.value,
    command: texts(command),
    scope: typeof scope === 'string' ? scope : null,
    known: new Set(texts(value['known']) ?? []),
    // A clock that was set back adds nothing.
    until: Number.isNaN(end) ? now : Math.min(end, now + withinMs),
    openUntil: typeof openUntil === 'number' ? openUntil : 0,
    stage: place === 'waits' && isWritten ? halfway : place,
  };
}

/** Whether what is out of this run's scope would not be taken back, and be forgotten. */
export function isOfOtherScope({ scope }: PendingApply, { settings }: Invocation): boolean {
  return scope !== null && scope !== describeScope(settings);
}

/** Says to somebody who looks at what is live that it may be taken back. */
export async function noteWaiting(invocation: Invocation): Promise<void> {
  if (findServer(invocation.settings) === null) return;
  const pending = await loadPending(invocation).catch((error: unknown) => {
    if (!(error instanceof Failure)) throw error;
    const problems = error.problems.map((one) => ({ ...one, severity: 'note' as const }));
    invocation.terminal.stderr(`An apply is refused:\n${renderProblems(problems, false)}`);
    return null;
  });
  if (pending === null || pending.stage === 'wantsSecret') return;
  const { stage, until, record } = pending;
  const isLate = stage === 'goesBack' || (stage !== 'writing' && until <= systemClock.wallTime());
  const late = 'was not confirmed, and is to be taken back. To do that now';
  const end = isLate ? late : 'is not confirmed, and is taken back without that. To keep it';
  const own = isLate && isOfOtherScope(pending, invocation) && ', with the --config, or the fleet, of that apply';
  const line = own ? `reconcile confirm${own}` : lineToType('confirm', invocation.settings);
  const what = `the apply of ${record.at.slice(0, 19)}Z by ${record.by} ${end}: ${line}`;
  invocation.terminal.stderr(`note: ${escapeControls(what)}\n`);
}

/** Forgets fields that wait for a secret once a run has brought each of them about; else says that they wait. */
export async function settleWaiting(invocation: Invocation, { exit = exitCodes.ok, report }: Answer): Promise<void> {
  const pending = await loadPending(invocation);
  if (pending?.stage !== 'wantsSecret') return;
  const files = openPending(invocation);
  const waiting = listWaiting(pending.record);
  const { plan, problems = [] } = report?.() ?? {};
  const { desired } = plan?.changes.find((one) => one.kind === 'Configuration') ?? {};
  // Without a secret nobody knows whether its field is right.
  const isKnown = exit === exitCodes.ok && !problems.some(({ code }) => code === 'unknown-secret');
  const fields = isKnown ? waiting.filter((field) => desired?.fields[field] === undefined) : waiting;
  const left = { ...pending, record: { ...pending.record, fields } };
  if (fields.length === 0) return void (await files.remove(places.wantsSecret).catch(() => false));
  if (isKnown) await files.write(places.wantsSecret, encodePending(left)).catch(() => undefined);
  const what = `${fields.join(', ')}: still as an apply left it that was taken back`;
  const [back, keep] = [lineToType('undo N', invocation.settings), lineToType('confirm', invocation.settings)];
  invocation.terminal.stderr(`note: ${escapeControls(`${what}. Put it back: ${back}. Keep it: ${keep}`)}\n`);
}
