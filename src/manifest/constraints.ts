import type { Shape } from './shape.ts';

const octet = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])';
const ipv4 = `(?:${octet}\\.){3}${octet}(?:/(?:3[0-2]|[12]?[0-9]))?`;
const ipv6 = '[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?';
/** A text with a reference to a value may become anything. */
const reference = '.*\\$\\{.*';
/** The texts of networks, and the texts and numbers of ports. */
export const networkForms: readonly Shape[] = [
  { type: 'string', pattern: `^(?:\\s*(?:${ipv4}|${ipv6})\\s*|${reference})$` },
];
export const portForms: readonly Shape[] = [
  { type: 'integer', minimum: 0, maximum: 65_535 },
  { type: 'string', pattern: `^(?:\\s*[0-9]{1,9}(?:\\s*-\\s*[0-9]{1,9})?\\s*|${reference})$` },
];

/** No two of these are written side by side. */
function excludeEachOther(...names: readonly string[]): readonly object[] {
  return names.flatMap((one, index) => names.slice(index + 1).map((other) => ({ not: requireAll(one, other) })));
}

/** All of these are written. Named as properties too: strict validators refuse requirements of anything else. */
function requireAll(...names: readonly string[]): object {
  return { type: 'object', properties: Object.fromEntries(names.map((name) => [name, true])), required: names };
}

/** Where a field is written, and not as `null`, another is too. */
function needs(field: string, other: string): object {
  const isWritten = (name: string): object => ({
    type: 'object',
    properties: { [name]: { not: { type: 'null' } } },
    required: [name],
  });
  // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema.
  return { if: isWritten(field), then: isWritten(other) };
}

const together: readonly object[] = [needs('port_range', 'port_type'), needs('port_type', 'port_range')];

/** What holds for every rule of a set unless the defaults have one of the fields. */
function unlessDefault(names: readonly string[], allOf: readonly object[]): object {
  const has = names.map((name) => requireAll(name));
  return {
    if: { not: { type: 'object', properties: { defaults: { anyOf: has } }, required: ['defaults'] } },
    // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema.
    then: { type: 'object', properties: { rules: { type: 'array', items: { allOf } } } },
  };
}

/** Of two fields of a rule for one thing only one is written, and ports have a type. */
export const ruleConstraints = [...excludeEachOther('user_id', 'user', 'group'), ...together];

const destinationFields = ['destination', 'destinations'];

/** The same of a rule of a set, and of what its rules have by default. */
export const setFieldConstraints = [
  ...excludeEachOther('user_id', 'user', 'group', 'users'),
  ...excludeEachOther(...destinationFields),
];

/** What the rules of a set must have unless its defaults do. */
export const setConstraints = [
  unlessDefault(['port_type', 'port_range'], together),
  unlessDefault(['action'], [requireAll('action')]),
  unlessDefault(destinationFields, [{ anyOf: destinationFields.map((one) => requireAll(one)) }]),
];
