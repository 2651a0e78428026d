import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { makeClock } from './clock.ts';
import { ConfigurationEndpoints } from './configuration/endpoints.ts';
import { ConfigurationStore } from './configuration/store.ts';
import { Exchanges, type LoggedRequest } from './exchanges.ts';
import { type FaultSwitchboard, Faults } from './faults.ts';
import type { PacketFilterView } from './filter/filter.ts';
import { immediateFilter } from './filter/immediate.ts';
import { listen, portOf } from './http/listener.ts';
import { answerRequest } from './router.ts';
import { RuleEndpoints } from './rules/endpoints.ts';
import { type StoredRule, showRow } from './rules/rule.ts';
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
  /** Further tokens, for tests of authentication. */
  readonly tokens?: TokenStore;
  /** Milliseconds since 1970, fractions welcome. */
  readonly clock?: () => number;
  readonly newId?: () => string;
  /** In [0, 1), for faults with a probability. */
  readonly random?: () => number;
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
  readonly close: () => Promise<void>;
}

/** Starts the simulated API server on a real socket. Rejects when it cannot listen. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const newId = options.newId ?? randomUUID;
  const clock = makeClock(options.clock ?? (() => performance.timeOrigin + performance.now()));
  const users = new UserStore(clock, options.users ?? []);
  const tokens = options.tokens ?? new TokenStore();
  tokens.register(options.token, users.all().find((user) => user.role === 'admin')?.id ?? ADMIN.id);
  const store = new RuleStore({ clock, newId, constraints: options.overlapConstraints ?? true });
  const configuration = new ConfigurationStore(clock, newId());
  const filter = immediateFilter(store.rows());
  store.listen({ inserted: filter.inserted, updated: () => {}, deleted: filter.deleted });
  const faults = new Faults(options.random ?? Math.random, () => store.listBody());
  const parts = {
    clock,
    tokens,
    users,
    rules: new RuleEndpoints({ store, users, portRules: options.portRules ?? true }),
    configuration: new ConfigurationEndpoints(configuration),
    userEndpoints: new UserEndpoints({ users, rules: store, newId, userDeleted: filter.userDeleted }),
  };
  const exchanges = new Exchanges((request) => answerRequest(parts, request), faults);
  const host = options.host ?? '127.0.0.1';
  const server = await listen({ host, port: options.port ?? 0, exchange: exchanges.take });
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${portOf(server)}`,
    rules: () => [...store.rows()].map(showRow),
    users: () => users.all(),
    configuration: () => configuration.get(),
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
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}
