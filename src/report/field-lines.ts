import { escapeControls, shortenText } from '../model/printable.ts';
import type { Change, FieldValue } from '../plan/plan.ts';

/** One changed value for people. `path` like `openid_connect_providers[okta].client_secret`. */
export type FieldLine = Readonly<Record<'path' | 'text', string>>;

/** The changed values of a change, or of what it undoes, one line each; what is equal inside lists and objects is left out. */
export function listFieldLines(fields: Change['fields'], isBack = false): readonly FieldLine[] {
  return Object.entries(fields).flatMap(([name, { before, after }]) =>
    isBack ? linesOf(name, after, before) : linesOf(name, before, after),
  );
}

function linesOf(path: string, before: FieldValue, after: FieldValue): readonly FieldLine[] {
  if (isSecret(after) || isSecret(before)) return secretLine(path, before, after);
  if (isMembers(before) && isMembers(after))
    return Object.keys({ ...before, ...after }).flatMap((name) =>
      linesOf(`${path}.${name}`, before[name] ?? null, after[name] ?? null),
    );
  const areLists = Array.isArray(before) && Array.isArray(after);
  if (areLists && [...before, ...after].every(isMembers)) return listLines(path, before, after);
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const [from = '', to = ''] = [before, after].map(path === 'vpn_session_duration' ? formatSeconds : formatValue);
  if (areLists && from.length + to.length > long) return listLines(path, before, after);
  return [{ path, text: shortenPair(from, to) }];
}

function formatSeconds(value: FieldValue): string {
  return value === 0 ? '0 (no limit)' : `${formatValue(value)} s`;
}

/** Providers line up by their id, other items by what they are. A new order of those that stay is told, but of a set. */
function listLines(path: string, before: readonly FieldValue[], after: readonly FieldValue[]): readonly FieldLine[] {
  const keyOf = (item: FieldValue, index: number): string => {
    const { id }: Members = isMembers(item) ? item : { id: item };
    return typeof id === 'string' ? id : String(index);
  };
  const [keysBefore, keysAfter] = [before.map(keyOf), after.map(keyOf)];
  const [former, present] = [new Map(before.map((item, index) => [keysBefore[index], item])), new Set(keysAfter)];
  const placeOf = (key: string): string => `${path}[${shortenText(escapeControls(key), 80)}]`;
  const lines = after.flatMap((item, index) => {
    const place = placeOf(keysAfter[index] ?? '');
    const earlier = former.get(keysAfter[index]);
    return earlier === undefined
      ? [{ path: place, text: 'added' }, ...addedLines(place, item)]
      : linesOf(place, earlier, item);
  });
  const removed = keysBefore.filter((key) => !present.has(key)).map((key) => ({ path: placeOf(key), text: 'removed' }));
  const common = [keysBefore.filter((key) => present.has(key)), keysAfter.filter((key) => former.has(key))];
  const [from = '', to = ''] = common.map((keys) => keys.map(escapeControls).join(', '));
  const isSame = from === to || path === 'default_client_allowed_ips';
  return [...(isSame ? [] : [{ path, text: `order: ${shortenPair(from, to)}` }]), ...lines, ...removed];
}

/** What an added object holds, one line a member; what is empty says nothing. */
function addedLines(path: string, item: FieldValue): readonly FieldLine[] {
  return Object.entries(isMembers(item) ? item : {})
    .filter(([name, value]) => name !== 'id' && value !== null && value !== '')
    .map(([name, value]) => ({ path: `${path}.${name}`, text: shorten(formatValue(value)) }));
}

function secretLine(path: string, before: FieldValue, after: FieldValue): readonly FieldLine[] {
  const shown = [after, before].find(isSecret);
  if (shown === undefined || shown.secret === 'same') return [];
  const pairOf = (name: 'fingerprint' | 'source'): string => {
    const [from, to] = [before, after].map((value) => (isSecret(value) ? value[name] : null));
    return from && to && from !== to ? `${escapeControls(from)} → ${escapeControls(to)}` : '';
  };
  const name = shown.source ? `secret ${escapeControls(shown.source)}` : 'secret';
  const unknown = `(${name} not available here: not compared, not written)`;
  const parts = [shown.secret === 'unknown' ? unknown : '(changed)', pairOf('fingerprint'), pairOf('source')];
  return [{ path, text: parts.filter(Boolean).join(' ') }];
}

/** A value for people, in one line. A secret inside is `(secret)`. */
export function formatValue(value: FieldValue): string {
  if (value === null) return '(none)';
  if (isSecret(value)) return '(secret)';
  if (typeof value === 'string') return value === '' ? '""' : escapeControls(value);
  if (Array.isArray(value)) return value.length === 0 ? '[]' : `[${value.map(formatValue).join(', ')}]`;
  if (typeof value !== 'object') return String(value);
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return `{${members.map(([name, member]) => `${name}: ${formatValue(member)}`).join(', ')}}`;
}

/** A value of more characters is cut. */
const long = 160;

function shorten(text: string, from = 0): string {
  if (text.length <= long) return text;
  const shown = text.slice(from, from + 120).replaceAll(/\p{Cs}/gu, '');
  return `${from > 0 ? '…' : ''}${shown}${from + 120 < text.length ? '…' : ''} (${text.length} characters)`;
}

/** Both texts, cut around the first character that differs. */
function shortenPair(before: string, after: string): string {
  let same = 0;
  while (same < after.length && before[same] === after[same]) same++;
  return [before, after].map((text) => shorten(text, Math.max(0, same - 40))).join(' → ');
}

type Members = Readonly<Record<string, FieldValue>>;
type SecretValue = Extract<FieldValue, { readonly fingerprint: string | null }>;

function isSecret(value: FieldValue): value is SecretValue {
  return typeof value === 'object' && value !== null && 'secret' in value && 'fingerprint' in value;
}

function isMembers(value: FieldValue): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isSecret(value);
}
