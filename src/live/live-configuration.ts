import { canonicalizeNetwork } from '../model/address.ts';
import {
  type ConfigurationFields,
  type LiveConfiguration,
  type OidcProvider,
  type SamlProvider,
  unifyLineEnds,
} from '../model/configuration.ts';
import { fail, isObject, ok, type Result } from '../model/result.ts';
import { Secret } from '../model/secret.ts';
import { unwrapData } from './live-rules.ts';

/** Reads what stands at `where`; throws `Unreadable`. */
type Read<T> = (value: unknown, where: string) => T;

class Unreadable extends Error {}

function reading<T>(fits: (value: unknown) => value is T, expected: string): Read<T> {
  return (value, where) => {
    if (fits(value)) return value;
    throw new Unreadable(`${where} is not ${expected}`);
  };
}

const text = reading((value) => typeof value === 'string', 'text');
const boolean = reading((value) => typeof value === 'boolean', 'true or false');
const integer = reading((value): value is number => Number.isSafeInteger(value), 'a whole number');
const object = reading(isObject, 'an object');
const list = reading((value): value is readonly unknown[] => Array.isArray(value), 'a list');

function orNull<T>(read: Read<T>): Read<T | null> {
  return (value, where) => (value === null ? null : read(value, where));
}

/** Null also where the field is left out. */
function optional<T>(read: Read<T>): Read<T | null> {
  return (value, where) => orNull(read)(value ?? null, where);
}

/** An empty text is stored as null (observed: recordings/configuration_oidc). */
const filledText: Read<string | null> = (value, where) => optional(text)(value, where) || null;

/** A snapshot's bodies hold secrets of unknown value. */
const secret: Read<Secret> = (value, where) => (value instanceof Secret ? value : Secret.of(text(value, where)));

/** A null member, which the server accepts and stores (observed: recordings/configuration_fields), reads as `null`. */
const networks = orNull(listOf((value, where) => canonicalizeNetwork(String(orNull(text)(value, where)))));

function listOf<T>(read: Read<T>): Read<readonly T[]> {
  return (value, where) => list(value, where).map((item, index) => read(item, `${where}[${index}]`));
}

/** An object with these members; others are not looked at. */
function members<T extends object>(reads: { readonly [Name in keyof T]: Read<T[Name]> }): Read<T> {
  return (value, where) => {
    const from = object(value, where);
    const path = where === '' ? '' : `${where}.`;
    const own = Object.entries<Read<unknown>>(reads).map(([name, read]) => [name, read(from[name], path + name)]);
    return Object.fromEntries(own);
  };
}

const oidcProvider = members<OidcProvider>({
  id: text,
  label: text,
  scope: text,
  response_type: text,
  client_id: text,
  client_secret: secret,
  discovery_document_uri: text,
  redirect_uri: filledText,
  auto_create_users: boolean,
});

const samlProvider = members<SamlProvider>({
  id: text,
  label: text,
  base_url: filledText,
  metadata: (value, where) => (value instanceof Secret ? value : Secret.of(unifyLineEnds(text(value, where)))),
  sign_requests: orNull(boolean),
  sign_metadata: orNull(boolean),
  signed_assertion_in_resp: orNull(boolean),
  signed_envelopes_in_resp: orNull(boolean),
  auto_create_users: boolean,
});

const readLogo = optional(members({ url: optional(text), data: optional(text), type: optional(text) }));

/** No logo is `{}`, null, or all members null (observed: recordings/configuration_body); all three mean null here. */
const logo: Read<ConfigurationFields['logo']> = (value, where) => {
  const read = readLogo(value, where);
  return read?.url === null && read.data === null && read.type === null ? null : read;
};

const readFields = members<ConfigurationFields>({
  allow_unprivileged_device_configuration: orNull(boolean),
  allow_unprivileged_device_management: orNull(boolean),
  default_client_allowed_ips: networks,
  default_client_dns: networks,
  default_client_endpoint: filledText,
  default_client_mtu: orNull(integer),
  default_client_persistent_keepalive: orNull(integer),
  disable_vpn_on_oidc_error: orNull(boolean),
  local_auth_enabled: orNull(boolean),
  logo,
  openid_connect_providers: listOf(oidcProvider),
  saml_identity_providers: listOf(samlProvider),
  vpn_session_duration: integer,
});

const unmanaged = { id: true, inserted_at: true, updated_at: true };

/** Paths of the members, those of providers too, that were not read. */
function listUnknown(from: unknown, read: unknown, path = ''): readonly string[] {
  if (typeof from !== 'object' || typeof read !== 'object' || from === null || read === null) return [];
  const members = new Map<string, unknown>(Object.entries(read));
  return Object.entries(from).flatMap(([name, value]) =>
    members.has(name) ? listUnknown(value, members.get(name), `${path}${name}.`) : [path + name],
  );
}

/** Reads the answer of GET or PATCH /v0/configuration; no message quotes a value. A field that cannot be read is named. */
export function decodeLiveConfiguration(body: unknown): Result<LiveConfiguration, string> {
  const data = unwrapData(body);
  if (!isObject(data)) return fail('the configuration is not {"data": {...}}');
  try {
    const fields = readFields(data, '');
    const unknownFields = listUnknown(data, { ...fields, ...unmanaged });
    return ok({ id: text(data['id'], 'id'), fields, ...(unknownFields.length === 0 ? {} : { unknownFields }) });
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return fail(`the configuration: ${error.message}`);
  }
}
