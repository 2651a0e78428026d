import { joinSome } from '../model/printable.ts';
import { compareText, type Problem } from '../model/problem.ts';
import type { Change, Plan, RuleChange } from '../plan/plan.ts';
import { formatRule, type UserNames } from '../policy/words.ts';
import { formatLabel } from './change-words.ts';
import { listFieldLines } from './field-lines.ts';
import { createPaint } from './paint.ts';
import { formatLine } from './problems.ts';
import { count } from './summary.ts';

/** What stands on the server instead of what was applied. Without a base a difference may be an edit too: it is not called drift. */
export function tellDrift({ changes, at = 0 }: Plan, names: UserNames, hasBase: boolean) {
  const words = hasBase ? driftWords : differenceWords;
  const waiting = new Set(listWaiting(changes, at, hasBase));
  const which = joinSome([...waiting].map(formatLabel).sort(), 5);
  const since =
    waiting.size === 0 ? '' : `${hasBase ? 'Began or ended' : 'Ended'} since, and not yet applied: ${which}.\n`;
  const drifted = changes.flatMap((change) => {
    if (waiting.has(change)) return [];
    // What is not written for want of a secret differs none the less: a provider may be gone, or another.
    const kind = change.reason === 'unsent' ? 'changed-live' : kindOf[change.action];
    if (kind === null) return [];
    const fields = kind === 'changed-live' ? listFieldLines(change.fields, true) : [];
    const sides = change.kind === 'Rule' ? [change.desired ?? [], change.live ?? []].flat() : [];
    return [{ change, kind, what: sides.map(({ rule }) => formatRule(rule, names)).join(' → '), fields }];
  });
  const number = drifted.length;
  const verb = hasBase ? 'drifted' : `${words.verb(number)} from these manifests`;
  return {
    hasDrift: number > 0,
    headline: `reconcile drift: ${number === 0 ? words.nothing : `${count(number, 'object')} ${verb}`}`,
    text(color: boolean): string {
      if (number === 0) return `${words.none}\n${since}`;
      const paint = createPaint(color);
      const lines = drifted.map(({ change, kind, what, fields }) => {
        const place = change.source === null ? '' : `  ${paint('faint', formatLine(change.source))}`;
        const label = paint(tones[kind], words[kind]) + ' '.repeat(words['changed-live'].length - words[kind].length);
        const shown = change.kind === 'Configuration' ? fields : [];
        const head = `  ${label}  ${formatLabel(change)}  ${what}${place}`;
        return [head, ...shown.map(({ path, text }) => `      ${path}  ${text}`)].join('\n');
      });
      return `${words.heading}\n\n${lines.join('\n')}\n\n${count(number, 'object')} ${words.verb(number)}.\n${since}`;
    },
    problems: (): readonly Problem[] =>
      drifted.map(({ change, kind, what, fields }) => {
        const parts = [what, ...fields.map(({ path, text }) => `${path}: ${text}`)];
        const summary = `${words[kind]}: ${formatLabel(change)} ${parts.filter(Boolean).join('; ')}`;
        const place = change.source === null ? {} : { place: change.source };
        return { code: 'drift', severity: 'warning', summary: summary.trim(), ...place };
      }),
    document: () =>
      drifted.map(({ change: { kind, name, id, fields, source }, kind: drift }) => {
        const sides = Object.entries(fields).map(([key, { before, after }]) => [key, { applied: after, live: before }]);
        const place = source === null ? null : { file: source.file, line: source.line };
        return { kind, name, id, drift, fields: Object.fromEntries(sides), source: place };
      }),
  };
}

/** What an apply may not have done yet: rules that ended; by a base also rules that began within a day, and nothing was written since. */
function listWaiting(changes: Plan['changes'], now: number, hasBase: boolean): readonly Change[] {
  const rules = changes.filter((change) => change.kind === 'Rule');
  const written = rules.flatMap(({ action, live }) => (action === 'keep' && live !== null ? live.insertedAt : []));
  const last = Math.max(Date.parse(written.sort(compareText).at(-1) ?? '1970-01-01'), now - dayMs);
  // What was made after its end was made by hand.
  const isLeft = ({ origin, live, expires = 0 }: RuleChange): boolean =>
    origin === 'expired' && Date.parse(live?.insertedAt ?? '') <= expires;
  return rules.filter((one) => isLeft(one) || (hasBase && one.action === 'create' && (one.notBefore ?? 0) > last));
}

const dayMs = 86_400_000;

const driftWords = {
  'only-live': 'only on the server',
  'missing-live': 'gone from the server',
  'changed-live': 'changed on the server',
  nothing: 'none',
  none: 'No drift: the server holds what was applied.',
  heading: 'Drift, from what was applied to what is live:',
  verb: (_: number) => 'drifted',
} as const;
const differenceWords = {
  'only-live': 'only on the server',
  'missing-live': 'not on the server',
  'changed-live': 'different on the server',
  nothing: 'no difference',
  none: 'No difference: the server holds what these manifests say.',
  heading: 'The server differs from these manifests (with --base REF, drift is told from your edits):',
  verb: (number: number) => (number === 1 ? 'differs' : 'differ'),
} as const;
const tones = { 'only-live': 'risk', 'missing-live': 'warning', 'changed-live': 'warning' } as const;

const kindOf = { create: 'missing-live', delete: 'only-live', update: 'changed-live', keep: null, skip: null } as const;
