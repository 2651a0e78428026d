/** Dead places before the database clears them up: so many, and this share of the rows. */
const slack = 50;
const share = 0.2;

/**
 * The places of rows in the table's file, which is the order of the list. A changed row moves to a new place; places of
 * rows that went are used again once enough of them are dead, so that new rows then stand before older ones
 * (observed: recordings/rules_list).
 */
export class Heap<T extends { readonly id: string }> {
  readonly #places: (T | undefined)[] = [];
  readonly #placeOf = new Map<string, number>();
  #dead: number[] = [];
  /** The lowest place last. */
  #free: number[] = [];

  get size(): number {
    return this.#placeOf.size;
  }

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
    if (this.#dead.length <= slack + share * this.size) return;
    this.#free = [...this.#free, ...this.#dead].sort((a, b) => b - a);
    this.#dead = [];
  }

  *rows(): Generator<T> {
    for (const row of this.#places) if (row !== undefined) yield row;
  }
}
