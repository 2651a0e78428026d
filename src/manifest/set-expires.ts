import { isMap, isNode, isScalar, isSeq, parseAllDocuments, type YAMLMap } from 'yaml';

/** The text with that `expires` (as YAML) for `RULE`, `SET/RULE` or `SET`, all else as it was; null where that cannot be edited. */
export function setExpires(text: string, name: string, value: string): string | null {
  const found = parseAllDocuments(text).flatMap(({ contents }) => findRule(contents, name) ?? []);
  const [rule] = found;
  if (rule === undefined || found.length > 1) return null;
  const edit = (from: number, to: number, put: string): string => text.slice(0, from) + put + text.slice(to);
  const old = rule.get('expires', true);
  // What other rules have too is theirs: an alias, or what one names. And a block has lines of its own.
  const isPlain = isScalar(old) && old.anchor === undefined && old.type?.startsWith('BLOCK') !== true;
  if (isPlain && old.range) return edit(old.range[0], old.range[1], value);
  if (old !== undefined) return null;
  const fields = rule.items.flatMap(({ key, value: held }) =>
    isNode(key) && key.range && isNode(held) && held.range ? [{ from: key.range[0], to: held.range[1] }] : [],
  );
  const [first, last] = [fields[0], fields.at(-1)];
  if (first === undefined || last === undefined) return null;
  if (rule.flow === true) return edit(last.to, last.to, `, expires: ${value}`);
  // On a line of its own, after the first field that stands on one line.
  const indent = ' '.repeat(first.from - text.lastIndexOf('\n', first.from - 1) - 1);
  const newLine = `${text.includes('\r\n') ? '\r\n' : '\n'}${indent}`;
  const short = fields.find(({ from, to }) => !text.slice(from, to).includes('\n'));
  if (short === undefined) return edit(first.from, first.from, `expires: ${value}${newLine}`);
  const end = short.to + text.slice(short.to).search(/\r?\n|$/);
  return edit(end, end, `${newLine}expires: ${value}`);
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
