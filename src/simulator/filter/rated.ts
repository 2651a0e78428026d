import { createNftTable, type NftTable } from '../nft.ts';
import type { SimulatorOptions } from '../options.ts';
import type { RuleRow } from '../rules/rule.ts';
import type { Tables } from '../tables.ts';
import { decideVerdict, type FilterPacket, type FilterState, type PacketFilterView } from './filter.ts';
import { createElementTable, type ElementTable, FilterError } from './table.ts';

/** Connects a packet filter, which hears of no update (recordings/packet_filter_patch); `exit` ends the server at once. */
export function connectFilter(options: SimulatorOptions, tables: Tables, exit: (reason: string) => void) {
  const isRated = options.filterRate !== undefined || options.nft !== undefined;
  return isRated ? new RatedFilter(options, tables, exit) : { view: followAtOnce(tables), close: () => {} };
}

/** A packet filter that follows at once and never fails; what an update changed in between is not seen. */
function followAtOnce({ rules, events }: Tables): PacketFilterView {
  const elements = new Map<string, RuleRow>();
  for (const row of rules.rows()) elements.set(row.id, row);
  events.on('inserted', (row) => elements.set(row.id, row));
  events.on('deleted', (row) => elements.delete(row.id));
  return {
    verdict: (packet) => decideVerdict(elements.values(), packet),
    elements: () => [...elements.values()],
    state: () => ({ pending: 0, rebuilding: false, crashes: 0, lost: [] }),
  };
}

/** Changes the sets in memory, or those of a kernel. False of a kernel: it refused; of those in memory: there was nothing to do. */
type CarryOut = (table: ElementTable | NftTable) => unknown;

/** What the table has yet to hear of. */
interface Change {
  readonly carryOut: CarryOut;
  /** How long it takes, as a multiple of an insert. */
  readonly units: number;
  /** The rule that it inserts. */
  readonly rule?: string;
}

/** Changes a second, more than nft makes: then it sets the pace itself. */
const fastestNft = 1_000;
const notifierTimeoutMs = 5_000;
const crashWindowMs = 5_000;
const crashLimit = 4;

/**
 * A packet filter that follows at a rate, as the real one does: a notifier hands over one change at a time and waits at
 * most 5 s for it; a change that the table refuses crashes both, and the table is emptied and filled again from the
 * database, at the rate; what waits in the notifier while a rebuild takes longer than 5 s is lost; the fourth crash
 * within 5 s ends the server (observed: recordings/packet_filter_crash, _crash_loop, _rebuild, _boot, _users).
 * The model advances to the present whenever it is asked or told something, and when its next event is due.
 */
class RatedFilter {
  readonly #tables: Tables;
  readonly #exit: (reason: string) => void;
  readonly #now: () => number;
  readonly #schedule: typeof scheduleTimer;
  /** What an insert takes, in ms. */
  readonly #unit: number;
  /** A table in a real kernel that takes each change too, one after the other. */
  readonly #kernel: NftTable | undefined;
  readonly #table = createElementTable();
  /** Changes that a real kernel has yet to take; those from before a crash are left out. */
  #mirrored: Promise<void> = Promise.resolve();
  #behind = 0;
  #life = 0;
  /** What the notifier has not handed over yet. */
  #mailbox: Change[] = [];
  /** What was handed over; the notifier waits for its call until `deadline`, unless it has given up. */
  #handed: Change[] = [];
  #deadline: number | undefined;
  #rebuild: RuleRow[] | undefined;
  /** When the work in hand is done; undefined when there is none. */
  #due: number | undefined;
  #time: number;
  #crashes: number[] = [];
  #lost: string[] = [];
  #closed = false;
  #cancel: () => void = () => {};

  constructor({ filterRate, filterTime, nft }: SimulatorOptions, tables: Tables, exit: (reason: string) => void) {
    this.#tables = tables;
    this.#exit = exit;
    this.#now = filterTime?.now ?? (() => performance.now());
    this.#schedule = filterTime?.schedule ?? scheduleTimer;
    this.#unit = 1000 / (filterRate ?? fastestNft);
    this.#kernel = nft && createNftTable(nft);
    this.#time = this.#now();
    this.#beginRebuild();
    this.#settle();
    tables.events
      // What is due by now happens to the rows as they were.
      .on('changing', this.#settle)
      .on('inserted', (row) => this.#receive({ carryOut: (table) => table.add(row), units: 1, rule: row.id }))
      .on('deleted', (row) => this.#receive({ carryOut: (table) => table.delete(row), units: 2 }))
      .on('userStored', ({ id }, known) => {
        if (!known) this.#receive({ carryOut: (table) => table.addUser(id), units: 1 });
      })
      .on('userDeleted', (id) => this.#receive({ carryOut: (table) => table.deleteUser(id), units: 1 }));
  }

  readonly view = {
    verdict: (packet: FilterPacket) => decideVerdict(this.#elements(), packet),
    elements: () => [...this.#elements()],
    state: (): FilterState => {
      this.#settle();
      return {
        pending: this.#mailbox.length + this.#handed.length + this.#behind,
        rebuilding: this.#rebuild !== undefined,
        crashes: this.#crashes.length,
        lost: [...this.#lost],
      };
    },
  };

  readonly close = (): void => {
    this.#closed = true;
    this.#cancel();
  };

  #receive(change: Change): void {
    if (this.#closed) return;
    this.#settle();
    this.#mailbox.push(change);
    this.#settle();
  }

  #elements(): Iterable<RuleRow> {
    this.#settle();
    return this.#table.elements();
  }

  /** Lets everything happen that is due by now. */
  readonly #settle = (): void => {
    const now = this.#now();
    for (;;) {
      if (this.#closed) return;
      this.#handOver();
      this.#begin();
      const next = Math.min(this.#due ?? Number.POSITIVE_INFINITY, this.#deadline ?? Number.POSITIVE_INFINITY);
      if (next > now) {
        this.#time = now;
        this.#cancel();
        this.#cancel = next === Number.POSITIVE_INFINITY ? () => {} : this.#schedule(next - now, this.#settle);
        return;
      }
      this.#time = next;
      if (next === this.#due) this.#finishWork();
      else this.#giveUp();
    }
  };

  #handOver(): void {
    if (this.#deadline !== undefined) return;
    const change = this.#mailbox.shift();
    if (change === undefined) return;
    this.#handed.push(change);
    this.#deadline = this.#time + notifierTimeoutMs;
  }

  #begin(): void {
    const units = this.#rebuild === undefined ? this.#handed[0]?.units : Math.min(this.#rebuild.length, 1);
    if (this.#due === undefined && units !== undefined) this.#due = this.#time + units * this.#unit;
  }

  #finishWork(): void {
    this.#due = undefined;
    if (this.#rebuild !== undefined) {
      const element = this.#rebuild.shift();
      if (element !== undefined) this.#carryOut((table) => table.add(element));
      if (this.#rebuild.length === 0) this.#rebuild = undefined;
      return;
    }
    const change = this.#handed.shift();
    try {
      if (change !== undefined) this.#carryOut(change.carryOut);
      // The notifier waits for the newest call; an older one is the leftover of a call that was given up.
      if (this.#handed.length === 0) this.#deadline = undefined;
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      this.#crash(error.message);
    }
  }

  /** The notifier gives up its call, and all that waited behind it is gone; the call itself stays with the filter. */
  #giveUp(): void {
    this.#deadline = undefined;
    for (const { rule } of this.#mailbox) if (rule !== undefined) this.#lost.push(rule);
    this.#mailbox = [];
  }

  #crash(reason: string): void {
    this.#crashes.push(this.#time);
    this.#mailbox = [];
    this.#handed = [];
    this.#deadline = undefined;
    if (this.#crashes.filter((time) => this.#time - time < crashWindowMs).length >= crashLimit) {
      this.close();
      this.#exit(`the packet filter crashed ${crashLimit} times within 5 s (${reason})`);
      return;
    }
    this.#beginRebuild();
  }

  /** What the kernel refuses crashes the filter, as what the table refuses does. */
  #carryOut(change: CarryOut): void {
    const isDone = change(this.#table) !== false;
    const [kernel, life] = [this.#kernel, this.#life];
    if (kernel === undefined || !isDone) return;
    const isStale = (): boolean => this.#closed || life !== this.#life;
    this.#behind++;
    this.#mirrored = this.#mirrored
      .then(async () => {
        const isTaken = isStale() || (await change(kernel));
        this.#settle();
        if (!isTaken && !isStale()) this.#crash('the kernel refused a change');
      })
      .catch((error: unknown) => this.#exit(error instanceof Error ? error.message : String(error)))
      .finally(() => {
        this.#behind--;
        this.#settle();
      });
  }

  #beginRebuild(): void {
    const { users, rules } = this.#tables;
    const userIds = users.all().map(({ id }) => id);
    this.#life++;
    this.#carryOut((table) => table.reset(userIds));
    this.#rebuild = [...rules.rows()].filter(({ userId }) => userId === null || users.get(userId) !== undefined);
    this.#lost = [];
  }
}

function scheduleTimer(milliseconds: number, callback: () => void): () => void {
  const timer = setTimeout(callback, milliseconds);
  timer.unref();
  return () => clearTimeout(timer);
}
