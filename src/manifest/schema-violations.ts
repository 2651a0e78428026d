import { CST } from 'yaml';
import { z } from 'zod';
import { parseNetwork } from '../model/address.ts';
import { parsePortRange } from '../model/port-range.ts';
import { kinds } from './manifest.ts';
import { resolveScalar } from './scalar.ts';
import { schemas } from './schema.ts';

type Collection = CST.BlockMap | CST.BlockSequence | CST.FlowCollection;
type Item = CST.CollectionItem;
type Schema = z.core.$ZodType;

/**
 * Counts, while a document is still being read, the values in it that no manifest can have: a file full of them ends after
 * the first thousand. It looks only at what the parser has finished, at each item once, and lets pass what is decided later
 * (aliases, references to values).
 */
export class SchemaViolations {
  #count = 0;
  /** How many items of a collection were looked at while it was open. */
  readonly #looked = new Map<Collection, number>();

  /** Looks at what was finished since the last time; `stack` is the parser's. Gives the number of violations so far. */
  look(stack: readonly CST.Token[]): number {
    let here: readonly Schema[] = schemasOf(stack[1]);
    let field = '';
    for (const open of stack.slice(1)) {
      if (!isCollection(open)) break;
      const finished = open.items.length - 1;
      this.#count += this.#countItems({ collection: open, schemas: here, field }, finished);
      if (finished > 0) this.#looked.set(open, finished);
      const last = open.items.at(-1);
      if (hasManyMarks(last)) this.#count = Number.POSITIVE_INFINITY;
      const key = last === undefined || isList(open) ? null : keyOf(last);
      // What a mapping of names has is no field.
      if (key !== null) field = here.some((schema) => schema instanceof z.ZodObject) ? key : '';
      here = here.flatMap((schema) => within(schema, key));
    }
    return this.#count;
  }

  /** The violations among a collection's items that were not looked at yet, under the schema that fits best. */
  #countItems({ collection, schemas, field }: Place, end: number): number {
    const from = this.#looked.get(collection) ?? 0;
    const items = collection.items.slice(from, end).filter((item, index) => !isFiller(item, collection, from + index));
    if (items.length === 0) return 0;
    const fitting = schemas.filter((schema) => (isList(collection) ? isListSchema(schema) : !isListSchema(schema)));
    const counts = fitting.map((schema) => {
      let count = 0;
      for (const item of items) count += this.#countItem(item, schema, field);
      return count;
    });
    return counts.length === 0 ? items.length : Math.min(...counts);
  }

  #countItem(item: Item, schema: Schema, field: string): number {
    if ([...item.start, ...(item.sep ?? [])].some(({ type, source }) => type === 'tag' && !source.startsWith('!!')))
      return 1;
    const isEntry = (item.sep?.length ?? 0) > 0;
    const key = isEntry ? keyOf(item) : null;
    const inner = within(schema, key);
    if (schema instanceof z.ZodArray) {
      // `[network: staging]` is a list of one mapping with one entry.
      if (isEntry) return inner.some((one) => within(one, key).length > 0) ? 0 : 1;
      // After a comma the parser takes each item for a key, until a colon does not follow.
      const value = item.value ?? item.key;
      return textOf(value) === '' ? 1 : this.#countValue(value, inner, field);
    }
    if (!isEntry) return 1;
    return this.#countValue(item.value, inner, schema instanceof z.ZodObject ? (key ?? '') : '');
  }

  #countValue(token: CST.Token | null | undefined, schemas: readonly Schema[], field: string): number {
    if (token === undefined || token === null || schemas.length === 0) return 1;
    if (token.type === 'alias') return 0;
    if (!isCollection(token)) return scalarFits(token, schemas, field) ? 0 : 1;
    if (isList(token)) {
      return schemas.some(isListSchema)
        ? this.#countItems({ collection: token, schemas, field }, token.items.length)
        : 1;
    }
    const mappings = schemas.filter((schema) => schema instanceof z.ZodObject || schema instanceof z.ZodRecord);
    if (mappings.length === 0) return 1;
    const keys = new Set(token.items.map(keyOf));
    const missing = mappings.map((schema) => requiredFields(schema).filter((name) => !keys.has(name)).length);
    return Math.min(...missing) + this.#countItems({ collection: token, schemas, field }, token.items.length);
  }
}

/** Whether an item is only a comment, or what follows the last comma. */
function isFiller({ start, key, sep, value }: Item, collection: Collection, index: number): boolean {
  if (key !== undefined || value !== undefined || (sep?.length ?? 0) > 0) return false;
  if (collection.type === 'flow-collection') return index === collection.items.length - 1;
  return !start.some(({ type }) => type === 'seq-item-ind' || type === 'explicit-key-ind');
}

/** Colons, tags and anchors one after the other: the parser keeps them all for one item. */
function hasManyMarks(item: Item | undefined): boolean {
  return [item?.start, item?.sep].some((tokens = []) => {
    const marks = tokens
      .slice(-1_000)
      .filter(({ type }) => type !== 'space' && type !== 'newline' && type !== 'comment');
    return marks.length > 100;
  });
}

interface Place {
  readonly collection: Collection;
  readonly schemas: readonly Schema[];
  /** The field that it is the value of, or an item of. */
  readonly field: string;
}

/** The schema of the document's kind; of every kind, where the kind is not known yet. */
function schemasOf(root: CST.Token | undefined): readonly Schema[] {
  const item = isCollection(root) ? root.items.find((one) => keyOf(one) === 'kind') : undefined;
  const kind = textOf(item?.value);
  return kinds.filter((one) => kind === null || kind === one).map((one) => schemas[one]);
}

/** The schemas, none of them a choice, of the value at a key; for a list, of its items. */
function within(schema: Schema, key: string | null): readonly Schema[] {
  if (schema instanceof z.ZodArray) return choicesOf(schema.element);
  if (schema instanceof z.ZodRecord) return choicesOf(schema.valueType);
  if (!(schema instanceof z.ZodObject) || key === null || !Object.hasOwn(schema.shape, key)) return [];
  const field: Schema | undefined = schema.shape[key];
  return field === undefined ? [] : choicesOf(field);
}

function choicesOf(schema: Schema): readonly Schema[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return choicesOf(schema.unwrap());
  return schema instanceof z.ZodUnion ? schema.options.flatMap(choicesOf) : [schema];
}

function requiredFields(schema: Schema): readonly string[] {
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.keys(schema.shape).filter((name) => {
    const field: Schema = schema.shape[name];
    return !(field instanceof z.ZodOptional || field instanceof z.ZodDefault);
  });
}

const addressFields: ReadonlySet<string> = new Set(['destination', 'destinations', 'cidrs']);
const anyPort = { min: 0, max: 65535 };

function scalarFits(token: CST.Token, schemas: readonly Schema[], field: string): boolean {
  const text = textOf(token);
  if (text === null) return false;
  if (text.includes('${')) return true;
  const value = token.type === 'scalar' ? resolveScalar(text) : text;
  if (!schemas.some((schema) => z.safeParse(schema, value).success)) return false;
  if (value === null) return true;
  return addressFields.has(field) ? parseNetwork(text).ok : field !== 'port_range' || parsePortRange(text, anyPort).ok;
}

function textOf(token: CST.Token | null | undefined): string | null {
  if (token === undefined || token === null || token.type === 'alias') return null;
  return CST.isScalar(token) ? CST.resolveAsScalar(token).value : null;
}

function keyOf(item: Item): string | null {
  return textOf(item.key);
}

function isCollection(token: CST.Token | undefined): token is Collection {
  return token !== undefined && CST.isCollection(token);
}

function isList(collection: Collection): boolean {
  return collection.type === 'block-seq' || (collection.type === 'flow-collection' && collection.start.source === '[');
}

function isListSchema(schema: Schema): boolean {
  return schema instanceof z.ZodArray;
}
