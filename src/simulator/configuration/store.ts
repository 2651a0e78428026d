import type { SimulatorClock } from '../clock.ts';
import type { TableEvents } from '../events.ts';
import { type JsonTerm, readObject } from '../http/json.ts';
import { answerInvalid, type HttpAnswer, json } from '../http/response.ts';
import { type ChangeRules, type Configuration, castConfiguration } from './change.ts';
import { scalarFields } from './fields.ts';
import { sortKeys } from './provider.ts';

/** A fresh server's configuration. */
const defaults: Configuration = {
  allow_unprivileged_device_configuration: true,
  allow_unprivileged_device_management: true,
  default_client_allowed_ips: ['0.0.0.0/0', '::/0'],
  default_client_dns: ['1.1.1.1', '1.0.0.1'],
  default_client_endpoint: '127.0.0.1:51820',
  default_client_mtu: 1280,
  default_client_persistent_keepalive: 25,
  disable_vpn_on_oidc_error: false,
  local_auth_enabled: true,
  logo: {},
  openid_connect_providers: [],
  saml_identity_providers: [],
  vpn_session_duration: 0,
};

/** The one row of the configurations table. */
export class ConfigurationStore {
  readonly #clock: SimulatorClock;
  readonly #events: TableEvents;
  #current: Configuration;

  constructor(clock: SimulatorClock, events: TableEvents, id: string) {
    this.#clock = clock;
    this.#events = events;
    const now = clock.now();
    this.#current = sortKeys({ ...defaults, id, inserted_at: now, updated_at: now });
  }

  get row(): Configuration {
    return this.#current;
  }

  load(row: Configuration): void {
    this.#current = row;
  }

  /** Writes the changed fields. Returns the row as cast, which is what the answer shows, not as stored. */
  update(values: Configuration, changed: ReadonlySet<string>): Configuration {
    const row = { ...this.#current, updated_at: this.#clock.now() };
    const stored = [...changed].map((name) => [name, scalarFields[name]?.store(values[name]) ?? values[name]]);
    this.#current = { ...row, ...Object.fromEntries(stored) };
    this.#events.emit('configured', this.#current);
    return { ...values, updated_at: row.updated_at };
  }
}

/** Answers a change of the configuration. */
export async function updateConfiguration(
  store: ConfigurationStore,
  sent: JsonTerm,
  rules: ChangeRules,
): Promise<HttpAnswer> {
  const change = await castConfiguration(store.row, readObject(sent), rules);
  if (!change.ok) return answerInvalid(change.errors);
  const data = change.changed.size === 0 ? store.row : store.update(change.values, change.changed);
  return json(200, { data });
}
