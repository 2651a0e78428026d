import type { Clock } from '../clock.ts';

/** The configuration as `GET /v0/configuration` shows it. */
export type StoredConfiguration = Readonly<Record<string, unknown>> & {
  readonly id: string;
  readonly inserted_at: string;
  readonly updated_at: string;
};

/** A fresh server's configuration. */
export const DEFAULTS: Readonly<Record<string, unknown>> = {
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
  private readonly clock: Clock;
  private row: StoredConfiguration;

  constructor(clock: Clock, id: string) {
    this.clock = clock;
    const now = clock.now();
    this.row = { ...DEFAULTS, id, inserted_at: now, updated_at: now };
  }

  get(): StoredConfiguration {
    return this.row;
  }

  load(row: StoredConfiguration): void {
    this.row = row;
  }

  update(changes: Readonly<Record<string, unknown>>): StoredConfiguration {
    this.row = { ...this.row, ...changes, updated_at: this.clock.now() };
    return this.row;
  }
}

/** The row as JSON text, keys in order. */
export function showConfiguration(row: StoredConfiguration): string {
  return JSON.stringify({ data: Object.fromEntries(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1))) });
}
