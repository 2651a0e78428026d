import { type DateMeaning, isTimezone, parseInstant } from '../model/instant.ts';
import { makeError } from '../model/problem.ts';
import { omitUndefined } from '../model/result.ts';
import type { RuleNotes } from '../model/rule.ts';
import { type Decoding, reportAt } from './decoding.ts';
import { findChild, findScalar, type Node, type ScalarNode } from './node.ts';

/** What a Rule or RuleSet says of its rules beside their fields. */
export function decodeNotes(decoding: Decoding, root: Node): RuleNotes {
  const spec = findChild(root, 'spec');
  const times = readTimes(decoding, spec, readTimezone(decoding, root));
  return narrowTimes(decoding, noNotes, { ...readNotes(findChild(root, 'metadata')), ...times }, spec);
}

/** The notes of a rule in a set: its own before those of the set, and never a longer time than the set's. */
export function narrowTimes(decoding: Decoding, outer: RuleNotes, inner: RuleNotes, node: Node | undefined): RuleNotes {
  const notes = { ...outer, ...inner };
  if (notes.notBefore === undefined && notes.expires === undefined) return notes;
  const begins = Math.max(notes.notBefore ?? longAgo, outer.notBefore ?? longAgo);
  const ends = Math.min(notes.expires ?? never, outer.expires ?? never);
  const place = findScalar(node, 'expires') ?? findScalar(node, 'notBefore');
  if (place !== undefined && ends <= begins) {
    const summary = 'The rule expires before it begins: it would never be in force.';
    const hint = 'Write an `expires` after `notBefore`; those of the set count too.';
    reportAt(decoding, place, makeError('expires-first', summary, hint));
  }
  return {
    ...notes,
    ...(begins === longAgo ? {} : { notBefore: begins }),
    ...(ends === never ? {} : { expires: ends }),
  };
}

const [longAgo, never] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];

export function readTimezone(decoding: Decoding, root: Node): string {
  const node = findScalar(findChild(root, 'spec'), 'timezone');
  if (node === undefined || isTimezone(node.text)) return node?.text ?? 'UTC';
  const summary = `\`${node.text}\` is not a time zone.`;
  const hint = 'Write an IANA name, such as `Europe/Berlin`; without it, dates are in UTC.';
  reportAt(decoding, node, makeError('not-a-time', summary, hint));
  return 'UTC';
}

const timeHints = {
  'no-zone': 'A time of day needs its zone: `2026-12-01T18:00:00+01:00`, or `Z` for UTC.',
  'not-a-time': 'Write a date, `2026-12-01`, or a time with its zone, `2026-12-01T18:00:00+01:00`.',
  'no-such-day': 'There is no such day or time of day.',
} as const;

export function readTimes(decoding: Decoding, node: Node | undefined, timezone: string): RuleNotes {
  const read = (field: string, edge: DateMeaning['edge']): number | undefined =>
    readTime(decoding, findScalar(node, field), { field, edge, timezone });
  return omitUndefined({ notBefore: read('notBefore', 'from'), expires: read('expires', 'until') });
}

/** A time; undefined without one, and with a problem for what is none. */
export function readTime(
  decoding: Decoding,
  written: ScalarNode | undefined,
  { field, ...meaning }: DateMeaning & { readonly field: string },
): number | undefined {
  if (written === undefined) return undefined;
  const parsed = parseInstant(written.text, meaning);
  if (parsed.ok) return parsed.value;
  const summary = `\`${field}: ${written.text}\` is not a time.`;
  reportAt(decoding, written, makeError('not-a-time', summary, timeHints[parsed.error]));
  return undefined;
}

/** One object for the many rules without notes. */
const noNotes: RuleNotes = {};

export function readNotes(node: Node | undefined): RuleNotes {
  const [owner, ticket] = [findScalar(node, 'owner')?.text, findScalar(node, 'ticket')?.text];
  if (owner === undefined && ticket === undefined) return noNotes;
  return omitUndefined({ owner, ticket });
}
