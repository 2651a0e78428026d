import type { SimulatorClock } from '../clock.ts';
import { type JsonTerm, readObject } from '../http/json.ts';
import { answerInvalid, type HttpAnswer, json } from '../http/response.ts';
import { type ChangeRules, type ConfigurationValues, castConfiguration } from './change.ts';
import { scalarFields } from './fields.ts';
import { sortKeys } from './provider.ts';

export interface ConfigurationRow extends ConfigurationValues {
  readonly id: string;
  readonly insertedAt: string;
  readonly updatedAt: string;
}

/** A fresh server's configuration. */
const defaultValues: ConfigurationValues = {
  scalars: {
    allow_unprivileged_device_configuration: true,
    allow_unprivileged_device_management: true,
    default_client_allowed_ips: ['0.0.0.0/0', '::/0'],
    default_client_dns: ['1.1.1.1', '1.0.0.1'],
    default_client_endpoint: '127.0.0.1:51820',
    default_client_mtu: 1280,
    default_client_persistent_keepalive: 25,
    disable_vpn_on_oidc_error: false,
    local_auth_enabled: true,
    vpn_session_duration: 0,
  },
  logo: null,
  providers: { openid_connect_providers: [], saml_identity_providers: [] },
};

/** The one row of the configurations table. */
export class ConfigurationStore {
  readonly #clock: SimulatorClock;
  #current: ConfigurationRow;
  readonly #listeners: ((row: ConfigurationRow) => void)[] = [];

  constructor(clock: SimulatorClock, id: string) {
    this.#clock = clock;
    const now = clock.now();
    this.#current = { ...defaultValues, id, insertedAt: now, updatedAt: now };
  }

  listen(listener: (row: ConfigurationRow) => void): void {
    this.#listeners.push(listener);
  }

  get row(): ConfigurationRow {
    return this.#current;
  }

  load(row: ConfigurationRow): void {
    this.#current = row;
  }

  /** Writes the changed fields. Returns the row as cast, which is what the answer shows, not as stored. */
  update(values: ConfigurationValues, changed: ReadonlySet<string>): ConfigurationRow {
    const scalars = { ...this.#current.scalars };
    const providers = { ...this.#current.providers };
    for (const name of changed) {
      const field = scalarFields[name];
      if (field !== undefined) scalars[name] = field.store(values.scalars[name]);
      const sent = values.providers[name];
      if (sent !== undefined) providers[name] = sent;
    }
    const logo = changed.has('logo') ? values.logo : this.#current.logo;
    this.#current = { ...this.#current, scalars, providers, logo, updatedAt: this.#clock.now() };
    for (const listener of this.#listeners) listener(this.#current);
    return { ...this.#current, scalars: values.scalars };
  }
}

/** The row as the API shows it, keys in order. */
export function showConfiguration(row: ConfigurationRow): Record<string, unknown> {
  return sortKeys({
    ...row.scalars,
    ...row.providers,
    logo: row.logo ?? {},
    id: row.id,
    inserted_at: row.insertedAt,
    updated_at: row.updatedAt,
  });
}

/** Answers a change of the configuration. */
export async function updateConfiguration(
  store: ConfigurationStore,
  sent: JsonTerm,
  rules: ChangeRules,
): Promise<HttpAnswer> {
  const change = await castConfiguration(store.row, readObject(sent), rules);
  if (!change.ok) return answerInvalid(change.errors);
  const row = change.changed.size === 0 ? store.row : store.update(change.values, change.changed);
  return json(200, { data: showConfiguration(row) });
}
