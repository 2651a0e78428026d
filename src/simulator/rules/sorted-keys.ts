const chunkSize = 512;

/** A set of texts in order, in chunks, so that 100,000 of them are added and searched quickly. */
export class SortedKeys {
  readonly #chunks: string[][] = [];

  add(key: string): void {
    const index = Math.max(this.#chunkOf(key), 0);
    const chunk = this.#chunks[index];
    if (chunk === undefined) {
      this.#chunks.push([key]);
      return;
    }
    chunk.splice(lowerBound(chunk, key), 0, key);
    if (chunk.length > chunkSize) this.#chunks.splice(index + 1, 0, chunk.splice(chunkSize / 2));
  }

  delete(key: string): void {
    const index = this.#chunkOf(key);
    const chunk = this.#chunks[index];
    if (chunk === undefined) return;
    const at = lowerBound(chunk, key);
    if (chunk[at] !== key) return;
    chunk.splice(at, 1);
    if (chunk.length === 0) this.#chunks.splice(index, 1);
  }

  /** All keys that begin with the prefix, in order. */
  *startingWith(prefix: string): Generator<string> {
    for (let index = Math.max(this.#chunkOf(prefix), 0); index < this.#chunks.length; index++) {
      const chunk = this.#chunks[index] ?? [];
      for (let at = lowerBound(chunk, prefix); at < chunk.length; at++) {
        const key = chunk[at] ?? '';
        if (!key.startsWith(prefix)) return;
        yield key;
      }
    }
  }

  /** The last chunk whose first key is not after the key; -1 if there is none. */
  #chunkOf(key: string): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#chunks[middle]?.[0] ?? '') <= key) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((keys[middle] ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
