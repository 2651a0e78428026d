/** Which requests a fault meets; a condition that is left out holds for all of them. */
interface FaultMatch {
  readonly method?: string;
  /** The path, query excluded: equal to this text, or, when it ends in `*`, beginning with it. */
  readonly path?: string;
  /** Only from the nth matching request on (1 is the next one). */
  readonly nth?: number;
  /** At most so many times; without it until `clear`. */
  readonly times?: number;
  /** Only this share of the matching requests. */
  readonly probability?: number;
}

/** The faults that take no parameters. */
export const faultKinds = ['reset-before', 'reset-after', 'torn', 'lost-answer', 'stale-list'] as const;

/**
 * What goes wrong:
 * - `status`: this status instead of the real answer, nothing is done (`commit: true`: after the real work was done)
 * - `delay`: the request waits before it is looked at
 * - `wrong-date`: the answer's Date is so many milliseconds ahead (below 0: behind)
 * - `reset-before`, `reset-after`: the connection is reset before, or after, the request took effect
 * - `torn`: the request takes effect, half of the answer's body arrives, then the connection closes
 * - `lost-answer`: the request takes effect, no answer ever comes
 * - `stale-list`: `GET /v0/rules` answers with the list as it was when the fault was set
 */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly body?: string;
      readonly headers?: Readonly<Record<string, string>>;
      readonly commit?: boolean;
    }
  | { readonly kind: 'delay' | 'wrong-date'; readonly milliseconds: number }
  | { readonly kind: (typeof faultKinds)[number] };

export interface FaultSetting {
  readonly match?: FaultMatch;
  readonly fault: Fault;
}

export interface FaultSwitchboard {
  /** Sets a fault; several may be set, the first that matches a request applies. Returns its number. */
  readonly inject: (setting: FaultSetting) => number;
  /** Takes one fault away, or all. */
  readonly clear: (number?: number) => void;
  readonly list: () => readonly ActiveFault[];
}

/** A fault with how often its match held (`seen`) and how often it applied. */
export interface ActiveFault extends FaultSetting {
  readonly number: number;
  readonly seen: number;
  readonly applied: number;
}

type Entry = { -readonly [K in keyof ActiveFault]: ActiveFault[K] } & { readonly staleList: Buffer };

export interface ChosenFault {
  readonly fault: Fault;
  readonly staleList: Buffer;
}

/** The faults that are set, in order. */
export class Faults implements FaultSwitchboard {
  readonly #entries: Entry[] = [];
  readonly #random: () => number;
  readonly #listBody: () => Buffer;
  #count = 0;

  constructor(random: () => number, listBody: () => Buffer) {
    this.#random = random;
    this.#listBody = listBody;
  }

  readonly inject = (setting: FaultSetting): number => {
    const number = ++this.#count;
    this.#entries.push({ ...setting, number, seen: 0, applied: 0, staleList: this.#listBody() });
    return number;
  };

  readonly clear = (number?: number): void => {
    const kept = number === undefined ? [] : this.#entries.filter((entry) => entry.number !== number);
    this.#entries.length = 0;
    for (const entry of kept) this.#entries.push(entry);
  };

  readonly list = (): readonly ActiveFault[] => this.#entries.map(({ staleList: _, ...entry }) => entry);

  /** The fault that meets this request, if any. */
  choose(method: string, path: string): ChosenFault | undefined {
    return this.#entries.find((entry) => this.#meets(entry, method, path));
  }

  #meets(entry: Entry, method: string, path: string): boolean {
    const { match = {}, fault } = entry;
    if (match.method !== undefined && match.method !== method) return false;
    if (match.path !== undefined && !pathMatches(match.path, path)) return false;
    if (fault.kind === 'stale-list' && (method !== 'GET' || path !== '/v0/rules')) return false;
    entry.seen++;
    if (entry.seen < (match.nth ?? 1) || entry.applied >= (match.times ?? Number.POSITIVE_INFINITY)) return false;
    if (match.probability !== undefined && this.#random() >= match.probability) return false;
    entry.applied++;
    return true;
  }
}

function pathMatches(pattern: string, path: string): boolean {
  return pattern.endsWith('*') ? path.startsWith(pattern.slice(0, -1)) : path === pattern;
}
