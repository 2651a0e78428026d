/** A schema as it is printed, in the words of JSON Schema that are used here; manifests are checked against the same object. */
export interface Shape {
  readonly type?: ScalarType | 'array' | 'object' | readonly [ScalarType, 'null'];
  readonly const?: string;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: Shape;
  readonly properties?: Fields;
  readonly required?: readonly string[];
  readonly propertyNames?: Shape;
  readonly additionalProperties?: Shape | false;
  readonly anyOf?: readonly Shape[];
  /** What holds between fields; decoding says what is wrong with them. */
  readonly allOf?: readonly object[];
  readonly default?: unknown;
  readonly description?: string;
  readonly examples?: readonly unknown[];
  /** The field may be left out. Symbols are not printed. */
  readonly [leftOut]?: true;
  /** What is checked instead, where decoding says better what is wrong with the text. */
  readonly [checkedAs]?: Shape;
}

export type ScalarType = 'string' | 'number' | 'integer' | 'boolean' | 'null';
export type Fields = Readonly<Record<string, Shape>>;

const leftOut = Symbol('the field may be left out');
export const checkedAs = Symbol('what is checked instead');

export const text: Shape = { type: 'string' };
export const number: Shape = { type: 'number' };
export const boolean: Shape = { type: 'boolean' };
export const nothing: Shape = { type: 'null' };
export const integer: Shape = { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };

export function matching({ source }: RegExp): Shape {
  return { type: 'string', pattern: source };
}

export function choice(...values: readonly [string, ...string[]]): Shape {
  return values.length === 1 ? { type: 'string', const: values[0] } : { type: 'string', enum: values };
}

export function list(items: Shape): Shape {
  return { type: 'array', items };
}

/** A mapping with these fields and no others; `constraints` hold between them. */
export function map(properties: Fields, constraints: readonly object[] = []): Shape {
  const required = Object.keys(properties).filter((name) => !properties[name]?.[leftOut]);
  const allOf = constraints.length > 0 && { allOf: constraints };
  return {
    type: 'object',
    properties,
    ...(required.length > 0 && { required }),
    additionalProperties: false,
    ...allOf,
  };
}

/** A mapping whose keys are names. */
export function names(propertyNames: Shape, additionalProperties: Shape): Shape {
  return { type: 'object', propertyNames, additionalProperties };
}

export function any(...anyOf: readonly Shape[]): Shape {
  return { anyOf };
}

export function orNull(shape: Shape): Shape {
  const { type } = shape;
  const isBare = Object.keys(shape).length === 1 && (type === 'string' || type === 'boolean');
  return isBare ? { type: [type, 'null'] } : any(shape, nothing);
}

/** The shape as a field that must be written. */
export function field(shape: Shape, description: string, ...examples: readonly unknown[]): Shape {
  return { ...shape, description, ...(examples.length > 0 && { examples }) };
}

/** The shape as a field that may be left out. */
export function optional(shape: Shape, description?: string, ...examples: readonly unknown[]): Shape {
  return { ...(description === undefined ? shape : field(shape, description, ...examples)), [leftOut]: true };
}

/** The field names that a mapping at this path may have; of all mappings within, without a path. */
export function listFieldsAt(shape: Shape, path: readonly PropertyKey[] | null): readonly string[] {
  const { anyOf, items, properties } = shape;
  const [key] = path ?? [];
  if (anyOf !== undefined) return anyOf.flatMap((option) => listFieldsAt(option, path));
  if (path === null) {
    const within = Object.entries(properties ?? {}).flatMap(([name, one]) => [name, ...listFieldsAt(one, null)]);
    return items === undefined ? within : listFieldsAt(items, null);
  }
  if (key === undefined) return Object.keys(properties ?? {});
  const next = items ?? properties?.[String(key)];
  return next === undefined ? [] : listFieldsAt(next, path.slice(1));
}
