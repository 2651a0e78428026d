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
  const drifted = plan.changes.flatMap((change) => {
    const kind = kindOf(change);
    return kind === null ? [] : [{ change, kind }];
  });
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
  const number = plan.changes.filter((change) => kindOf(change) !== null).length;
  if (number === 0) return `reconcile drift: ${hasBase ? 'none' : 'no difference'}`;
  const verb = hasBase ? 'drifted' : `${differenceWords.verb(number)} from these manifests`;
  return `reconcile drift: ${count(number, 'object')} ${verb}`;
}

/** Each object that differs as a warning at the line that asks for it, for annotations and summaries. */
export function listDriftProblems(plan: Plan, { names, hasBase }: DriftContext): readonly Problem[] {
  const words = hasBase ? driftWords : differenceWords;
  return plan.changes.flatMap((change): readonly Problem[] => {
    const kind = kindOf(change);
    if (kind === null) return [];
    const place = change.source === null ? {} : { place: change.source };
    const fields = kind === 'changed-live' ? listFieldLines(reversed(change.fields)) : [];
    const what = [ruleWords(change, names), ...fields.map(({ path, text }) => `${path}: ${text}`)];
    const summary = `${words[kind]}: ${formatLabel(change)} ${what.filter((part) => part !== '').join('; ')}`;
    return [{ code: 'drift', severity: 'warning', summary: summary.trim(), ...place }];
  });
}

/** Drift for machines; `applied` and `live` are the values on the two sides. */
export function makeDriftDocument(plan: Plan): readonly unknown[] {
  return plan.changes.flatMap((change) => {
    const drift = kindOf(change);
    if (drift === null) return [];
    const fields = Object.entries(change.fields).map(([name, { before, after }]) => [
      name,
      { applied: after, live: before },
    ]);
    const source = change.source === null ? null : { file: change.source.file, line: change.source.line };
    return [{ kind: change.kind, name: change.name, id: change.id, drift, fields: Object.fromEntries(fields), source }];
  });
}

/** Whether anything stands on the server instead of what was applied. */
export function hasDrift(plan: Plan): boolean {
  return plan.changes.some((change) => kindOf(change) !== null);
}

function kindOf(change: Change): DriftKind | null {
  switch (change.action) {
    case 'create':
      return 'missing-live';
    case 'delete':
      return 'only-live';
    case 'update':
      return 'changed-live';
    case 'keep':
      return null;
    case 'skip':
      // What is not written for want of a secret differs none the less: a provider may be gone, or another.
      return change.reason === 'unsent' ? 'changed-live' : null;
  }
}

function ruleWords(change: Change, names: UserNames): string {
  if (change.kind === 'Configuration') return '';
  const applied = change.desired === null ? null : formatRule(change.desired.rule, names);
  const live = change.live === null ? null : formatRule(change.live.rule, names);
  return applied !== null && live !== null ? `${applied} → ${live}` : (applied ?? live ?? '');
}

function reversed(fields: Readonly<Record<string, FieldChange>>): Readonly<Record<string, FieldChange>> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, { before, after }]) => [name, { before: after, after: before }]),
  );
}
