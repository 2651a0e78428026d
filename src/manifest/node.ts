import type { Place, Problem } from '../model/problem.ts';

export type ScalarValue = string | number | boolean | null;

/** A scalar. `text` is what is written, so that `10.1` can be refused as an address. Offsets count UTF-16 units of the file. */
export interface ScalarNode {
  readonly type: 'scalar';
  readonly value: ScalarValue;
  readonly text: string;
  readonly plain: boolean;
  readonly start: number;
}

export interface Entry {
  readonly key: string;
  readonly keyStart: number;
  readonly value: Node;
}

export interface MapNode {
  readonly type: 'map';
  readonly entries: readonly Entry[];
  readonly start: number;
}

export interface SeqNode {
  readonly type: 'seq';
  readonly items: readonly Node[];
  readonly start: number;
}

/** A YAML value with its place, independent of the parser's own, much larger nodes. Aliases share their anchor's node. */
export type Node = ScalarNode | MapNode | SeqNode;

/** Whether the scalar directly under a key may be a secret: never substituted, never quoted. */
export function isSecretField(key: string): boolean {
  return key === 'client_secret' || key === 'metadata';
}

/** A plain value with the same content, for the schemas. */
export type Plain = ScalarValue | readonly Plain[] | { readonly [key: string]: Plain };

/** Keys like `__proto__` never get here: the readers refuse them. */
export function toPlain(node: Node): Plain {
  if (node.type === 'scalar') return node.value;
  if (node.type === 'seq') return node.items.map(toPlain);
  return Object.fromEntries(node.entries.map(({ key, value }) => [key, toPlain(value)]));
}

/** The entry under `key`, if the node is a map that has one. */
export function findEntry(node: Node | undefined, key: string): Entry | undefined {
  if (node?.type !== 'map') return undefined;
  for (const entry of node.entries) if (entry.key === key) return entry;
  return undefined;
}

/** The value under `key`, if the node is a map that has one. */
export function findChild(node: Node | undefined, key: string): Node | undefined {
  return findEntry(node, key)?.value;
}

/** The scalar under `key`; undefined when it is missing or no scalar. */
export function findScalar(node: Node | undefined, key: string): ScalarNode | undefined {
  const value = findChild(node, key);
  return value?.type === 'scalar' ? value : undefined;
}

/** The node at a path of keys and indexes, as deep as it exists, and how many steps were taken. */
export function findNode(root: Node, path: readonly PropertyKey[]): { readonly node: Node; readonly depth: number } {
  let node = root;
  for (const [depth, step] of path.entries()) {
    const next: Node | undefined =
      node.type === 'seq' ? node.items[Number(step)] : node.type === 'map' ? findChild(node, String(step)) : undefined;
    if (next === undefined) return { node, depth };
    node = next;
  }
  return { node, depth: path.length };
}

/** What is wrong, and what to type. */
export type Words = Readonly<Record<'summary' | 'hint', string>>;

export type Unplaced = Omit<Problem, 'place' | 'excerpt'>;

/** Collects the problems of one file. Warnings and notes may be switched off later; errors may not. */
export interface Reporter {
  place(offset: number): Place;
  /** Adds a problem at an offset. */
  add(problem: Unplaced, offset: number): void;
  readonly problems: Problem[];
}

/** A problem whose place is still an offset. */
export interface Finding {
  readonly problem: Unplaced;
  readonly offset: number;
  /** The field that is missing here, or that was meant by another. */
  readonly missing?: string;
  readonly meant?: string;
}
