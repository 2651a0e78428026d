import type { SimulatorClock } from '../clock.ts';
import type { TableEvents } from '../events.ts';
import { createOverlapIndex } from './overlap.ts';
import { makeRow, type RuleRow, type StoredValues } from './rule.ts';

/** The rules table: rows in no promised order, with the overlap constraints where `constraints` says so. */
export function createRules(clock: SimulatorClock, events: TableEvents, newId: () => string, constraints: boolean) {
  const heap = new Heap<RuleRow>();
  const overlaps = createOverlapIndex();
  let list: Buffer | undefined;
  const put = (row: RuleRow): void => {
    overlaps.add(row);
    heap.add(row);
    list = undefined;
  };
  /** Takes a row away without telling anybody. */
  const drop = (id: string): void => {
    const row = heap.get(id);
    if (row === undefined) return;
    overlaps.delete(row);
    heap.delete(id);
    list = undefined;
  };
  return {
    drop,
    rows: (): Iterable<RuleRow> => heap.rows(),
    get: (id: string): RuleRow | undefined => heap.get(id),
    /** The whole list's body, kept until the next change. */
    listBody: (): Buffer =>
      (list ??= Buffer.from(`{"data":[${Array.from(heap.rows(), ({ text }) => text).join(',')}]}`)),
    /** Adds a row, or undefined when an overlap constraint refuses it. */
    insert(values: StoredValues): RuleRow | undefined {
      const now = clock.now();
      const row = makeRow({ ...values, id: newId(), inserted_at: now, updated_at: now });
      if (constraints && overlaps.conflicts(row)) return undefined;
      events.emit('changing');
      put(row);
      events.emit('inserted', row);
      return row;
    },
    /** Replaces a row's values, or undefined when an overlap constraint refuses it; the row is then as it was. */
    update(before: RuleRow, values: StoredValues): RuleRow | undefined {
      const row = makeRow({ ...before.shown, ...values, updated_at: clock.now() });
      overlaps.delete(before);
      if (constraints && overlaps.conflicts(row)) {
        overlaps.add(before);
        return undefined;
      }
      events.emit('changing');
      heap.delete(before.id);
      put(row);
      events.emit('updated', row);
      return row;
    },
    delete(row: RuleRow): void {
      events.emit('changing');
      drop(row.id);
      events.emit('deleted', row);
    },
    /** Puts a row as it is, without constraint and without telling anybody: for data files. */
    load(row: RuleRow): void {
      drop(row.id);
      put(row);
    },
  };
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
