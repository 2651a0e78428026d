import type { SimulatorClock } from '../clock.ts';
import type { TableEvents } from '../events.ts';
import type { StoredValues } from './change.ts';
import { OverlapIndex } from './overlap.ts';
import { makeRow, type RuleRow } from './rule.ts';

export interface RuleStoreOptions {
  readonly clock: SimulatorClock;
  readonly events: TableEvents;
  readonly newId: () => string;
  readonly constraints: boolean;
}

/** The rules table: rows in no promised order, with the overlap constraints. */
export class RuleStore {
  readonly #options: RuleStoreOptions;
  readonly #heap = new Heap<RuleRow>();
  readonly #overlaps = new OverlapIndex();
  #list: Buffer | undefined;

  constructor(options: RuleStoreOptions) {
    this.#options = options;
  }

  rows(): Iterable<RuleRow> {
    return this.#heap.rows();
  }

  get(id: string): RuleRow | undefined {
    return this.#heap.get(id);
  }

  /** The whole list's body, kept until the next change. */
  listBody(): Buffer {
    this.#list ??= Buffer.from(`{"data":[${Array.from(this.#heap.rows(), ({ text }) => text).join(',')}]}`);
    return this.#list;
  }

  /** Adds a row, or undefined when an overlap constraint refuses it. */
  insert(values: StoredValues): RuleRow | undefined {
    const now = this.#options.clock.now();
    const row = makeRow({ ...values, id: this.#options.newId(), inserted_at: now, updated_at: now });
    if (this.#options.constraints && this.#overlaps.conflicts(row)) return undefined;
    this.#options.events.emit('changing');
    this.#put(row);
    this.#options.events.emit('inserted', row);
    return row;
  }

  /** Replaces a row's values, or undefined when an overlap constraint refuses it; the row is then as it was. */
  update(before: RuleRow, values: StoredValues): RuleRow | undefined {
    const row = makeRow({ ...before.shown, ...values, updated_at: this.#options.clock.now() });
    this.#overlaps.delete(before);
    if (this.#options.constraints && this.#overlaps.conflicts(row)) {
      this.#overlaps.add(before);
      return undefined;
    }
    this.#options.events.emit('changing');
    this.#heap.delete(before.id);
    this.#put(row);
    this.#options.events.emit('updated', row);
    return row;
  }

  delete(row: RuleRow): void {
    this.#options.events.emit('changing');
    this.drop(row.id);
    this.#options.events.emit('deleted', row);
  }

  /** Puts a row as it is, without constraint and without telling anybody: for data files. */
  load(row: RuleRow): void {
    this.drop(row.id);
    this.#put(row);
  }

  /** Takes a row away without telling anybody. */
  drop(id: string): void {
    const row = this.#heap.get(id);
    if (row === undefined) return;
    this.#overlaps.delete(row);
    this.#heap.delete(id);
    this.#list = undefined;
  }

  #put(row: RuleRow): void {
    this.#overlaps.add(row);
    this.#heap.add(row);
    this.#list = undefined;
  }
}

/** Dead places before the database clears them up: so many, and this share of the rows. */
const slack = 50;
const share = 0.2;

/** The places of rows in the table's file: the order of the list, dead places used again (observed: recordings/rules_list). */
export class Heap<T extends { readonly id: string }> {
  readonly #places: (T | undefined)[] = [];
  readonly #placeOf = new Map<string, number>();
  #dead: number[] = [];
  /** The lowest place last. */
  #free: number[] = [];

  get(id: string): T | undefined {
    const place = this.#placeOf.get(id);
    return place === undefined ? undefined : this.#places[place];
  }

  add(row: T): void {
    const place = this.#free.pop() ?? this.#places.length;
    this.#places[place] = row;
    this.#placeOf.set(row.id, place);
  }

  delete(id: string): void {
    const place = this.#placeOf.get(id);
    if (place === undefined) return;
    this.#places[place] = undefined;
    this.#placeOf.delete(id);
    this.#dead.push(place);
    if (this.#dead.length <= slack + share * this.#placeOf.size) return;
    this.#free = [...this.#free, ...this.#dead].sort((a, b) => b - a);
    this.#dead = [];
  }

  *rows(): Generator<T> {
    for (const row of this.#places) if (row !== undefined) yield row;
  }
}
