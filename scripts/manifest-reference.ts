import { makeJsonSchema } from '../src/manifest/json-schema.ts';
import type { Kind } from '../src/manifest/manifest.ts';

/** The part of JSON Schema that the manifests' schemas use. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly description?: string;
  readonly examples?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
}

/** The API field that a manifest's field becomes, where it is another one. */
const apiFields: Readonly<Record<string, string>> = {
  destinations: 'destination',
  network: 'destination',
  user: 'user_id',
  users: 'user_id',
  group: 'user_id',
  name: '–',
  defaults: '–',
  rules: '–',
  env: '–',
  file: '–',
  owner: '–',
  ticket: '–',
  expires: '–',
  notBefore: '–',
  timezone: '–',
};

/** The table of a kind's fields, as Markdown. `hasApi`: the kind's fields have counterparts in the API. */
export function fieldTable(kind: Kind, hasApi: boolean): string {
  const root = makeJsonSchema(kind) as Schema;
  const spec = root.properties?.['spec'];
  if (spec === undefined) return '';
  // The defaults of a set have the fields of its rules: said once.
  const listed = rowsOf(spec, '').filter(({ path }) => !path.startsWith('defaults.'));
  const rows = listed.map(({ path, schema, required }) => {
    const last = path.split(/\.|\[\]/).findLast((part) => part !== '') ?? '';
    const api = hasApi ? [apiFields[last] === undefined ? `\`${last}\`` : codeOr(apiFields[last])] : [];
    return [`\`${path}\``, typeOf(schema), defaultOf(schema, required), ...api, describe(schema)];
  });
  const head = ['Field', 'Type', 'Default', ...(hasApi ? ['API field'] : []), 'Meaning'];
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function codeOr(text: string): string {
  return text === '–' ? text : `\`${text}\``;
}

interface Row {
  readonly path: string;
  readonly schema: Schema;
  readonly required: boolean;
}

function rowsOf(schema: Schema, prefix: string): readonly Row[] {
  if (schema.properties !== undefined) {
    return Object.entries(schema.properties).flatMap(([name, member]) => {
      const path = prefix === '' ? name : `${prefix}.${name}`;
      const required = schema.required?.includes(name) === true;
      return [{ path, schema: member, required }, ...rowsOf(member, path)];
    });
  }
  if (schema.items !== undefined) return rowsOf(schema.items, `${prefix}[]`);
  if (schema.anyOf !== undefined) {
    const seen = new Set<string>();
    return schema.anyOf
      .flatMap((option) => rowsOf(option, prefix))
      .filter(({ path }) => seen.size < seen.add(path).size);
  }
  if (typeof schema.additionalProperties === 'object') {
    return [
      { path: prefix === '' ? '<name>' : `${prefix}.<name>`, schema: schema.additionalProperties, required: false },
    ];
  }
  return [];
}

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${String(value)}\``).join(', ');
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(typeOf))].join(' or ');
  if (schema.items !== undefined) return `list of ${typeOf(schema.items)}`;
  const types = typeof schema.type === 'string' ? [schema.type] : (schema.type ?? []);
  const words: Readonly<Record<string, string>> = { string: 'text', object: 'mapping', integer: 'whole number' };
  return types.map((type) => words[type] ?? type).join(' or ');
}

function defaultOf(schema: Schema, required: boolean): string {
  if (required) return 'required';
  return schema.default === undefined ? '–' : `\`${String(schema.default)}\``;
}

function describe({ description = '', examples = [] }: Schema): string {
  const scalars = examples.filter((example) => typeof example !== 'object');
  const shown = scalars.map((example) => `\`${String(example)}\``).join(', ');
  return `${description}${shown === '' ? '' : ` Such as ${shown}.`}`.replaceAll('|', '\\|').trim();
}

const kindsWithApi: ReadonlySet<Kind> = new Set(['Rule', 'RuleSet', 'Configuration']);

/** Puts the tables between their markers (`<!-- fields: KIND -->` … `<!-- end -->`). */
export function withFieldTables(text: string): string {
  return text.replace(
    /(<!-- fields: (\w+) -->\n)[\s\S]*?(<!-- end -->)/g,
    (_, start: string, kind: Kind, end: string) => {
      return `${start}${fieldTable(kind, kindsWithApi.has(kind))}\n${end}`;
    },
  );
}
