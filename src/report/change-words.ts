import { formatInstant } from '../model/instant.ts';
import { escapeControls } from '../model/printable.ts';
import { omitUndefined } from '../model/result.ts';
import { pickNotes, type RuleNotes } from '../model/rule.ts';
import { type Boundary, type DesiredState, listBoundaries } from '../model/state.ts';
import type { Change, RuleChange } from '../plan/plan.ts';
import { formatRule, type UserNames } from '../policy/words.ts';
import type { Tone } from './paint.ts';
import { formatAge } from './summary.ts';

/** The mark of a change, `+` created, `-` deleted, `±` replaced, `~` patched, `·` left alone, and how loud it is. */
export function chooseSymbol(change: Change): readonly [symbol: string, tone: Tone] {
  const symbols = { create: '+', delete: '-', update: change.via === 'replace' ? '±' : '~', keep: '=', skip: '·' };
  // It can open traffic where an accept rule comes or a drop rule goes.
  const isRule = change.kind === 'Rule';
  const opens = isRule && (change.desired?.rule.action === 'accept' || change.live?.rule.action === 'drop');
  const isWritten = change.action === 'keep' ? change.origin !== undefined : change.action !== 'skip';
  return [symbols[change.action], !isWritten ? 'faint' : opens ? 'risk' : 'plain'];
}

/** The object's name for people; a live rule without one goes by the first characters of its id. */
export function formatLabel(change: Change): string {
  if (change.kind === 'Configuration')
    return change.name === null ? 'Configuration' : `Configuration ${escapeControls(change.name)}`;
  return escapeControls(change.name ?? (change.id === null ? 'rule' : `rule ${change.id.slice(0, 8)}`));
}

/** `accept 10.0.0.0/8`, or what it was and what it becomes, without repeating what stays. */
export function describeChange(change: RuleChange, names: UserNames): string {
  const before = change.live?.rule ?? null;
  const after = change.desired?.rule ?? null;
  if (change.action !== 'update' || before === null || after === null) {
    const rule = after ?? before;
    return rule === null ? '' : formatRule(rule, names);
  }
  const from = formatRule(before, names);
  const to = formatRule(after, names);
  if (from === to) return to;
  if (before.action !== after.action) {
    const same = formatRule({ ...before, action: after.action }, names) === to;
    return same ? `${before.action} → ${to}` : `${from} → ${to}`;
  }
  const start = before.userId === after.userId ? formatRule({ ...before, userId: null }, names) : from;
  return `${start} → ${to.slice(after.action.length + 1)}`;
}

/** Why, where it is not plain from the mark; at that time. */
export function formatWhy(change: Change, at?: number): string {
  const origin = { 'this-revision': '', drift: 'drift', 'earlier-not-applied': 'earlier, not applied', expired: '' };
  const reason: Partial<Record<Change['reason'], string>> = {
    'modified-in-place': 'modified in place on the server',
    'not-enforced': 'the kernel does not hold it',
    adopted: 'live already',
    duplicate: 'a second copy of the same rule',
    'prune-off': 'not in the manifests; kept, because pruning is off',
    'out-of-scope': 'outside the scope',
    'unknown-secret': 'differs at most in secrets that are not available here',
    unsent: 'differs, and is not sent without a secret that is not available here',
  };
  const parts = [
    reason[change.reason] ?? '',
    change.origin === undefined ? '' : origin[change.origin],
    ...(change.kind === 'Rule' ? timesAndNotes(change, at) : []),
  ];
  const text = parts.filter(Boolean).join(', ');
  return text === '' ? '' : `(${text})`;
}

/** Times that the change moves are told before and after. */
function timesAndNotes(change: RuleChange, at: number | undefined): readonly string[] {
  const { not_before: begins, expires: ends } = change.fields;
  const { notBefore, expires, ...others } = pickNotes(change);
  const still = { notBefore: begins ? undefined : notBefore, expires: ends ? undefined : expires };
  return [
    begins === undefined ? '' : `begins ${begins.before ?? 'at once'} → ${begins.after ?? 'at once'}`,
    ends === undefined ? '' : `expires ${ends.before ?? 'never'} → ${ends.after ?? 'never'}`,
    formatNotes({ ...others, ...omitUndefined(still) }, at),
  ];
}

/** `expires in 9 days (2026-12-01T00:00:00Z), owner web-team`: a rule's times, as of `at`, and who answers for it. */
export function formatNotes({ owner, ticket, notBefore, expires }: RuleNotes, at?: number): string {
  const hasCome = (time: number): boolean => at !== undefined && time <= at;
  const when = (time: number): string =>
    at === undefined || hasCome(time) ? formatInstant(time) : `in ${formatAge(time - at)} (${formatInstant(time)})`;
  return [
    notBefore === undefined ? '' : `${at === undefined || hasCome(notBefore) ? 'from' : 'begins'} ${when(notBefore)}`,
    expires === undefined ? '' : `${hasCome(expires) ? 'expired' : 'expires'} ${when(expires)}`,
    owner === undefined ? '' : `owner ${quoteNote(owner)}`,
    ticket === undefined ? '' : `ticket ${quoteNote(ticket)}`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** In quotes where it is more than one word: it could be taken for words of the plan, such as a time. */
function quoteNote(text: string): string {
  return /^[\w.@#+:/-]+$/.test(text) ? text : escapeControls(JSON.stringify(text));
}

export function makeNotesMembers({ owner, ticket, notBefore, expires }: RuleNotes): Readonly<Record<string, string>> {
  const [from, until] = [notBefore, expires].map((time) => (time === undefined ? undefined : formatInstant(time)));
  return omitUndefined({ owner, ticket, not_before: from, expires: until });
}

const mostBoundaries = 20;

/** Rules that begin or end after `now`, the next first. */
export function listShownBoundaries(state: Pick<DesiredState, 'rules' | 'upcoming'>, now: number): readonly Boundary[] {
  const sorted = listBoundaries(state, now).toSorted((a, b) => a.at - b.at);
  // Of a rule that begins first, not the end too.
  const next = sorted.filter(({ rule, what }) => what === 'begins' || (rule.notBefore ?? 0) <= now);
  return next.slice(0, mostBoundaries);
}
