import { groupBy } from '../../model/group-by.ts';
import { listRules, mayRebuild, type Operation } from '../operations.ts';

export interface DependencyInput {
  readonly operations: readonly Operation[];
  /** Every operation, in the listed order. */
  readonly order: readonly number[];
  /** Pairs that share a packet, one after the other. */
  readonly sharing: readonly number[];
  /** By operation: those that must come before it in any case. */
  readonly needs: readonly (readonly number[])[];
  readonly componentOf: Int32Array;
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
export function findDependencies(input: DependencyInput): readonly (readonly number[])[] {
  const { order } = input;
  const positions = new Int32Array(order.length);
  for (const [position, operation] of order.entries()) positions[operation] = position;
  const direct = tiesByPosition(input, positions);
  const members = membersByComponent(input);
  const after = new Array<readonly number[]>(order.length).fill([]);
  for (const component of members) {
    const ties = component.map((position) => direct[position] ?? []);
    if (component.length <= 2) {
      for (const [index, position] of component.entries()) after[position] = ties[index] ?? [];
      continue;
    }
    const reduced = component.length <= reducible ? reduce(component, ties) : ties;
    const count = reduced.reduce((sum, list) => sum + list.length, 0);
    const final = count > affordable * component.length ? layers(component, ties, input) : reduced;
    for (const [index, position] of component.entries()) after[position] = final[index] ?? [];
  }
  return oneRebuildAtATime(input, after);
}

/** Components up to this size lose the ties that follow from others. */
const reducible = 2_048;

/** More ties a step than this, on average, are replaced by layers. */
const affordable = 20;

function tiesByPosition(input: DependencyInput, positions: Int32Array): readonly (readonly number[])[] {
  const { operations, order, sharing, needs } = input;
  const directions = operations.map(directionsOf);
  const ties = order.map((operation) => (needs[operation] ?? []).map((need) => positions[need] as number));
  for (let i = 0; i < sharing.length; i += 2) {
    const a = sharing[i] as number;
    const b = sharing[i + 1] as number;
    if (!opposed(directions[a] as number, directions[b] as number)) continue;
    const x = positions[a] as number;
    const y = positions[b] as number;
    ties[Math.max(x, y)]?.push(Math.min(x, y));
  }
  return ties.map((list) => (list.length < 2 ? list : [...new Set(list)].sort((a, b) => a - b)));
}

const opens = 1;
const closes = 2;

/** Bits `opens` and `closes`: which way the operation can turn verdicts. */
function directionsOf(operation: Operation): number {
  return listRules(operation).reduce((bits, { rule, added }) => {
    return bits | ((rule.action === 'accept') === added ? opens : closes);
  }, 0);
}

function opposed(a: number, b: number): boolean {
  return ((a & opens) !== 0 && (b & closes) !== 0) || ((a & closes) !== 0 && (b & opens) !== 0);
}

function membersByComponent({ order, componentOf }: DependencyInput): readonly (readonly number[])[] {
  return [...groupBy(order.keys(), (position) => componentOf[order[position] as number]).values()];
}

/** Leaves out ties that follow from others: the transitive reduction, by bit sets of ancestors. */
function reduce(members: readonly number[], ties: readonly (readonly number[])[]): readonly (readonly number[])[] {
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
function layers(
  members: readonly number[],
  ties: readonly (readonly number[])[],
  { operations, order }: DependencyInput,
): readonly (readonly number[])[] {
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
function oneRebuildAtATime(
  { operations, order }: DependencyInput,
  after: readonly (readonly number[])[],
): readonly (readonly number[])[] {
  const result = [...after];
  const ends = new Set<number>();
  for (const [position, operation] of order.entries()) {
    if (mayRebuild(operations[operation])) result[position] = [...ends].sort((a, b) => a - b);
    for (const earlier of result[position] ?? []) ends.delete(earlier);
    ends.add(position);
  }
  return result;
}
