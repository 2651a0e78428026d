import { makeTableElement, type TableElement } from './filter/element.ts';
import type { FilteredServer, PacketFilter } from './filter/filter.ts';
import { decideVerdict, type FilterPacket } from './filter/verdict.ts';
import { NftTable, type NftTableOptions } from './nft.ts';
import type { RuleRow } from './rules/rule.ts';

/** Where the filter is and how fast it follows. */
export interface NftFilterOptions extends NftTableOptions {
  /** Changes a second; undefined: as fast as nft goes, about 100 to 200. */
  readonly rate?: number;
}

type Job =
  | { readonly type: 'insert' | 'delete'; readonly element: TableElement }
  | { readonly type: 'delete-user'; readonly userId: string };

const notifierTimeoutMs = 5000;
const crashWindowMs = 5000;
const crashLimit = 4;

/**
 * A packet filter in a real kernel that follows the rules table as the real server's does: one nft call for each change,
 * serially; an error of nft crashes it, and it deletes the table and builds it from the database; changes that arrive
 * while a rebuild takes longer than 5 s are lost but for the first; four crashes within 5 s end the server
 * (observed: recordings/packet_filter_crash, packet_filter_crash_loop, packet_filter_rebuild, packet_filter_boot).
 */
export class NftFilter implements PacketFilter {
  readonly #options: NftFilterOptions;
  readonly #held = new Map<string, TableElement>();
  readonly #server: FilteredServer;
  readonly #table: NftTable;
  #queue: Job[] = [];
  /** Arrived during a rebuild: the first of them waits inside the filter, the others in the notifier. */
  #kept: Job[] = [];
  #lost: string[] = [];
  #crashes: number[] = [];
  #notifier: NodeJS.Timeout | null = null;
  #rebuilding = false;
  #working = false;
  #closed = false;

  constructor(options: NftFilterOptions, server: FilteredServer) {
    this.#options = options;
    this.#server = server;
    this.#table = new NftTable(options);
    this.#working = true;
    this.#runUntilIdle(() => this.#rebuild());
  }

  readonly inserted = (row: RuleRow): void => this.#enqueue({ type: 'insert', element: makeTableElement(row) });

  readonly deleted = (row: RuleRow): void => this.#enqueue({ type: 'delete', element: makeTableElement(row) });

  readonly userDeleted = (userId: string): void => this.#enqueue({ type: 'delete-user', userId });

  readonly view = {
    verdict: (packet: FilterPacket) => decideVerdict(this.#held.values(), packet),
    elements: () => [...this.#held.values()],
    state: () => this.#state(),
  };

  readonly close = (): void => {
    this.#closed = true;
    if (this.#notifier !== null) clearTimeout(this.#notifier);
  };

  #state(): { pending: number; rebuilding: boolean; crashes: number; lost: readonly string[] } {
    const pending = this.#queue.length + this.#kept.length + (this.#working && !this.#rebuilding ? 1 : 0);
    return { pending, rebuilding: this.#rebuilding, crashes: this.#crashes.length, lost: [...this.#lost] };
  }

  #enqueue(job: Job): void {
    this.#queue.push(job);
    if (this.#rebuilding && this.#notifier === null) {
      this.#notifier = setTimeout(() => this.#notifierTimesOut(), notifierTimeoutMs);
    }
    if (this.#working) return;
    this.#working = true;
    this.#runUntilIdle();
  }

  /** The notifier's call was not answered in time: that call stays with the filter, all that waited behind it is gone. */
  #notifierTimesOut(): void {
    this.#notifier = null;
    const [first, ...others] = this.#queue;
    if (first !== undefined) this.#kept.push(first);
    for (const job of others) if (job.type === 'insert') this.#lost.push(job.element.rule);
    this.#queue = [];
  }

  #runUntilIdle(first = async () => {}): void {
    first()
      .then(() => this.#drain())
      .catch((error: unknown) => this.#server.exit(error instanceof Error ? error.message : String(error)))
      .finally(() => {
        this.#working = false;
      });
  }

  async #drain(): Promise<void> {
    for (let job = this.#queue.shift(); job !== undefined && !this.#closed; job = this.#queue.shift()) {
      const next = this.#due();
      if (!(await this.#carryOut(job))) await this.#crash();
      await next;
    }
  }

  async #carryOut(job: Job): Promise<boolean> {
    if (job.type === 'delete-user') return await this.#table.deleteUser(job.userId);
    const { element } = job;
    const key = keyOf(element);
    if (job.type === 'delete') {
      const done = await this.#table.delete(element);
      if (done) this.#held.delete(key);
      return done;
    }
    if (element.user !== null) await this.#table.addUser(element.user);
    const done = await this.#table.add(element);
    if (done) this.#held.set(key, element);
    return done;
  }

  async #crash(): Promise<void> {
    const now = performance.now();
    this.#crashes.push(now);
    this.#queue = [];
    const recent = this.#crashes.filter((time) => now - time < crashWindowMs);
    if (recent.length >= crashLimit) {
      this.#closed = true;
      this.#server.exit('the packet filter crashed four times within 5 s');
      return;
    }
    await this.#rebuild();
  }

  async #rebuild(): Promise<void> {
    this.#rebuilding = true;
    this.#held.clear();
    const rows = [...this.#server.rows()];
    await this.#table.reset([...this.#server.userIds()]);
    for (const row of rows) {
      if (this.#closed) return;
      const next = this.#due();
      await this.#carryOut({ type: 'insert', element: makeTableElement(row) });
      await next;
    }
    if (this.#notifier !== null) clearTimeout(this.#notifier);
    this.#notifier = null;
    this.#queue = [...this.#kept, ...this.#queue];
    this.#kept = [];
    this.#rebuilding = false;
  }

  #due(): Promise<void> {
    const { rate } = this.#options;
    return rate === undefined ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, 1000 / rate).unref());
  }
}

function keyOf({ user, action, network, ports }: TableElement): string {
  return JSON.stringify([user, action, network, ports]);
}
