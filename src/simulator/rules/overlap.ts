import type { StoredPortRange } from './ports.ts';
import type { RuleRow } from './rule.ts';

type Candidate = Pick<RuleRow, 'action' | 'network' | 'ports' | 'userId'>;

/** The exclusion constraints: in one class no two networks may intersect, with ports only if those meet (recordings/rule_overlap). */
export function createOverlapIndex() {
  const classes = new Map<string, RuleClass>();
  return {
    conflicts: (rule: Candidate): boolean =>
      classes.get(classKey(rule))?.conflicts(rule.network.bits, spanOf(rule)) ?? false,
    delete: (rule: Candidate): void => classes.get(classKey(rule))?.delete(rule.network.bits, spanOf(rule)),
    add(rule: Candidate): void {
      const key = classKey(rule);
      const entry = classes.get(key) ?? new RuleClass();
      classes.set(key, entry);
      entry.add(rule.network.bits, spanOf(rule));
    },
  };
}

const allPorts: StoredPortRange = { low: 0, high: 65_535 };
const spanOf = (rule: Candidate): StoredPortRange => rule.ports?.range ?? allPorts;

function classKey(rule: Candidate): string {
  return `${rule.network.family} ${rule.action} ${rule.ports?.type ?? '-'} ${rule.userId ?? '-'}`;
}

/** Networks are strings of bits, so that "intersect" is "one begins the other". */
class RuleClass {
  readonly #spans = new Map<string, StoredPortRange[]>();
  /** Which networks there are, by the beginning of their bits: by every eighth. */
  readonly #inside = new Map<string, Set<string>>();

  conflicts(bits: string, span: StoredPortRange): boolean {
    const meets = (network: string): boolean =>
      this.#spans.get(network)?.some(({ low, high }) => low <= span.high && span.low <= high) === true;
    for (let length = 0; length <= bits.length; length++) if (meets(bits.slice(0, length))) return true;
    for (const network of this.#inside.get(bits.slice(0, bits.length - (bits.length % step))) ?? []) {
      if (network.startsWith(bits) && meets(network)) return true;
    }
    return false;
  }

  add(bits: string, span: StoredPortRange): void {
    const spans = this.#spans.get(bits);
    if (spans !== undefined) {
      spans.push(span);
      return;
    }
    this.#spans.set(bits, [span]);
    for (let length = 0; length <= bits.length; length += step) {
      const beginning = bits.slice(0, length);
      this.#inside.set(beginning, (this.#inside.get(beginning) ?? new Set()).add(bits));
    }
  }

  delete(bits: string, span: StoredPortRange): void {
    const spans = this.#spans.get(bits);
    const at = spans?.findIndex((other) => other.low === span.low && other.high === span.high) ?? -1;
    if (spans === undefined || at < 0) return;
    spans.splice(at, 1);
    if (spans.length > 0) return;
    this.#spans.delete(bits);
    for (let length = 0; length <= bits.length; length += step) this.#inside.get(bits.slice(0, length))?.delete(bits);
  }
}

const step = 8;
