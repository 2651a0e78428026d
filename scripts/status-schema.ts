import { formatVersion } from '../src/report/json.ts';
import { enumeration, list, number, object, problem, summary, text, textOrNull } from './plan-schema.ts';

const time = { description: 'ms since 1970.', type: 'integer' };
const timeOrNull = { description: 'ms since 1970.', type: ['integer', 'null'] };
const flag = { type: 'boolean' };
const nullOr = (schema: unknown): unknown => ({ anyOf: [{ type: 'null' }, schema] });

const condition = object({
  type: enumeration('Ready', 'Reconciling', 'Stalled', 'Enforced'),
  status: enumeration('True', 'False', 'Unknown'),
  reason: text,
  message: text,
  since: time,
});

const pass = object(
  {
    startedAt: time,
    durationMs: number,
    triggers: list(text),
    revision: textOrNull,
    result: enumeration('good', 'held', 'transient', 'terminal'),
    reason: text,
    message: text,
    steps: number,
    outcomes: object({ done: number, failed: number, skipped: number, dropped: number, unknown: number }),
  },
  { failedRevision: text },
);

const plan = object({
  revision: text,
  digest: textOrNull,
  summary,
  changes: list(
    object({ kind: text, name: textOrNull, action: text, reason: text, origin: textOrNull, fields: list(text) }),
  ),
  steps: list(object({ method: text, path: text })),
  refusals: list(object({ code: text, summary: text, hint: text })),
});

const enforcement = object({
  missing: number,
  stale: number,
  extra: number,
  structure: number,
  elements: number,
  enforcedRevision: textOrNull,
  enforcedAt: timeOrNull,
  lagMs: { type: ['number', 'null'] },
  findings: list(text),
});

/** JSON Schema of what a sidecar gives at /api/v1/status (and /status). */
export const statusSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: `reconcile status, format ${formatVersion}`,
  ...(object(
    {
      format_version: { const: formatVersion },
      version: text,
      source: text,
      startedAt: time,
      headline: object({
        tone: enumeration('good', 'busy', 'waiting', 'bad'),
        text,
        detail: text,
        advice: textOrNull,
        command: textOrNull,
      }),
      conditions: object({ Ready: condition, Reconciling: condition, Stalled: condition }, { Enforced: condition }),
      revisions: object({
        observed: textOrNull,
        attempted: textOrNull,
        applied: textOrNull,
        appliedAt: timeOrNull,
        failed: { type: ['array', 'null'], items: { type: 'string' } },
        stuck: textOrNull,
        inForce: textOrNull,
      }),
      links: object({ observed: textOrNull, applied: textOrNull }),
      authors: object({ observed: textOrNull, applied: textOrNull }),
      lastSuccessAt: timeOrNull,
      drift: number,
      fights: number,
      blockedDeletes: number,
      liveRules: { type: ['integer', 'null'] },
      plan: nullOr(plan),
      progress: nullOr(object({ done: number, total: number })),
      passes: list(pass),
      role: nullOr(enumeration('writer', 'standby')),
      holder: textOrNull,
      nextBoundaryAt: timeOrNull,
      heldEnds: number,
      serverAheadMs: { type: ['number', 'null'] },
      suspended: flag,
      windowOpensAt: timeOrNull,
      confirmBy: timeOrNull,
      degraded: flag,
      tokenExpiresAt: timeOrNull,
      boundaries: list(
        object({ at: time, what: enumeration('begins', 'ends'), name: text, rule: text, file: text, line: number }),
      ),
      windows: list(
        object({
          kind: enumeration('allow', 'deny'),
          scope: list(enumeration('rules', 'configuration')),
          from: time,
          to: time,
        }),
      ),
      problems: list(problem),
    },
    { server: text, enforcement },
  ) as object),
};
