import { isMap, isScalar, isSeq, parseAllDocuments, type YAMLMap } from 'yaml';

/** The text with that `expires` (as YAML) for `RULE`, `SET/RULE` or `SET`, all else as it was; null where that cannot be edited. */
export function setExpires(text: string, name: string, value: string): string | null {
  const found = parseAllDocuments(text).flatMap(({ contents }) => findRule(contents, name) ?? []);
  const [rule] = found;
  if (rule === undefined || found.length > 1) return null;
  const [last] = rule.items.slice(-1);
  const old = rule.items.find(({ key }) => isScalar(key) && key.value === 'expires')?.value;
  const edit = (from: number, to: number, put: string): string => text.slice(0, from) + put + text.slice(to);
  if (isScalar(old) && old.range) return edit(old.range[0], old.range[1], value);
  if (old !== undefined || last === undefined) return null;
  if (rule.flow === true) {
    const end = endOf(last.value);
    return end === null ? null : edit(end, end, `, expires: ${value}`);
  }
  return extendBlock(text, rule, value);
}

/** After the first field that stands on one line, on a line of its own. */
function extendBlock(text: string, rule: YAMLMap, value: string): string | null {
  for (const { key, value: held } of rule.items) {
    const end = endOf(held);
    const start = isScalar(key) ? key.range?.[0] : undefined;
    if (end === null || start === undefined || text.slice(start, end).includes('\n')) continue;
    const line = text.indexOf('\n', end) < 0 ? text.length : text.indexOf('\n', end);
    const indent = ' '.repeat(start - (text.lastIndexOf('\n', start - 1) + 1));
    const at = text[line - 1] === '\r' ? line - 1 : line;
    return `${text.slice(0, at)}${at < line ? '\r\n' : '\n'}${indent}expires: ${value}${text.slice(at)}`;
  }
  return null;
}

function findRule(document: unknown, name: string): YAMLMap | null {
  if (!isMap(document)) return null;
  const own = document.getIn(['metadata', 'name']);
  const kind = document.get('kind');
  if (kind !== 'Rule' && kind !== 'RuleSet') return null;
  const spec = document.get('spec');
  if (own === name) return isMap(spec) ? spec : null;
  const rules = isMap(spec) ? spec.get('rules') : null;
  if (kind !== 'RuleSet' || !isSeq(rules)) return null;
  const rule = rules.items.find((item) => isMap(item) && `${String(own)}/${String(item.get('name'))}` === name);
  return isMap(rule) ? rule : null;
}

function endOf(node: unknown): number | null {
  return (isScalar(node) || isMap(node) || isSeq(node)) && node.range ? node.range[1] : null;
}
