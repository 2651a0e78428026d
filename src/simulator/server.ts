import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { type AdminParts, answerAdmin } from './admin.ts';
import { makeClock } from './clock.ts';
import {
  acceptDiscovery,
  type Discovery,
  type FetchDiscoveryOptions,
  fetchDiscovery,
} from './configuration/discovery.ts';
import { ConfigurationEndpoints } from './configuration/endpoints.ts';
import { openidConnect } from './configuration/oidc.ts';
import { SAML_PROVIDERS } from './configuration/saml.ts';
import { ConfigurationStore, showConfiguration } from './configuration/store.ts';
import { DataFile } from './data-file.ts';
import { Exchanges, type LoggedRequest } from './exchanges.ts';
import { type FaultSwitchboard, Faults } from './faults.ts';
import type { PacketFilter, PacketFilterView } from './filter/filter.ts';
import { immediateFilter } from './filter/immediate.ts';
import { type RatedFilterOptions, ratedFilter } from './filter/rated.ts';
import { listen, portOf } from './http/listener.ts';
import { answerRequest } from './router.ts';
import { RuleEndpoints } from './rules/endpoints.ts';
import { type RuleRow, type StoredRule, showRow } from './rules/rule.ts';
import { type RuleSeed, rowOfSeed } from './rules/seed.ts';
import { RuleStore } from './rules/store.ts';
import { TokenStore } from './tokens.ts';
import { UserEndpoints } from './user-endpoints.ts';
import { ADMIN, type StoredUser, type UserSeed, UserStore } from './users.ts';

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
  /** The clock and the timer of a filter with a rate, for tests. */
  readonly filterTime?: Pick<RatedFilterOptions, 'now' | 'schedule'>;
  /** Adds the pages below `/admin`: verdicts, the filter, the fault switchboard. */
  readonly admin?: boolean;
  /** In [0, 1), for faults with a probability. */
  readonly random?: () => number;
  /** Builds another packet filter than the immediate one, such as one in a real kernel. */
  readonly packetFilter?: (server: FilteredServer) => PacketFilter;
}

/** What a packet filter may know of the server, and the one thing that it can do to it. */
export interface FilteredServer {
  readonly rows: () => Iterable<RuleRow>;
  readonly userIds: () => readonly string[];
  /** Ends the server at once, as crashes that follow too fast do (observed: recordings/packet_filter_crash_loop). */
  readonly exit: (reason: string) => void;
}

/** A running server and everything a test may want to know about it. */
export interface Simulator {
  /** http://HOST:PORT, without a slash at the end. */
  readonly url: string;
  readonly rules: () => readonly StoredRule[];
  readonly users: () => readonly StoredUser[];
  readonly configuration: () => Readonly<Record<string, unknown>>;
  /** Puts rules straight into the store and the filter, without constraints or requests. Returns their ids. */
  readonly seed: (rules: readonly RuleSeed[]) => readonly string[];
  /** Calls of the API, oldest first. */
  readonly requests: () => readonly LoggedRequest[];
  readonly faults: FaultSwitchboard;
  readonly filter: PacketFilterView;
  readonly tokens: TokenStore;
  /** Calls the listener after each call of the API has taken effect, before its answer is sent. Returns an unsubscriber. */
  readonly onCall: (listener: (call: LoggedRequest) => void) => () => void;
  /** Resolves with the reason when the server ends itself. */
  readonly exited: Promise<string>;
  readonly close: () => Promise<void>;
}

/** The filter hears of inserts and deletes, of rules and of users, and of no update. */
function connect(filter: PacketFilter, rules: RuleStore, users: UserStore): void {
  const changing = (): void => filter.settle?.();
  rules.listen({ changing, inserted: filter.inserted, updated: () => {}, deleted: filter.deleted });
  users.listen({
    stored: (user, known) => {
      if (!known) filter.userAdded?.(user.id);
    },
    deleting: filter.userDeleted,
  });
}

function filterOf(options: SimulatorOptions, server: FilteredServer): PacketFilter {
  if (options.packetFilter !== undefined) return options.packetFilter(server);
  return options.filterRate === undefined
    ? immediateFilter(server.rows())
    : ratedFilter({ rate: options.filterRate, ...options.filterTime }, server);
}

function discoveryOf(options: SimulatorOptions): Discovery {
  if (options.discovery !== 'fetch') return acceptDiscovery;
  return fetchDiscovery({ milliseconds: options.clock ?? Date.now, timeout: 15_000, ...options.discoveryFetch });
}

/** Starts the simulated API server on a real socket. Rejects when it cannot listen. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const newId = options.newId ?? randomUUID;
  const clock = makeClock(options.clock ?? (() => performance.timeOrigin + performance.now()));
  const users = new UserStore(clock, options.users ?? []);
  const store = new RuleStore({ clock, newId, constraints: options.overlapConstraints ?? true });
  const configuration = new ConfigurationStore(clock, newId());
  const dataFile =
    options.dataFile === undefined ? undefined : new DataFile(options.dataFile, { rules: store, users, configuration });
  const tokens = options.tokens ?? new TokenStore();
  tokens.register(options.token, users.all().find((user) => user.role === 'admin')?.id ?? ADMIN.id);
  let exit: (reason: string) => void = () => {};
  const filtered: FilteredServer = {
    rows: () => store.rows(),
    userIds: () => users.all().map(({ id }) => id),
    exit: (reason) => exit(reason),
  };
  const filter = filterOf(options, filtered);
  connect(filter, store, users);
  const faults = new Faults(options.random ?? Math.random, () => store.listBody());
  const parts = {
    clock,
    tokens,
    users,
    rules: new RuleEndpoints({ store, users, portRules: options.portRules ?? true }),
    configuration: new ConfigurationEndpoints(configuration, {
      kinds: { openid_connect_providers: openidConnect(discoveryOf(options)), saml_identity_providers: SAML_PROVIDERS },
      environment: options.environment ?? {},
    }),
    userEndpoints: new UserEndpoints({ users, rules: store, newId }),
  };
  const admin: AdminParts = {
    faults,
    filter: filter.view,
    users,
    tokens,
    requests: () => exchanges.log(),
    now: clock.milliseconds,
  };
  const exchanges = new Exchanges({
    answer: (request) => answerRequest(parts, request),
    faults,
    ...(options.admin === true ? { admin: (request) => answerAdmin(admin, request) } : {}),
  });
  const host = options.host ?? '127.0.0.1';
  const server = await listen({ host, port: options.port ?? 0, exchange: exchanges.take });
  const exited = new Promise<string>((resolve) => {
    exit = (reason) => {
      filter.close();
      dataFile?.close();
      server.close();
      server.closeAllConnections();
      resolve(reason);
    };
  });
  return {
    exited,
    url: `http://${host.includes(':') ? `[${host}]` : host}:${portOf(server)}`,
    rules: () => [...store.rows()].map(showRow),
    users: () => users.all(),
    configuration: () => showConfiguration(configuration.row),
    seed: (seeds) =>
      seeds.map((seed) => {
        const row = rowOfSeed(seed, newId(), clock.now());
        store.load(row);
        filter.inserted(row);
        return row.id;
      }),
    requests: exchanges.log,
    faults,
    filter: filter.view,
    tokens,
    onCall: exchanges.onCall,
    close: async () => {
      filter.close();
      dataFile?.close();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}
