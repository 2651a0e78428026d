import type { Problem } from '../model/problem.ts';
import type { Change, FieldChange, Plan } from '../plan/plan.ts';
import { formatLabel } from './change-words.ts';
import { listFieldLines } from './field-lines.ts';
import { createPaint } from './paint.ts';
import { formatLine } from './problems.ts';
import { formatRule, type UserNames } from './rule-text.ts';
import { count } from './summary.ts';

/** How an object on the server differs from what was applied: the direction is from applied to live. */
export type DriftKind = 'only-live' | 'missing-live' | 'changed-live';

/** What is known of what was applied. Without a base a difference may be an edit too: it is not called drift. */
export interface DriftContext {
  readonly names: UserNames;
  readonly hasBase: boolean;
}

/** What stands on the server instead of what was applied, for people. */
export function renderDrift(plan: Plan, { names, hasBase }: DriftContext, color: boolean): string {
  const paint = createPaint(color);
  const drifted = listDrifted(plan);
  const words = hasBase ? driftWords : differenceWords;
  if (drifted.length === 0) return `${words.none}\n`;
  const lines = drifted.map(({ change, kind }) => {
    const place = change.source === null ? '' : `  ${paint('faint', formatLine(change.source))}`;
    const isField = kind === 'changed-live' && change.kind === 'Configuration';
    const fields = isField ? listFieldLines(reversed(change.fields)) : [];
    const label = paint(tones[kind], words[kind]) + ' '.repeat(words['changed-live'].length - words[kind].length);
    const head = `  ${label}  ${formatLabel(change)}  ${ruleWords(change, names)}${place}`;
    return [head, ...fields.map(({ path, text }) => `      ${path}  ${text}`)].join('\n');
  });
  return `${words.heading}\n\n${lines.join('\n')}\n\n${count(drifted.length, 'object')} ${words.verb(drifted.length)}.\n`;
}

const driftWords = {
  'only-live': 'only on the server',
  'missing-live': 'gone from the server',
  'changed-live': 'changed on the server',
  none: 'No drift: the server holds what was applied.',
  heading: 'Drift, from what was applied to what is live:',
  verb: (_: number) => 'drifted',
} as const;
const differenceWords = {
  'only-live': 'only on the server',
  'missing-live': 'not on the server',
  'changed-live': 'different on the server',
  none: 'No difference: the server holds what these manifests say.',
  heading: 'The server differs from these manifests (with --base REF, drift is told from your edits):',
  verb: (number: number) => (number === 1 ? 'differs' : 'differ'),
} as const;
const tones = { 'only-live': 'risk', 'missing-live': 'warning', 'changed-live': 'warning' } as const;

/** One line that counts. */
export function summariseDrift(plan: Plan, hasBase: boolean): string {
  const number = listDrifted(plan).length;
  if (number === 0) return `reconcile drift: ${hasBase ? 'none' : 'no difference'}`;
  const verb = hasBase ? 'drifted' : `${differenceWords.verb(number)} from these manifests`;
  return `reconcile drift: ${count(number, 'object')} ${verb}`;
}

/** Each object that differs as a warning at the line that asks for it, for annotations and summaries. */
export function listDriftProblems(plan: Plan, { names, hasBase }: DriftContext): readonly Problem[] {
  const words = hasBase ? driftWords : differenceWords;
  return listDrifted(plan).map(({ change, kind }): Problem => {
    const place = change.source === null ? {} : { place: change.source };
    const fields = kind === 'changed-live' ? listFieldLines(reversed(change.fields)) : [];
    const what = [ruleWords(change, names), ...fields.map(({ path, text }) => `${path}: ${text}`)];
    const summary = `${words[kind]}: ${formatLabel(change)} ${what.filter((part) => part !== '').join('; ')}`;
    return { code: 'drift', severity: 'warning', summary: summary.trim(), ...place };
  });
}

/** Drift for machines; `applied` and `live` are the values on the two sides. */
export function makeDriftDocument(plan: Plan): readonly unknown[] {
  return listDrifted(plan).map(({ change: { kind, name, id, fields, source }, kind: drift }) => {
    const sides = Object.entries(fields).map(([field, { before, after }]) => [field, { applied: after, live: before }]);
    const place = source === null ? null : { file: source.file, line: source.line };
    return { kind, name, id, drift, fields: Object.fromEntries(sides), source: place };
  });
}

/** Whether anything stands on the server instead of what was applied. */
export function hasDrift(plan: Plan): boolean {
  return listDrifted(plan).length > 0;
}

const kindOf = { create: 'missing-live', delete: 'only-live', update: 'changed-live', keep: null } as const;

function listDrifted({ changes }: Plan): readonly { readonly change: Change; readonly kind: DriftKind }[] {
  return changes.flatMap((change) => {
    // What is not written for want of a secret differs none the less: a provider may be gone, or another.
    const skipped = change.reason === 'unsent' ? 'changed-live' : null;
    const kind = change.action === 'skip' ? skipped : kindOf[change.action];
    return kind === null ? [] : [{ change, kind }];
  });
}

function ruleWords(change: Change, names: UserNames): string {
  if (change.kind === 'Configuration') return '';
  const sides = [change.desired, change.live].flatMap((side) => (side === null ? [] : [formatRule(side.rule, names)]));
  return sides.join(' → ');
}

function reversed(fields: Readonly<Record<string, FieldChange>>): Readonly<Record<string, FieldChange>> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, { before, after }]) => [name, { before: after, after: before }]),
  );
}
