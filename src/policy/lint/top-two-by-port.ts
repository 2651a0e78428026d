import { findFirstPosition, getOrMake } from '../../model/group-by.ts';
import type { PortRange } from '../../model/port-range.ts';
import { cutPorts, Paint } from '../port-pieces.ts';
import { type PortSet, subtractPorts, toPortSet } from '../port-set.ts';

export interface PortKey {
  readonly ports: PortRange;
  readonly key: number;
}

/** Ports with the two lowest keys there. */
export interface PortPiece extends PortRange {
  readonly best: number;
  readonly second: number;
}

/** The two lowest keys by port. Only ports that new keys name are stored; for others the layer outside says what holds. */
export class TopTwo {
  readonly #outer: TopTwo | null;
  readonly #none: number;
  /** The ports stored here, and the pieces into which they are cut, ascending. */
  readonly #ports: PortSet;
  readonly #pieces: readonly PortPiece[];
  readonly openPorts: number;
  /** By what the pieces are looked at for: those not looked at yet, here and outside. */
  readonly #fresh = new Map<unknown, { readonly pieces: Paint; count: number }>();

  /** `none` stands for no key. */
  constructor(none: number, outer: TopTwo | null = null, added: readonly PortKey[] = []) {
    this.#none = none;
    this.#outer = outer;
    this.#ports = toPortSet(added.map(({ ports }) => ports));
    const before = this.#ports.flatMap((range) => this.#outside(range));
    this.#pieces = lower(before, added);
    const taken = before.filter(({ best }) => best === none).reduce((sum, { low, high }) => sum + high - low + 1, 0);
    this.openPorts = (outer?.openPorts ?? 65_536) - taken;
  }

  /** With more keys, each other than all there are. */
  with(added: readonly PortKey[]): TopTwo {
    return new TopTwo(this.#none, this, added);
  }

  /** The two lowest keys at a port. */
  at(port: number): readonly [number, number] {
    const piece = this.#pieces[this.#firstReaching(port)];
    if (piece !== undefined && piece.low <= port) return [piece.best, piece.second];
    return this.#outer?.at(port) ?? [this.#none, this.#none];
  }

  /** Visits all ports, ascending within each layer, those without a key too. */
  each(visit: (piece: PortPiece) => void, visible: PortSet = allPorts): void {
    for (const range of visible) {
      for (const piece of this.#stored(range)) visit(clip(piece, range));
    }
    const rest = this.#ports.length === 0 ? visible : subtractPorts(visible, this.#ports);
    if (this.#outer !== null) this.#outer.each(visit, rest);
    else for (const range of rest) visit({ ...range, best: this.#none, second: this.#none });
  }

  /** Visits the pieces with keys that were not visited for this purpose before, here or from another layer inside the same one. */
  eachFresh(purpose: unknown, visit: (piece: PortPiece) => void, visible: PortSet = allPorts): void {
    const fresh = this.#freshFor(purpose);
    if (fresh.count > 0) {
      for (const { low, high } of visible) {
        fresh.pieces.each(this.#pieces[this.#firstReaching(low)]?.low ?? high + 1, high, (index) => {
          fresh.count--;
          visit(this.#pieces[index] as PortPiece);
          return true;
        });
      }
    }
    if (this.#outer?.isFresh(purpose)) this.#outer.eachFresh(purpose, visit, subtractPorts(visible, this.#ports));
  }

  /** Whether `eachFresh` may have something left to visit. */
  isFresh(purpose: unknown): boolean {
    return this.#freshFor(purpose).count > 0 || this.#outer?.isFresh(purpose) === true;
  }

  #freshFor(purpose: unknown): { readonly pieces: Paint; count: number } {
    return getOrMake(this.#fresh, purpose, () => ({
      pieces: new Paint(Int32Array.from(this.#pieces, ({ low }) => low)),
      count: this.#pieces.length,
    }));
  }

  /** What holds at the ports of the range, ascending. */
  #within(range: PortRange): readonly PortPiece[] {
    const found: PortPiece[] = [];
    let from = range.low;
    const fill = (to: number): void => {
      if (from > to) return;
      for (const piece of this.#outside({ low: from, high: to })) found.push(piece);
    };
    for (const piece of this.#stored(range)) {
      const own = clip(piece, range);
      fill(own.low - 1);
      found.push(own);
      from = own.high + 1;
    }
    fill(range.high);
    return found;
  }

  #outside(range: PortRange): readonly PortPiece[] {
    if (this.#outer !== null) return this.#outer.#within(range);
    return [{ ...range, best: this.#none, second: this.#none }];
  }

  #stored({ low, high }: PortRange): readonly PortPiece[] {
    const from = this.#firstReaching(low);
    let to = from;
    while (to < this.#pieces.length && (this.#pieces[to] as PortPiece).low <= high) to++;
    return this.#pieces.slice(from, to);
  }

  /** The index of the first piece that ends at or after the port. */
  #firstReaching(port: number): number {
    return findFirstPosition(this.#pieces.length, (index) => (this.#pieces[index] as PortPiece).high >= port);
  }
}

const allPorts: PortSet = [{ low: 0, high: 65_535 }];

function clip(piece: PortPiece, { low, high }: PortRange): PortPiece {
  if (piece.low >= low && piece.high <= high) return piece;
  return { ...piece, low: Math.max(piece.low, low), high: Math.min(piece.high, high) };
}

/** The pieces cut at every edge of the added ranges; each takes the two lowest of the keys that hold there. */
function lower(before: readonly PortPiece[], added: readonly PortKey[]): readonly PortPiece[] {
  const starts = cutPorts(
    before.map(({ low }) => low),
    added.map(({ ports }) => ports),
    65_535,
  );
  const pieces: { low: number; high: number; best: number; second: number }[] = [];
  let next = 0;
  for (const outer of before) {
    while (next < starts.length && (starts[next] as number) < outer.low) next++;
    for (; next < starts.length && (starts[next] as number) <= outer.high; next++) {
      pieces.push({
        ...outer,
        low: starts[next] as number,
        high: Math.min(outer.high, (starts[next + 1] ?? 65_536) - 1),
      });
    }
  }
  const taken = new Uint8Array(pieces.length);
  const paint = new Paint(Int32Array.from(pieces, ({ low }) => low));
  for (const { ports, key } of added.toSorted((a, b) => a.key - b.key)) {
    paint.each(ports.low, ports.high, (index) => {
      const piece = pieces[index] as (typeof pieces)[number];
      if (key < piece.best) [piece.best, piece.second] = [key, piece.best];
      else piece.second = Math.min(key, piece.second);
      taken[index] = (taken[index] as number) + 1;
      return taken[index] === 2;
    });
  }
  return pieces;
}
