import { type Links, mayRebuild, type Operation } from '../plan.ts';

export interface DependencyInput {
  readonly operations: readonly Operation[];
  /** Every operation, in the listed order. */
  readonly order: readonly number[];
  /** By operation: its position in that order. */
  readonly positions: Int32Array;
  /** Pairs that share a packet, one after the other. */
  readonly sharing: readonly number[];
  /** By operation: those that must come before it in any case. */
  readonly needs: Links;
  /** Operations connected by sharing packets, for two and more. */
  readonly components: readonly (readonly number[])[];
}

/**
 * By position in the listed order: the positions that must be done first.
 *
 * A step *opens* (creates an accept, deletes a drop) or *closes*; what only opens can turn a verdict only towards accept, and
 * the other way round. Two steps are tied when they share a packet and one opens while the other closes. For each packet
 * the listed order is a row of runs of steps of one direction; the ties keep the runs in their order, and inside a run the
 * verdict moves at most once, from the run's first verdict to its last, in whatever order its steps are done. So every order
 * that the ties allow shows each packet only verdicts that the listed order shows it too.
 */
export function findDependencies(input: DependencyInput): Links {
  const { components, positions } = input;
  const after = tiesByPosition(input);
  for (const component of components) {
    if (component.length === 2) continue;
    const members = component.map((operation) => positions[operation] as number).sort((a, b) => a - b);
    const ties = members.map((position) => after[position] ?? none);
    const reduced = members.length <= reducible ? reduce(members, ties) : ties;
    const count = reduced.reduce((sum, list) => sum + list.length, 0);
    const final = count > affordable * members.length ? layers(members, ties, input) : reduced;
    for (const [index, position] of members.entries()) after[position] = final[index] ?? none;
  }
  return oneRebuildAtATime(input, after);
}

const none: readonly number[] = [];

/** Components up to this size lose the ties that follow from others. */
const reducible = 2_048;

/** More ties a step than this, on average, are replaced by layers. */
const affordable = 20;

function tiesByPosition({ operations, order, positions, sharing, needs }: DependencyInput): (readonly number[])[] {
  const directions = operations.map(directionsOf);
  const ties = order.map((operation) => {
    const before = needs[operation] ?? none;
    return before.length === 0 ? null : before.map((need) => positions[need] as number);
  });
  for (let i = 0; i < sharing.length; i += 2) {
    const a = sharing[i] as number;
    const b = sharing[i + 1] as number;
    if (!opposed(directions[a] as number, directions[b] as number)) continue;
    const x = positions[a] as number;
    const y = positions[b] as number;
    const later = Math.max(x, y);
    ties[later] ??= [];
    ties[later].push(Math.min(x, y));
  }
  return ties.map((list) => (list === null ? none : list.length < 2 ? list : [...new Set(list)].sort((a, b) => a - b)));
}

const opens = 1;
const closes = 2;

/** Bits `opens` and `closes`: which way the operation can turn verdicts. */
function directionsOf(operation: Operation): number {
  const removing = operation.type === 'create' ? 0 : operation.live.rule.action === 'accept' ? closes : opens;
  const adding = operation.type === 'delete' ? 0 : operation.rule.action === 'accept' ? opens : closes;
  return removing | adding;
}

function opposed(a: number, b: number): boolean {
  return ((a & opens) !== 0 && (b & closes) !== 0) || ((a & closes) !== 0 && (b & opens) !== 0);
}

/** Leaves out ties that follow from others: the transitive reduction, by bit sets of ancestors. */
function reduce(members: readonly number[], ties: Links): Links {
  const words = Math.ceil(members.length / 32);
  const ancestors = new Int32Array(members.length * words);
  const indexOf = new Map(members.map((position, index) => [position, index]));
  return ties.map((list, index) => {
    const mine = index * words;
    const kept: number[] = [];
    for (const position of list.toReversed()) {
      const other = indexOf.get(position) as number;
      if (((ancestors[mine + (other >>> 5)] as number) >>> (other & 31)) & 1) continue;
      kept.push(position);
      const theirs = other * words;
      for (let w = 0; w < words; w++) {
        ancestors[mine + w] = (ancestors[mine + w] as number) | (ancestors[theirs + w] as number);
      }
      ancestors[mine + (other >>> 5)] = (ancestors[mine + (other >>> 5)] as number) | (1 << (other & 31));
    }
    return kept.reverse();
  });
}

/** Components tied too densely: runs of one direction become layers, each after the one before. Never less order than needed. */
function layers(members: readonly number[], ties: Links, { operations, order }: DependencyInput): Links {
  const directionAt = (position: number): number => directionsOf(operations[order[position] as number] as Operation);
  const after: number[][] = [];
  let [layer, previous]: [number[], number[]] = [[], []];
  for (const [index, position] of members.entries()) {
    const first = layer[0];
    const joins =
      first !== undefined &&
      !opposed(directionAt(first), directionAt(position)) &&
      !(ties[index] ?? []).some((tie) => tie >= first);
    if (joins) {
      after.push(previous.length === 0 ? [] : [first]);
      layer.push(position);
    } else {
      [previous, layer] = [layer, [position]];
      after.push(previous);
    }
  }
  return after;
}

/** A delete that may make the server rebuild its filter waits for everything listed before it. */
function oneRebuildAtATime({ operations, order }: DependencyInput, after: Links): Links {
  if (!operations.some(mayRebuild)) return after;
  const result = [...after];
  const ends = new Set<number>();
  for (const [position, operation] of order.entries()) {
    if (mayRebuild(operations[operation])) result[position] = [...ends].sort((a, b) => a - b);
    for (const earlier of result[position] ?? []) ends.delete(earlier);
    ends.add(position);
  }
  return result;
}
