import { canonicalizeNetwork } from '../model/canonicalize-network.ts';
import type {
  ConfigurationFields,
  LiveConfiguration,
  Logo,
  OidcProvider,
  SamlProvider,
} from '../model/configuration.ts';
import { fail, isObject, ok, type Result } from '../model/result.ts';
import { Secret } from '../model/secret.ts';
import { unwrapData } from './live-rules.ts';

type Json = Readonly<Record<string, unknown>>;

/** Collects the first field that cannot be read, so that the decoders below stay plain expressions. */
class Reader {
  problem: string | null = null;
  readonly #where: string;
  readonly #from: Json;

  constructor(from: Json, where: string) {
    this.#from = from;
    this.#where = where;
  }

  get(field: string): unknown {
    return this.#from[field];
  }

  refuse(field: string, expected: string): void {
    this.problem ??= `${this.#where}${field} is not ${expected}`;
  }

  #read<T>(field: string, fits: (value: unknown) => value is T, expected: string, otherwise: T): T {
    const value = this.get(field);
    if (fits(value)) return value;
    this.refuse(field, expected);
    return otherwise;
  }

  text(field: string): string {
    return this.#read(field, (value) => typeof value === 'string', 'text', '');
  }

  /** Null also where the field is left out; an empty text is stored as null (observed: recordings/configuration_oidc). */
  textOrNull(field: string): string | null {
    return (this.get(field) ?? null) === null ? null : this.text(field) || null;
  }

  /** A snapshot's bodies hold secrets of unknown value. */
  secret(field: string): Secret {
    const value = this.get(field);
    return value instanceof Secret ? value : Secret.of(this.text(field));
  }

  boolean(field: string): boolean {
    return this.#read(field, (value) => typeof value === 'boolean', 'true or false', false);
  }

  booleanOrNull(field: string): boolean | null {
    return this.get(field) === null ? null : this.boolean(field);
  }

  integer(field: string): number {
    return this.#read(field, (value): value is number => Number.isSafeInteger(value), 'a whole number', 0);
  }

  integerOrNull(field: string): number | null {
    return this.get(field) === null ? null : this.integer(field);
  }

  /** A null member, which the server accepts and stores (observed: recordings/configuration_fields), reads as `null`. */
  textsOrNull(field: string): readonly string[] | null {
    if (this.get(field) === null) return null;
    return this.#read(field, areTexts, 'a list of texts', null)?.map(String) ?? null;
  }

  list<T>(field: string, decode: (item: Reader) => T): readonly T[] {
    const items: readonly unknown[] = this.#read(field, Array.isArray, 'a list', []);
    return items.map((item, index) => {
      if (!isObject(item)) this.refuse(`${field}[${index}]`, 'an object');
      const reader = new Reader(isObject(item) ? item : {}, `${this.#where}${field}[${index}].`);
      const decoded = decode(reader);
      this.problem ??= reader.problem;
      return decoded;
    });
  }
}

function areTexts(value: unknown): value is readonly (string | null)[] {
  return Array.isArray(value) && value.every((member) => typeof member === 'string' || member === null);
}

/** Reads the answer of GET or PATCH /v0/configuration; no message quotes a value. A field that cannot be read is named. */
export function decodeLiveConfiguration(body: unknown): Result<LiveConfiguration, string> {
  const data = unwrapData(body);
  if (!isObject(data)) return fail('the configuration is not {"data": {...}}');
  const reader = new Reader(data, 'the configuration: ');
  const id = reader.text('id');
  const fields: ConfigurationFields = {
    allow_unprivileged_device_configuration: reader.booleanOrNull('allow_unprivileged_device_configuration'),
    allow_unprivileged_device_management: reader.booleanOrNull('allow_unprivileged_device_management'),
    default_client_allowed_ips: reader.textsOrNull('default_client_allowed_ips')?.map(canonicalizeNetwork) ?? null,
    default_client_dns: reader.textsOrNull('default_client_dns')?.map(canonicalizeNetwork) ?? null,
    default_client_endpoint: reader.textOrNull('default_client_endpoint'),
    default_client_mtu: reader.integerOrNull('default_client_mtu'),
    default_client_persistent_keepalive: reader.integerOrNull('default_client_persistent_keepalive'),
    disable_vpn_on_oidc_error: reader.booleanOrNull('disable_vpn_on_oidc_error'),
    local_auth_enabled: reader.booleanOrNull('local_auth_enabled'),
    logo: decodeLogo(reader),
    openid_connect_providers: reader.list('openid_connect_providers', decodeOidc),
    saml_identity_providers: reader.list('saml_identity_providers', decodeSaml),
    vpn_session_duration: reader.integer('vpn_session_duration'),
  };
  return reader.problem === null ? ok({ id, fields }) : fail(reader.problem);
}

function decodeOidc(item: Reader): OidcProvider {
  return {
    id: item.text('id'),
    label: item.text('label'),
    scope: item.text('scope'),
    response_type: item.text('response_type'),
    client_id: item.text('client_id'),
    client_secret: item.secret('client_secret'),
    discovery_document_uri: item.text('discovery_document_uri'),
    redirect_uri: item.textOrNull('redirect_uri'),
    auto_create_users: item.boolean('auto_create_users'),
  };
}

function decodeSaml(item: Reader): SamlProvider {
  return {
    id: item.text('id'),
    label: item.text('label'),
    base_url: item.textOrNull('base_url'),
    metadata: item.secret('metadata'),
    sign_requests: item.booleanOrNull('sign_requests'),
    sign_metadata: item.booleanOrNull('sign_metadata'),
    signed_assertion_in_resp: item.booleanOrNull('signed_assertion_in_resp'),
    signed_envelopes_in_resp: item.booleanOrNull('signed_envelopes_in_resp'),
    auto_create_users: item.boolean('auto_create_users'),
  };
}

/** No logo is `{}`, null, or all members null (observed: recordings/configuration_body); all three mean null here. */
function decodeLogo(reader: Reader): Logo | null {
  const value = reader.get('logo');
  if (value === undefined || value === null) return null;
  if (!isObject(value)) {
    reader.refuse('logo', 'an object');
    return null;
  }
  const member = (name: string): string | null => {
    const text = value[name];
    if (text === undefined || text === null) return null;
    if (typeof text === 'string') return text;
    reader.refuse(`logo.${name}`, 'text');
    return null;
  };
  const logo: Logo = { url: member('url'), data: member('data'), type: member('type') };
  return logo.url === null && logo.data === null && logo.type === null ? null : logo;
}
