import { isTimezone, parseInstant } from '../model/instant.ts';
import { makeError } from '../model/problem.ts';
import { omitUndefined } from '../model/result.ts';
import type { RuleNotes } from '../model/rule.ts';
import { type Decoding, reportAt } from './decoding.ts';
import { findChild, findScalar, type Node, type ScalarNode } from './node.ts';

/** The notes of these nodes, before those of the set around them, `outer`, and never for a longer time than the set's. */
export function decodeNotes(
  decoding: Decoding,
  outer: RuleNotes,
  nodes: readonly (Node | undefined)[],
  timezone: string,
): RuleNotes {
  const find = (field: string): ScalarNode | undefined => findScalar(nodes[0], field) ?? findScalar(nodes[1], field);
  const [owner, ticket] = ['owner', 'ticket'].map((field) => find(field)?.text);
  const [from, until] = [find('notBefore'), find('expires')];
  const notBefore = readTime(decoding, from, { field: 'notBefore', timezone });
  const expires = readTime(decoding, until, { field: 'expires', timezone });
  // One object for the many rules without notes of their own.
  if ((owner ?? ticket ?? notBefore ?? expires) === undefined) return outer;
  const begins = Math.max(notBefore ?? longAgo, outer.notBefore ?? longAgo);
  const ends = Math.min(expires ?? never, outer.expires ?? never);
  const place = until ?? from;
  if (place !== undefined && ends <= begins) {
    const summary = 'The rule expires before it begins: it would never be in force.';
    const hint = 'Write an `expires` after `notBefore`; those of the set count too.';
    reportAt(decoding, place, makeError('expires-first', summary, hint));
  }
  return {
    ...outer,
    ...omitUndefined({ owner, ticket }),
    ...(begins === longAgo ? {} : { notBefore: begins }),
    ...(ends === never ? {} : { expires: ends }),
  };
}

const [longAgo, never] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];

export function readTimezone(decoding: Decoding, root: Node): string {
  const node = findScalar(findChild(root, 'spec'), 'timezone');
  if (node === undefined || isTimezone(node.text)) return node?.text ?? 'UTC';
  const hint = 'Write an IANA name, such as `Europe/Berlin`; without it, dates are in UTC.';
  reportAt(decoding, node, makeError('not-a-time', `\`${node.text}\` is not a time zone.`, hint));
  return 'UTC';
}

/** A time; undefined without one, and with a problem for what is none. */
export function readTime(
  decoding: Decoding,
  written: ScalarNode | undefined,
  { field, timezone }: { readonly field: 'notBefore' | 'expires' | 'at'; readonly timezone: string },
): number | undefined {
  if (written === undefined) return undefined;
  const parsed = parseInstant(written.text, field === 'expires' ? 'until' : 'from', timezone);
  if (parsed.ok) return parsed.value;
  reportAt(decoding, written, makeError('not-a-time', `\`${field}: ${written.text}\` is not a time.`, parsed.error));
  return undefined;
}
