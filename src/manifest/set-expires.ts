import { isMap, isNode, isScalar, isSeq, parseAllDocuments, type YAMLMap } from 'yaml';

/** The text with that `expires` (as YAML) for `RULE`, `SET/RULE` or `SET`, all else as it was; null where that cannot be edited. */
export function setExpires(text: string, name: string, value: string): string | null {
  const found = parseAllDocuments(text).flatMap(({ contents }) => findRule(contents, name) ?? []);
  const [rule] = found;
  if (rule === undefined || found.length > 1) return null;
  const edit = (from: number, to: number, put: string): string => text.slice(0, from) + put + text.slice(to);
  const old = rule.get('expires', true);
  if (isScalar(old) && old.range) return edit(old.range[0], old.range[1], value);
  if (old !== undefined) return null;
  const fields = rule.items.flatMap(({ key, value: held }) =>
    isNode(key) && key.range && isNode(held) && held.range ? [{ from: key.range[0], to: held.range[1] }] : [],
  );
  const last = fields.at(-1);
  if (rule.flow === true) return last === undefined ? null : edit(last.to, last.to, `, expires: ${value}`);
  // After the first field that stands on one line, on a line of its own.
  const field = fields.find(({ from, to }) => !text.slice(from, to).includes('\n'));
  if (field === undefined) return null;
  const indent = ' '.repeat(field.from - text.lastIndexOf('\n', field.from - 1) - 1);
  const end = field.to + text.slice(field.to).search(/\r?\n|$/);
  return edit(end, end, `${text[end] === '\r' ? '\r\n' : '\n'}${indent}expires: ${value}`);
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
