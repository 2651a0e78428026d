import type { SimulatorClock } from '../clock.ts';
import type { Configuration, TableEvents } from '../events.ts';
import { type JsonTerm, readObject, ServerCrash, type TermMap } from '../http/json.ts';
import { answerInvalid, type HttpAnswer, json, sortKeys } from '../http/response.ts';
import type { SimulatorOptions } from '../options.ts';
import { acceptDiscovery, fetchDiscovery } from './discovery.ts';
import { type Field, logoField, plainFields } from './fields.ts';
import { addError, makeOpenidField, samlField } from './provider.ts';

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
export function createConfiguration(options: SimulatorOptions, clock: SimulatorClock, events: TableEvents, id: string) {
  const fetching = { milliseconds: options.clock ?? Date.now, timeout: 15_000, ...options.discoveryFetch };
  const discovery = options.discovery === 'fetch' ? fetchDiscovery(fetching) : acceptDiscovery;
  const fields: Fields = {
    ...plainFields,
    logo: logoField,
    openid_connect_providers: makeOpenidField(discovery),
    saml_identity_providers: samlField,
  };
  const now = clock.now();
  let current: Configuration = sortKeys({ ...defaults, id, inserted_at: now, updated_at: now });
  return {
    row: () => current,
    load(row: Configuration): void {
      current = row;
    },
    /** Answers a change; shows the row as cast, not as stored. */
    async change(sent: JsonTerm): Promise<HttpAnswer> {
      const cast = await castFields(fields, options.environment ?? {}, current, readObject(sent));
      const { values, changed, errors } = cast;
      if (Object.keys(errors).length > 0) return answerInvalid(errors);
      if (changed.size === 0) return json(200, { data: current });
      const updated_at = clock.now();
      const stored = [...changed].map((name) => [name, fields[name]?.store(values[name])]);
      current = { ...current, updated_at, ...Object.fromEntries(stored) };
      events.emit('configured', current);
      return json(200, { data: { ...values, updated_at } });
    },
  };
}

type Fields = Readonly<Record<string, Field>>;

/**
 * Works out an update as the server does: casts what was sent, checks every plain field of the resulting row (the ones
 * that were not sent too), and looks at the stored value of each changed field, which raises ServerCrash when that is
 * invalid itself (observed: recordings/configuration_poisoned, recordings/configuration_oidc). `environment`: has the fields that it pins.
 */
async function castFields(all: Fields, environment: object, stored: Configuration, sent: TermMap) {
  const values = { ...stored };
  const changed = new Set<string>();
  const errors: Record<string, unknown> = {};
  const fields = Object.entries(all);
  for (const [name, field] of fields) {
    const term = sent.get(name);
    if (term === undefined) continue;
    const cast = await field.cast(term, stored[name]);
    if (cast.errors !== undefined) errors[name] = cast.errors;
    else if (cast.changes) values[name] = cast.value;
    if (cast.changes) changed.add(name);
  }
  for (const [name, { problems }] of fields) {
    for (const message of problems(values[name]).toReversed()) addError(errors, name, message);
  }
  for (const [name, { problems, isBroken }] of fields.filter((field) => changed.has(field[0]))) {
    if (name in environment) {
      const variable = name.toUpperCase();
      addError(errors, name, `cannot be changed; it is overridden by ${variable} environment variable`);
    } else if (problems(stored[name]).length > 0 || (await isBroken?.(stored[name])))
      throw new ServerCrash(`stored ${name} is invalid`);
  }
  return { values, changed, errors };
}
