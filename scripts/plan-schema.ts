import { formatVersion } from '../src/report/json.ts';

export const text = { type: 'string' };
export const textOrNull = { type: ['string', 'null'] };
export const number = { type: 'integer', minimum: 0 };
export const list = (items: unknown): unknown => ({ type: 'array', items });
export const enumeration = (...values: readonly string[]): unknown => ({ enum: values });

/** An object with exactly these members, all of them required but the optional ones. */
export function object(
  required: Readonly<Record<string, unknown>>,
  optional: Readonly<Record<string, unknown>> = {},
): unknown {
  return {
    type: 'object',
    properties: { ...required, ...optional },
    required: Object.keys(required),
    additionalProperties: false,
  };
}

const related = list(object({ file: text, line: number, column: number, note: text }));

const traffic = object({
  user: { description: "A user's UUID; null: devices of users without rules of their own.", ...textOrNull },
  destinations: list(text),
  protocol: enumeration('tcp', 'udp', 'other'),
  ports: {
    description: 'Texts like "443" or "8000-8010"; null for other protocols.',
    type: ['array', 'null'],
    items: text,
  },
});

const left = {
  description: 'How many are left out of a long list, beyond 20,000 networks.',
  type: 'integer',
  minimum: 1,
};
const effectLeft = { opens_left: left, closes_left: left };

const fieldValue = {
  description:
    'A value in the API\'s form. A secret is {"secret": "changed" | "same" | "unknown", "fingerprint": text or null}, with its reference as "source" where that is known.',
};

const change = object(
  {
    kind: enumeration('Rule', 'Configuration'),
    name: textOrNull,
    id: textOrNull,
    action: enumeration('create', 'update', 'delete', 'keep', 'skip'),
    via: { enum: ['replace', 'patch', null] },
    reason: text,
    fields: { type: 'object', additionalProperties: object({ before: fieldValue, after: fieldValue }) },
    source: { anyOf: [{ type: 'null' }, object({ file: text, line: number })] },
  },
  {
    origin: enumeration('this-revision', 'drift', 'earlier-not-applied', 'expired'),
    owner: text,
    ticket: text,
    not_before: text,
    expires: text,
  },
);

const step = object({
  id: text,
  method: enumeration('POST', 'PATCH', 'DELETE'),
  path: text,
  change: { description: 'Index into changes.', ...number },
  after: { description: 'Ids of steps that must be done first; earlier in the list.', ...(list(text) as object) },
});

export const problem = object({
  code: text,
  severity: enumeration('error', 'warning', 'note'),
  summary: text,
  hint: textOrNull,
  file: textOrNull,
  line: { type: ['integer', 'null'] },
  column: { type: ['integer', 'null'] },
  related,
});

const outcome = object(
  {
    step: text,
    outcome: enumeration('done', 'failed', 'skipped', 'dropped', 'unknown'),
    status: { type: ['integer', 'null'] },
  },
  { message: text, restored: { type: 'boolean' } },
);

const finding = object({
  kind: enumeration(
    'missing',
    'stale',
    'extra',
    'user-chain-missing',
    'jump-missing',
    'verdict-missing',
    'table-missing',
    'unknown',
  ),
  summary: text,
  rules: list(
    object({ id: text, rule: text, name: textOrNull, file: textOrNull, line: { type: ['integer', 'null'] } }),
  ),
  elements: list(text),
  effect: object({ opens: list(traffic), closes: list(traffic) }, effectLeft),
});

/** What the kernel's packet filter holds of the live rules (docs/how-to/enforcement.md). */
const enforcement = object({
  state: enumeration('enforced', 'differs', 'unreadable'),
  message: textOrNull,
  missing: number,
  stale: number,
  extra: number,
  structure: number,
  waited_ms: { type: ['integer', 'null'] },
  findings: list(finding),
});

export const summary = object({
  create: number,
  update: number,
  delete: number,
  keep: number,
  skip: number,
  steps: number,
});

/** JSON Schema of the document that `--output json` prints for a plan or an apply. */
export const planSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: `reconcile plan, format ${formatVersion}`,
  ...(object(
    {
      format_version: { const: formatVersion },
      server: { description: 'The base URL of the server; null where none is known.', ...textOrNull },
      revision: textOrNull,
      digest: textOrNull,
      profile: textOrNull,
      rule_updates: { enum: ['replace', 'patch', null] },
      summary: { anyOf: [{ type: 'null' }, summary] },
      changes: list(change),
      steps: list(step),
      problems: list(problem),
      refusals: list(object({ code: text, summary: text, hint: text, related })),
      approved: { type: 'boolean' },
      effect: object({ opens: list(traffic), closes: list(traffic) }),
      exposure: list(
        object({
          direction: enumeration('opened', 'cut_off'),
          traffic: list(traffic),
          from_step: text,
          to_step: text,
          expected_ms: { type: 'number', minimum: 0 },
        }),
      ),
    },
    {
      base: text,
      exposure_left: left,
      later: {
        description:
          'Compared with other manifests: what differs in traffic from later times on, since rules begin and end.',
        ...(list(object({ from: text, opens: list(traffic), closes: list(traffic) }, effectLeft)) as object),
      },
      snapshot: object({ taken_at: text, age_ms: { type: 'number' } }),
      enforcement,
      end: enumeration('converged', 'not-converged', 'stopped', 'failed'),
      outcomes: list(outcome),
      left_open: list(traffic),
      not_converged: list(text),
      duration_ms: number,
      enforced_in_ms: { type: ['number', 'null'] },
    },
  ) as object),
};
