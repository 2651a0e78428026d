import { answerAdmin } from './admin.ts';
import { acceptDiscovery, type Discovery, fetchDiscovery } from './configuration/discovery.ts';
import { makeOpenidKind } from './configuration/oidc.ts';
import { samlProviders } from './configuration/saml.ts';
import { Exchanges, type LoggedRequest } from './exchanges.ts';
import { type FaultSwitchboard, Faults } from './faults.ts';
import { connectFilter } from './filter/connect.ts';
import type { PacketFilter, PacketFilterView } from './filter/filter.ts';
import { getListeningPort, listenHttp, stopListening } from './http/listener.ts';
import type { RawRequest } from './http/request.ts';
import type { HttpAnswer } from './http/response.ts';
import type { SimulatorOptions } from './options.ts';
import { answerRequest } from './router.ts';
import { makeSeedRow, type RuleSeed } from './rules/change.ts';
import type { StoredRule } from './rules/rule.ts';
import { openTables, type Tables } from './tables.ts';
import type { TokenStore } from './tokens.ts';
import type { StoredUser } from './users.ts';

export type { SimulatorOptions } from './options.ts';

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

/** Starts the simulated API server on a real socket. Rejects when it cannot listen, or read its data file. */
export async function startSimulator(options: SimulatorOptions): Promise<Simulator> {
  const tables = openTables(options);
  const { rules: store, users, tokens, configuration } = tables;
  let exit: (reason: string) => void = () => {};
  const filter = connectFilter(options, tables, (reason) => exit(reason));
  const faults = new Faults(options.random ?? Math.random, () => store.listBody());
  const { onError } = options;
  const exchanges = new Exchanges({ answer: answers(options, tables), faults, ...(onError && { onError }) });
  if (options.admin === true) {
    exchanges.admin = (request) => answerAdmin({ faults, filter: filter.view, users }, request);
  }
  const host = options.host ?? '127.0.0.1';
  const server = await listenHttp({ host, port: options.port ?? 0, exchange: exchanges.take });
  const stop = (): Promise<void> => {
    filter.close();
    tables.close();
    return stopListening(server);
  };
  const exited = new Promise<string>((resolve) => {
    exit = (reason) => void stop().then(() => resolve(reason));
  });
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${getListeningPort(server)}`,
    rules: () => [...store.rows()].map(({ shown }) => shown),
    users: () => users.all(),
    configuration: () => configuration.row,
    seed: (seeds) => seeds.map((seed) => load(seed, tables, filter)),
    requests: exchanges.log,
    faults,
    filter: filter.view,
    tokens,
    onCall: exchanges.onCall,
    exited,
    close: stop,
  };
}

/** How requests below `/v0` are answered from the tables. */
function answers(options: SimulatorOptions, tables: Tables): (request: RawRequest) => Promise<HttpAnswer> {
  const kinds = {
    openid_connect_providers: makeOpenidKind(discoveryOf(options)),
    saml_identity_providers: samlProviders,
  };
  const changeRules = { kinds, environment: options.environment ?? {} };
  const parts = { ...tables, changeRules, portRules: options.portRules ?? true };
  return (request) => answerRequest(parts, request);
}

function discoveryOf(options: SimulatorOptions): Discovery {
  if (options.discovery !== 'fetch') return acceptDiscovery;
  return fetchDiscovery({ milliseconds: options.clock ?? Date.now, timeout: 15_000, ...options.discoveryFetch });
}

function load(seed: RuleSeed, { rules, newId, clock }: Tables, filter: PacketFilter): string {
  const row = makeSeedRow(seed, newId(), clock.now());
  rules.load(row);
  filter.inserted(row);
  return row.id;
}
