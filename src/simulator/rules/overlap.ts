import type { StoredPortRange } from './ports.ts';
import type { RuleRow } from './rule.ts';
import { SortedKeys } from './sorted-keys.ts';

type Candidate = Pick<RuleRow, 'action' | 'network' | 'ports' | 'userId'>;

/**
 * The four exclusion constraints: in one class (global or one user; ports of one type or none; action; family) two
 * networks that intersect may not both be there, with ports only if the ranges meet (observed: recordings/rule_overlap).
 * Networks are strings of bits, so that "intersect" is "one begins the other": a wider one is found by its length, a
 * narrower one by order. Ranges on one network are disjoint and kept in order.
 */
export class OverlapIndex {
  readonly #classes = new Map<string, RuleClass>();

  conflicts(rule: Candidate): boolean {
    return this.#classes.get(classKey(rule))?.conflicts(rule.network.bits, spanOf(rule)) ?? false;
  }

  add(rule: Candidate): void {
    const key = classKey(rule);
    let entry = this.#classes.get(key);
    if (entry === undefined) {
      entry = new RuleClass();
      this.#classes.set(key, entry);
    }
    entry.add(rule.network.bits, spanOf(rule));
  }

  delete(rule: Candidate): void {
    this.#classes.get(classKey(rule))?.delete(rule.network.bits, spanOf(rule));
  }
}

const allPorts: StoredPortRange = { low: 0, high: 65_535 };
const spanOf = (rule: Candidate): StoredPortRange => rule.ports?.range ?? allPorts;

function classKey(rule: Candidate): string {
  return `${rule.network.family} ${rule.action} ${rule.ports?.type ?? '-'} ${rule.userId ?? '-'}`;
}

class RuleClass {
  readonly #networks = new Map<string, StoredPortRange[]>();
  readonly #order = new SortedKeys();
  readonly #lengths = new Map<number, number>();

  conflicts(bits: string, span: StoredPortRange): boolean {
    for (const length of this.#lengths.keys()) {
      if (length > bits.length) continue;
      const spans = this.#networks.get(bits.slice(0, length));
      if (spans !== undefined && meets(spans, span)) return true;
    }
    for (const narrower of this.#order.startingWith(bits)) {
      if (meets(this.#networks.get(narrower) ?? [], span)) return true;
    }
    return false;
  }

  add(bits: string, span: StoredPortRange): void {
    const spans = this.#networks.get(bits);
    if (spans !== undefined) {
      spans.splice(firstAfter(spans, span.low), 0, span);
      return;
    }
    this.#networks.set(bits, [span]);
    this.#order.add(bits);
    this.#lengths.set(bits.length, (this.#lengths.get(bits.length) ?? 0) + 1);
  }

  delete(bits: string, span: StoredPortRange): void {
    const spans = this.#networks.get(bits);
    const at = spans?.findIndex((other) => other.low === span.low && other.high === span.high) ?? -1;
    if (spans === undefined || at < 0) return;
    spans.splice(at, 1);
    if (spans.length > 0) return;
    this.#networks.delete(bits);
    this.#order.delete(bits);
    const count = (this.#lengths.get(bits.length) ?? 0) - 1;
    if (count > 0) this.#lengths.set(bits.length, count);
    else this.#lengths.delete(bits.length);
  }
}

/** Whether one of the ranges (disjoint, in order) meets the span. */
function meets(spans: readonly StoredPortRange[], span: StoredPortRange): boolean {
  const before = spans[firstAfter(spans, span.high) - 1];
  return before !== undefined && before.high >= span.low;
}

/** The index of the first range that starts after the port. */
function firstAfter(spans: readonly StoredPortRange[], port: number): number {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle]?.low ?? 0) <= port) low = middle + 1;
    else high = middle;
  }
  return low;
}
