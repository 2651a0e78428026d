import { canonicalizeNetwork, parseNetwork } from '../model/address.ts';
import { formatPortRange, parsePortRange } from '../model/port-range.ts';
import { everyPort } from '../model/state.ts';
import { type Kind, kinds } from './manifest.ts';
import { findScalar, type MapNode, type Node, type ScalarNode, type SeqNode } from './node.ts';
import { readPlain } from './read-plain.ts';
import { defaultFileWork } from './read-tokens.ts';
import { isUuid, listFields } from './schema.ts';
import { quoteYaml, unseen } from './write.ts';

/**
 * A file in the plain form in canonical spelling and order; null for one that has anything whose place or quotes the YAML library
 * decides. It says the same as the library, in a tenth of its time and memory (`test/manifest/format.test.ts` compares them).
 */
export function formatPlain(text: string): string | null {
  // What stands behind a value on its line, and what has to be escaped, is left to the library.
  if (/[^ \n] +#|\$\{/.test(text) || text.search(unseen) >= 0) return null;
  const work = { spent: 0, most: defaultFileWork };
  const documents = readPlain({ text, fields: undefined, documents: 1_000_000, work });
  // Where a document has nothing but comments, they stay a document.
  if (documents === null || documents.length !== text.split('\n---').length) return null;
  const between = collectBetween(text);
  try {
    const written = documents.map(({ root, end }) => {
      const kind = kinds.find((one) => one === findScalar(root, 'kind')?.text);
      if (kind === undefined) throw new Undecided();
      const lines = new PlainWriter(text, kind, between).write(root);
      between.end(end);
      return `${lines.join('\n')}\n`;
    });
    between.end(text.length + 1);
    return written.join('---\n');
  } catch (error) {
    if (error instanceof Undecided) return null;
    throw error;
  }
}

/** The library has to decide. */
class Undecided extends Error {}

type Between = ReturnType<typeof collectBetween>;

/** Comments and empty lines on their way to what stands below them. */
function collectBetween(text: string) {
  const lines = [...text.matchAll(/^( *)(#.*)?$/gm)].map(({ index, 1: space = '', 2: comment = '' }) => {
    return { start: index, indent: space.length, text: comment };
  });
  let next = 0;
  return {
    /** Takes what stands above `start` in that column and belongs to nothing else; all of it at the head of a document. */
    take(start: number, column: number, isHead: boolean): readonly string[] {
      const taken: string[] = [];
      for (let line = lines[next]; line !== undefined && line.start < start; line = lines[++next]) {
        const isApart = line.text === '' ? taken.some((one) => one !== '') && !isHead : line.indent !== column;
        if (isApart) throw new Undecided();
        if (line.text !== '' || taken.at(-1) !== '') taken.push(line.text);
      }
      return taken;
    },
    /** Drops empty lines before the end of a document, where no comment may be left. */
    end(end: number): void {
      for (let line = lines[next]; line !== undefined && line.start < end; line = lines[++next])
        if (line.text !== '') throw new Undecided();
    },
  };
}

class PlainWriter {
  readonly #text: string;
  readonly #kind: Kind;
  readonly #between: Between;

  constructor(text: string, kind: Kind, between: Between) {
    this.#text = text;
    this.#kind = kind;
    this.#between = between;
  }

  /** The lines of a document. */
  write(root: MapNode): readonly string[] {
    const [first] = root.entries;
    const head = first === undefined ? [] : this.#above(first.keyStart, true);
    return [...head.filter((line, index) => index > 0 || line !== ''), ...this.#fields(root, '', [])];
  }

  #above(start: number, isHead = false): readonly string[] {
    return this.#between.take(start, start - (this.#text.lastIndexOf('\n', start - 1) + 1), isHead);
  }

  #fields({ entries }: MapNode, indent: string, path: Path): readonly string[] {
    const fields = entries.map(({ key, keyStart, value }, index) => {
      const above = this.#above(keyStart);
      // The library gives an empty line above the first field to the whole mapping.
      if (index === 0 && above.includes('')) throw new Undecided();
      const lines = this.#member(`${indent}${this.#plain(key)}:`, value, indent, [...path, key]);
      return { key, above, lines };
    });
    return orderFields(this.#kind, path, fields, ({ key }) => key).flatMap(({ above, lines }, index) => [
      ...above.filter((line) => index > 0 || line !== '').map((line) => (line === '' ? '' : indent + line)),
      ...lines,
    ]);
  }

  #member(start: string, value: Node, indent: string, path: Path): readonly string[] {
    if (value.type === 'scalar' || this.#isFlow(value)) return [`${start} ${this.#inline(value, path)}`];
    const inner = `${indent}  `;
    return [start, ...(value.type === 'map' ? this.#fields(value, inner, path) : this.#items(value, inner, path))];
  }

  #items({ items }: SeqNode, indent: string, path: Path): readonly string[] {
    return items.flatMap((item, index) => {
      const dash = this.#text.lastIndexOf('-', item.start);
      const above = this.#above(dash).map((line) => (line === '' ? '' : indent + line));
      if (item.type === 'seq' && !this.#isFlow(item)) throw new Undecided();
      const [first = '', ...rest] =
        item.type === 'map' && !this.#isFlow(item)
          ? this.#fields(item, `${indent}  `, [...path, index])
          : [`${indent}  ${this.#inline(item, [...path, index])}`];
      return [...above, `${indent}- ${first.slice(indent.length + 2)}`, ...rest];
    });
  }

  #isFlow({ start }: Node): boolean {
    return this.#text[start] === '{' || this.#text[start] === '[';
  }

  #inline(node: Node, path: Path): string {
    if (node.type === 'scalar') return this.#scalar(node, path);
    if (node.type === 'seq') return `[${node.items.map((item, at) => this.#inline(item, [...path, at])).join(', ')}]`;
    const members = orderFields(this.#kind, path, node.entries, ({ key }) => key).map(
      ({ key, value }) => `${this.#plain(key)}: ${this.#inline(value, [...path, key])}`,
    );
    return `{${members.join(', ')}}`;
  }

  #scalar({ text, value, plain, start }: ScalarNode, path: Path): string {
    const canonical = respell(this.#kind, path, text, value);
    if (typeof canonical === 'number') return String(canonical);
    if (canonical !== null && canonical !== value) return this.#plain(canonical);
    if (!plain) return this.#text.slice(start, start + text.length + 2);
    if (typeof value === 'string') return this.#plain(text);
    if (String(value) !== text) throw new Undecided();
    return text;
  }

  /** A text without quotes, which readers of YAML 1.1 must not take for something else. */
  #plain(text: string): string {
    // A colon at the end would make it a key.
    const isAddress = /[:/].*[a-f/]|::/.test(text) && !text.endsWith(':') && parseNetwork(text).ok;
    if (!isAddress && quoteYaml(text) !== text) throw new Undecided();
    return text;
  }
}

export type Path = readonly (string | number)[];

const addressFields: ReadonlySet<string> = new Set(['destination', 'destinations', 'cidrs']);
const userFields: ReadonlySet<string> = new Set(['user_id', 'user', 'users', 'members']);

/** The canonical spelling of a scalar whose field has one; null for any other, and where a name is put in later. */
export function respell(kind: Kind, path: Path, text: string, value: unknown): string | number | null {
  const field = String(path.findLast((step) => typeof step === 'string'));
  if (path[0] !== 'spec' || text.includes('${')) return null;
  // One with host bits is likely a slip, and its warning must not be erased.
  if (addressFields.has(field)) return canonicalizeNetwork(text);
  if (field === 'port_range' || (field === 'port' && kind === 'PolicyTest')) {
    const ports = value === null ? null : parsePortRange(text, everyPort);
    if (ports?.ok !== true) return null;
    const { low, high } = ports.value;
    return low === high ? low : formatPortRange(ports.value).replaceAll(' ', '');
  }
  return (userFields.has(field) || kind === 'Users') && isUuid(text) ? text.toLowerCase() : null;
}

/** The members of a mapping in the order of the reference; those that it does not know go last. */
export function orderFields<T>(kind: Kind, path: Path, members: readonly T[], keyOf: (member: T) => string) {
  const fields = listFields(kind, path);
  const rank = (member: T): number => {
    const index = fields.indexOf(keyOf(member));
    return index < 0 ? fields.length : index;
  };
  return members.toSorted((a, b) => rank(a) - rank(b));
}
