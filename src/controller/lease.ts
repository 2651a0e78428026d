import type { ApiResult, LiveApi } from '../ports.ts';
import type { RecordText } from './record.ts';

/** Who may write. An implementation keeps renewing in the background; everything here is answered from memory. */
export interface Lease {
  /** Whether this replica may start to write now: the lease has comfortably more time than closing a gap can take. */
  mayStart(): boolean;
  /** Whether a write may leave this process now: the lease is certainly ours at this moment. */
  mayWrite(): boolean;
  /** Aborts when `mayStart` turns false: an apply then stops, after closing its gaps. A new one for each time held. */
  signal(): AbortSignal;
  /** Who holds it; null when nobody is known to, or the holder renews no more. */
  holder(): string | null;
  /** Why this replica cannot take part in the election (null: it can), and how old what it knows of the holder is, ms (null: nothing). */
  election(): { readonly problem: string | null; readonly ageMs: number | null };
  /** What lies with the lease; null: nothing can, since there is only one replica. */
  readonly record: RecordText | null;
  /** Gives it up, so that another replica need not wait for it to run out. */
  release(): Promise<void>;
}

/** Who holds a lease, as somebody sees it who takes no part in the election. */
export interface LeaseHolder {
  readonly name: string;
  /** The record with the lease says that the holder is asked not to write; false also where it cannot be read. */
  readonly suspended: boolean;
}

/** One replica: always the writer. */
export function createSoleWriter(): Lease {
  const signal = new AbortController().signal;
  return {
    mayStart: () => true,
    mayWrite: () => true,
    signal: () => signal,
    holder: () => null,
    election: () => ({ problem: null, ageMs: 0 }),
    record: null,
    release: () => Promise.resolve(),
  };
}

/** The API, each write checked against the lease as it would leave (null: nobody can tell): a process that was paused writes nothing. */
export function guardApi(api: LiveApi, lease: { readonly mayWrite: () => boolean | Promise<boolean | null> }): LiveApi {
  const unsent = { kind: 'no-answer', sent: 'no', status: null } as const;
  const lost = { ...unsent, code: 'aborted', message: 'not sent: another replica may hold the lease now' };
  const unread = { ...unsent, code: 'lease', message: 'not sent: the lease cannot be read; nobody knows who holds it' };
  return wrapApi(api, async (method, call) => {
    const may = method === 'GET' || (await lease.mayWrite());
    return may ? call() : may === null ? unread : lost;
  });
}

/** The API with each call made by `around`. */
export function wrapApi(api: LiveApi, around: (method: string, call: () => Promise<ApiResult>) => Promise<ApiResult>) {
  return {
    listRules: (signal, known) => around('GET', () => api.listRules(signal, known)),
    getConfiguration: (signal) => around('GET', () => api.getConfiguration(signal)),
    listUsers: (signal) => around('GET', () => api.listUsers(signal)),
    createRule: (rule, signal) => around('POST', () => api.createRule(rule, signal)),
    updateRule: (id, fields, signal) => around('PATCH', () => api.updateRule(id, fields, signal)),
    deleteRule: (id, signal) => around('DELETE', () => api.deleteRule(id, signal)),
    updateConfiguration: (body, signal) => around('PATCH', () => api.updateConfiguration(body, signal)),
  } satisfies LiveApi;
}

/** Who holds the lease as far as is known, and how old that knowledge is when it cannot be renewed. */
export function describeStandby(lease: Lease): string {
  const holder = lease.holder();
  const { problem, ageMs } = lease.election();
  if (holder === null) return problem ?? 'the lease is not ours now, and nobody is known to hold it; see the log';
  if (problem === null || ageMs === null) return `${holder} holds the lease`;
  return `${holder} held the lease ${Math.round(ageMs / 1000)} s ago; since then ${problem}`;
}
