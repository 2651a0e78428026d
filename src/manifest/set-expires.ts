import { isMap, isScalar, isSeq, parseAllDocuments, type YAMLMap } from 'yaml';

/** The text with that `expires` (as YAML) in place of the one of `RULE`, `SET/RULE` or `SET`, all else as it was; null where there is none to edit. */
export function setExpires(text: string, name: string, value: string): string | null {
  const found = parseAllDocuments(text).flatMap(({ contents }) => findRule(contents, name) ?? []);
  const [rule] = found;
  if (rule === undefined || found.length > 1) return null;
  const old = rule.get('expires', true);
  // What other rules have too is theirs: an alias, or what one names. And a block has lines of its own.
  if (!isScalar(old) || old.anchor !== undefined || old.type?.startsWith('BLOCK') || !old.range) return null;
  return text.slice(0, old.range[0]) + value + text.slice(old.range[1]);
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
