/** One component as a question of order alone: its operations from 0, and the classes of regions that more than one decides. */
export interface Ordering {
  readonly size: number;
  /** By operation: those that must be done before it. */
  readonly needs: readonly (readonly number[])[];
  readonly gaps: readonly GapGroup[];
  readonly regions: readonly RegionClass[];
}

/** Operations connected by collisions: the openers free what the closers take. */
export interface GapGroup {
  readonly openers: readonly number[];
  readonly closers: readonly number[];
  /** An opener outside this ordering is done already. */
  readonly startsOpen: boolean;
  /** A closer outside this ordering is still to come. */
  readonly staysOpen: boolean;
}

/** Regions that the same operations and the same kept rank decide. Verdicts: true accepts. */
export interface RegionClass {
  /** How many regions. */
  readonly weight: number;
  /** The best rank among rules that stay; `noRank` for none. */
  readonly kept: number;
  readonly before: boolean;
  readonly after: boolean;
  /** Sorted by rank; none ranks behind `kept`. */
  readonly entries: readonly Entry[];
}

/** A rule that an operation adds to (or removes from) a region, by its rank. */
export interface Entry {
  readonly operation: number;
  readonly rank: number;
  readonly added: boolean;
}

/** The cost of an order, compared in this sequence: regions opened, cut off, surplus changes, open gaps, summed over the states. */
export type Cost = Readonly<Record<'opened' | 'cutOff' | 'changes' | 'openGaps', number>>;

/** Less than zero when `a` is cheaper. */
export function compareCosts(a: Cost, b: Cost): number {
  return a.opened - b.opened || a.cutOff - b.cutOff || a.changes - b.changes || a.openGaps - b.openGaps;
}

type Decided = Pick<RegionClass, 'kept' | 'entries'>;

/** The region's verdict when exactly the operations for which `done` holds are done. */
export function getVerdictIn({ kept, entries }: Decided, done: (operation: number) => boolean): boolean {
  for (const { operation, rank, added } of entries) if (done(operation) === added) return rank % 2 === 0;
  return kept % 2 === 0;
}

/** Whether the gap is open when exactly the operations for which `done` holds are done. */
export function isOpen({ startsOpen, staysOpen, openers, closers }: GapGroup, done: (operation: number) => boolean) {
  return (startsOpen || openers.some(done)) && (staysOpen || !closers.every(done));
}

/** Equal for regions whose verdict is the same function of what is done. */
export function formatClassKey(kept: number, entries: readonly Entry[]): string {
  return `${kept} ${entries.map(({ operation, rank, added }) => `${rank}${added ? '+' : '-'}${operation}`).join(' ')}`;
}

/** By operation: the indices of the region classes that it takes part in. */
export function indexRegions({ size, regions }: Ordering): readonly (readonly number[])[] {
  const lists = Array.from({ length: size }, (): number[] => []);
  for (const [index, { entries }] of regions.entries()) {
    for (const { operation } of entries) {
      const list = lists[operation];
      if (list !== undefined && list.at(-1) !== index) list.push(index);
    }
  }
  return lists;
}
