import { readFile } from 'node:fs/promises';
import path from 'node:path';
import * as z from 'zod';
import type { RecordStore } from '../controller/record.ts';
import { emptyRecord } from '../controller/record.ts';
import type { Logger } from '../ports.ts';
import { replaceFile } from './replace-file.ts';

const revision = z.string().regex(/^(?:sha256:)?[0-9a-f]{40,64}$/);
const shape = z.object({
  format_version: z.literal(1),
  appliedRevision: revision.nullable(),
  inForceRevision: revision.nullish(),
  appliedAt: z.number().nullable(),
  appliedDesired: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullish(),
  knownRules: z.number().int().nonnegative().nullable(),
});

/** The record as one small file, replaced atomically. Lost or corrupt it counts as a first run, said once in the log. */
export function recordFile(folder: string, logger: Logger): RecordStore {
  const file = path.join(folder, 'record.json');
  return {
    async load() {
      const text = await readFile(file, 'utf8').catch(() => null);
      if (text === null) return emptyRecord;
      try {
        const { appliedRevision, appliedAt, knownRules, ...read } = shape.parse(JSON.parse(text));
        const { inForceRevision = appliedRevision, appliedDesired = null } = read;
        return { appliedRevision, appliedAt, inForceRevision, appliedDesired, knownRules };
      } catch {
        logger.warn('The state file cannot be read; it is made anew, and nothing is deleted because of it', { file });
        return emptyRecord;
      }
    },
    async save(record) {
      try {
        await replaceFile(file, `${JSON.stringify({ format_version: 1, ...record })}\n`, 0o600);
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? String(error.code) : 'failed';
        logger.warn('The state file cannot be written', { file, code });
      }
    },
  };
}
