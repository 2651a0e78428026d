import type { Status } from '../../../src/controller/status.ts';
import { createStatus } from '../../../src/controller/status.ts';

/** A status with hostile text in every place that text can come from outside. */
export function someStatus(text = 'hello', changes: Partial<Status> = {}): Status {
  const status = createStatus('1.2.3', `https://git.example.org/${text}`, 1_700_000_000_000);
  const ready = { ...status.conditions.Ready, status: 'False' as const, reason: 'Refused' as const, message: text };
  return {
    ...status,
    conditions: { ...status.conditions, Ready: ready },
    revisions: {
      observed: 'a'.repeat(40),
      attempted: null,
      applied: 'b'.repeat(40),
      appliedAt: 1_700_000_000_000,
      failed: ['c'.repeat(40)],
      stuck: null,
      inForce: 'c'.repeat(40),
    },
    plan: {
      digest: null,
      revision: text,
      summary: { create: 1, update: 0, delete: 0, keep: 0, skip: 0, steps: 1 },
      changes: [{ kind: 'Rule', name: text, action: 'create', reason: 'desired-only', origin: null, fields: [text] }],
      steps: [],
      refusals: [],
    },
    passes: [
      {
        startedAt: 1_700_000_000_000,
        durationMs: 5,
        triggers: ['file'],
        revision: text,
        failedRevision: undefined,
        result: 'terminal',
        reason: 'Refused',
        message: text,
        steps: 1,
        outcomes: { done: 0, failed: 0, skipped: 0, dropped: 0, unknown: 0 },
      },
    ],
    ...changes,
  };
}
