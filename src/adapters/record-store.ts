import { readFile } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod';
import type { LoopRecord, RecordStore, RecordText } from '../controller/record.ts';
import { emptyRecord, listRevisions, lostRecord, recordShape } from '../controller/record.ts';
import { attempt, getErrorCode, replaceError } from '../model/result.ts';
import type { Logger } from '../ports.ts';
import { replaceFile } from './replace-file.ts';
import { readStateFile } from './state-folder.ts';

const shape = recordShape.extend({ format_version: z.literal(1), seal: z.string().max(500).optional() });

/** An annotation holds no more, and neither does a record. */
const largest = 65_536;

/** Seals a text under the API token; throws without one. */
type Seal = (text: string) => string;

/**
 * The record as text that lies with the lease, or in a file. Whoever may write a Lease must not be able to have secrets sent
 * elsewhere, commits applied that are not on the branch, or a fleet kept from a revision: so what it says of them is sealed.
 * Null: nobody else writes it, and one that cannot be written ends nothing, unless it alone would say which revision waits.
 */
export function storeRecord(text: RecordText, logger: Logger, seal: Seal | null): RecordStore {
  /** What lay there last, as far as this process knows. */
  let there: LoopRecord | null = null;
  let peeked: { seen: string | null; record: LoopRecord | null } = { seen: null, record: null };
  return {
    async load() {
      const found = await text.read().catch((error: unknown) => error);
      if (found === null && there === null) return emptyRecord;
      there = (typeof found === 'string' ? decodeRecord(found, seal) : null) ?? lostRecord;
      const code = typeof found === 'string' ? 'not-a-record' : getErrorCode(found, 'gone');
      if (there === lostRecord)
        logger.warn('The record cannot be read; it is made anew, and nothing is deleted because of it', { code });
      return there;
    },
    peek() {
      const seen = text.seen?.() ?? null;
      if (seen !== peeked.seen) peeked = { seen, record: seen === null ? null : decodeRecord(seen, seal) };
      return peeked.record;
    },
    async save(record) {
      const { isSealed, ...written } = record;
      const { pendingRevision, givenUp } = record;
      const mark = isSealed ? sealOf(written, seal) : undefined;
      const isKept = await text.write(`${JSON.stringify({ format_version: 1, ...written, seal: mark })}\n`);
      if (isKept) there = record;
      // The next process would take it for confirmed, unless it is known to wait, or is being taken back.
      const isKnown = [null, there?.pendingRevision, givenUp.at(-1)].includes(pendingRevision);
      return isKept || (seal === null && isKnown);
    },
  };
}

/** A record in the state folder of a replica that is alone. */
export function storeRecordIn(folder: string, logger: Logger): RecordStore {
  const file = path.join(folder, 'record.json');
  const read = (): Promise<string | null> => readStateFile(file, largest).catch(replaceError('ENOENT', null));
  const tellUnwritten = (error: unknown): false => {
    logger.warn('The state file cannot be written', { file, code: getErrorCode(error) });
    return false;
  };
  const write = (text: string) => replaceFile(file, text, 0o600, 'replaced').then(() => true, tellUnwritten);
  return storeRecord({ read, write }, logger, null);
}

/** One small file, for its owner alone, replaced atomically. Rejects when it cannot be read or written. */
export function openRecordText(file: string): RecordText {
  return {
    read: () => readFile(file, 'utf8').catch(replaceError('ENOENT', null)),
    write: (text) => replaceFile(file, text, 0o600).then(() => true),
  };
}

/** Whether this text is a record that says that its holder is suspended. One whose revision waits may go back all the same. */
export function saysSuspended(text: string | null): boolean {
  const record = text === null ? null : decodeRecord(text, null);
  return record?.suspended === true && record.pendingRevision === null;
}

/** Undefined without a token. */
function sealOf(record: Omit<LoopRecord, 'isSealed'>, seal: Seal | null): string | undefined {
  const { agreedAt, sentSecrets, givenUp, failed, passedOver } = record;
  const revisions = [...listRevisions(record), ...givenUp];
  // Without one that failed the seal is that of earlier versions.
  const lost = [...(failed.length === 0 ? [] : [failed]), ...(passedOver.length === 0 ? [] : [{ passedOver }])];
  return attempt(() => seal?.(`record ${JSON.stringify([...revisions, agreedAt, sentSecrets, ...lost])}`), undefined);
}

function decodeRecord(text: string, seal: Seal | null): LoopRecord | null {
  if (Buffer.byteLength(text) > largest) return null;
  return attempt(() => {
    const { format_version: _version, seal: mark, ...read } = shape.parse(JSON.parse(text));
    const { inForceRevision = read.appliedRevision } = read;
    const record = { ...emptyRecord, ...read, inForceRevision };
    const isSealed = seal === null || (mark !== undefined && mark === sealOf(record, seal));
    return isSealed ? record : { ...record, isSealed, agreedAt: null, sentSecrets: [], failed: [], passedOver: [] };
  }, null);
}
