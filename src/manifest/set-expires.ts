import { isMap, isScalar, isSeq, parseAllDocuments, type YAMLMap } from 'yaml';
import { isTimezone, parseInstant } from '../model/instant.ts';

/**
 * The text with another `expires` in place of the one of `RULE`, `SET/RULE` or `SET`, all else as it was; null where there is none to edit.
 * `former`, `latest`: its own end before and after (ms since 1970), but not where a set around it or a zone of another file counts too.
 */
export function setExpires(text: string, name: string, until: string) {
  const found = parseAllDocuments(text).flatMap(({ contents }) => findRule(contents, name) ?? []);
  const [rule] = found;
  if (rule === undefined || found.length > 1) return null;
  const old = rule.get('expires', true);
  // What others have too is theirs: an alias, what one names, or a value of other environments. And a block has lines of its own.
  if (!isScalar(old) || old.anchor !== undefined || old.type?.startsWith('BLOCK') || !old.range) return null;
  if (String(old.value).includes('${')) return null;
  const plain = until.includes(':') ? '"' : '';
  const quote = { QUOTE_SINGLE: "'", QUOTE_DOUBLE: '"' }[String(old.type)] ?? plain;
  const zone = String(rule.get('timezone') ?? 'UTC');
  const isWhole = !rule.has('name') && isTimezone(zone);
  const ends = isWhole ? [String(old.value), until].map((end) => parseInstant(end, 'until', zone)) : [];
  const [former, latest] = ends.flatMap((end) => (end.ok ? end.value : []));
  return { text: text.slice(0, old.range[0]) + quote + until + quote + text.slice(old.range[1]), former, latest };
}

function findRule(document: unknown, name: string): YAMLMap | null {
  if (!isMap(document) || !/^Rule(?:Set)?$/.test(String(document.get('kind')))) return null;
  const own = String(document.getIn(['metadata', 'name']));
  const rules = document.getIn(['spec', 'rules']);
  const rule =
    own === name
      ? document.get('spec')
      : isSeq(rules) && rules.items.find((item) => isMap(item) && `${own}/${String(item.get('name'))}` === name);
  return isMap(rule) ? rule : null;
}
