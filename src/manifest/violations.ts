import { getOrMake } from '../model/group-by.ts';
import { findChild, type MapNode, type Node, type ScalarValue, type SeqNode } from './node.ts';
import { checkedAs, type Fields, type ScalarType, type Shape } from './shape.ts';

export interface Violation {
  /** Where in the value; it ends in a field that is missing. */
  readonly path: readonly (string | number)[];
  /** The types that fit there, in words, and the texts of a choice. */
  readonly types: readonly string[];
  readonly values: readonly string[];
  /** Fields of the mapping there that its shape does not have. */
  readonly unknown?: readonly string[];
  /** The key that ends the path is no name. */
  readonly isBadName?: true;
  /** The type is right, and the text has another form. */
  readonly isForm?: true;
  /** What the likeliest of several shapes does not allow further inside. */
  readonly inside?: readonly Violation[];
}

const here = { path: [], types: [], values: [] } as const;
const none: readonly Violation[] = [];

/** What the shape does not allow in a value; undefined: in a field that is not there. */
export function findViolations(shape: Shape, node: Node | undefined): readonly Violation[] {
  const { type, properties } = shape;
  switch (type) {
    case undefined:
      return findInAny((shape[checkedAs] ?? shape).anyOf, node);
    case 'array':
      return node?.type === 'seq' ? findInList(shape.items, node) : wrongType('a list');
    case 'object':
      if (node?.type !== 'map') return wrongType('a mapping');
      return properties === undefined ? findInNames(shape, node) : findInMap(properties, shape.required, node);
    default:
      if (typeof type === 'object') return findInAny([{ type: type[0] }, { type: type[1] }], node);
      return findInScalar(shape, type, node?.type === 'scalar' ? node.value : undefined);
  }
}

function findInList(shape: Shape = {}, { items }: SeqNode): readonly Violation[] {
  const found: Violation[] = [];
  for (const [index, item] of items.entries()) addBelow(found, index, findViolations(shape, item));
  return found;
}

function findInNames({ propertyNames = {}, additionalProperties }: Shape, { entries }: MapNode): readonly Violation[] {
  const found: Violation[] = [];
  for (const { key, value } of entries) {
    const isName = isTextOfForm(propertyNames, key);
    addBelow(found, key, isName ? findViolations(additionalProperties || {}, value) : [{ ...here, isBadName: true }]);
  }
  return found;
}

/** In the order of the fields; what the shape does not know comes last. */
function findInMap(fields: Fields, required: readonly string[] = [], node: MapNode): readonly Violation[] {
  const found: Violation[] = [];
  const unknown: string[] = [];
  for (const { key, value } of node.entries) {
    const field = Object.hasOwn(fields, key) ? fields[key] : undefined;
    if (field === undefined) unknown.push(key);
    else addBelow(found, key, findViolations(field, value));
  }
  for (const name of required)
    if (findChild(node, name) === undefined) addBelow(found, name, findViolations(fields[name] ?? {}, undefined));
  if (unknown.length === 0 && found.length < 2) return found;
  const order = Object.keys(fields);
  found.sort((a, b) => order.indexOf(String(a.path[0])) - order.indexOf(String(b.path[0])));
  return unknown.length === 0 ? found : [...found, { ...here, unknown }];
}

function addBelow(found: Violation[], step: string | number, violations: readonly Violation[]): void {
  for (const violation of violations) found.push({ ...violation, path: [step, ...violation.path] });
}

const typeWords = {
  string: 'a text',
  number: 'a whole number',
  integer: 'a whole number',
  boolean: '`true` or `false`',
  null: '`null`',
} as const;

function findInScalar(shape: Shape, type: ScalarType = 'string', value: ScalarValue | undefined): readonly Violation[] {
  const values = shape.const === undefined ? shape.enum : [shape.const];
  if (values !== undefined) return values.some((one) => one === value) ? none : [{ ...here, values }];
  if (type === 'string' && typeof value === 'string')
    return isTextOfForm(shape, value) ? none : [{ ...here, isForm: true }];
  const isOfType = type === 'integer' ? Number.isInteger(value) : type === (value === null ? 'null' : typeof value);
  return isOfType && !Number.isNaN(value) ? none : wrongType(typeWords[type]);
}

function isTextOfForm({ pattern, maxLength = Number.POSITIVE_INFINITY }: Shape, text: string): boolean {
  const isOfForm = pattern === undefined || getOrMake(patterns, pattern, () => new RegExp(pattern)).test(text);
  return isOfForm && text.length <= maxLength;
}

const patterns = new Map<string, RegExp>();

/** Where only one shape has the right type, what it does not allow; else all that would fit, and what is wrong further inside. */
function findInAny(options: readonly Shape[] = [], node: Node | undefined): readonly Violation[] {
  const found: (readonly Violation[])[] = [];
  for (const option of options) {
    const violations = findViolations(option, node);
    if (violations.length === 0) return none;
    found.push(violations);
  }
  const [typed, ...more] = found.filter((violations) =>
    violations.every(({ isForm, unknown }) => isForm || unknown !== undefined),
  );
  if (typed !== undefined && more.length === 0) return typed;
  const [inside] = found
    .map((violations) => violations.filter(({ path, unknown }) => path.length > 0 || unknown !== undefined))
    .filter((violations) => violations.length > 0)
    .sort((a, b) => a.length - b.length);
  const all = found.flat().filter(({ path }) => path.length === 0);
  const [types, values] = [all.flatMap((one) => one.types), all.flatMap((one) => one.values)];
  return [{ path: [], types, values, ...(inside !== undefined && { inside }) }];
}

function wrongType(type: string): readonly Violation[] {
  return [{ ...here, types: [type] }];
}
