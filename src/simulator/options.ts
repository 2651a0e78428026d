import type { FetchDiscoveryOptions } from './configuration/discovery.ts';
import type { NftTableOptions } from './nft.ts';
import type { TokenStore } from './tokens.ts';
import type { UserSeed } from './users.ts';

/** How a simulated server is set up. */
export interface SimulatorOptions {
  /** The administrator's token, accepted as it is. */
  readonly token: string;
  /** 0, the default, picks a free port. */
  readonly port?: number;
  readonly host?: string;
  readonly users?: readonly UserSeed[];
  /** True (the default): the overlap constraints hold. False plays a server that can hold duplicates. */
  readonly overlapConstraints?: boolean;
  /** False plays a kernel without port rules: ports are dropped silently. */
  readonly portRules?: boolean;
  /** `accept` (the default) takes every discovery document for valid; `fetch` really fetches it. */
  readonly discovery?: 'accept' | 'fetch';
  /** How to fetch: the time limit in milliseconds (15,000), and name resolution for tests. */
  readonly discoveryFetch?: Partial<FetchDiscoveryOptions>;
  /** Configuration fields that the server's environment pins; only their names matter. */
  readonly environment?: Readonly<Record<string, unknown>>;
  /** Further tokens, for tests of authentication. */
  readonly tokens?: TokenStore;
  /** Milliseconds since 1970, fractions welcome. */
  readonly clock?: () => number;
  readonly newId?: () => string;
  /** Where to keep the tables; without it they are gone with the server. */
  readonly dataFile?: string;
  /** Inserts and deletes a second that reach the packet filter; without it at once, and it never fails. */
  readonly filterRate?: number;
  /** The clock of a filter with a rate (any steady one, in ms), and its timer, which returns how to call it off; for tests. */
  readonly filterTime?: {
    readonly now?: () => number;
    readonly schedule?: (milliseconds: number, callback: () => void) => () => void;
  };
  /** Adds the pages below `/admin`: verdicts, the filter, the fault switchboard. */
  readonly admin?: boolean;
  /** Told of a mistake of the simulator's own, answered with an empty 500; without it the mistake is thrown. */
  readonly onError?: (error: unknown) => void;
  /** In [0, 1), for faults with a probability. */
  readonly random?: () => number;
  /** Where a real kernel holds the packet filter too; without a rate as fast as nft goes, about 100 to 200 changes a second. */
  readonly nft?: NftTableOptions;
}
