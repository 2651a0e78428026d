import type { Place } from './problem.ts';
import type { Secret } from './secret.ts';

/** An OpenID Connect provider; the field names are the API's. */
export interface OidcProvider<S = Secret> {
  readonly id: string;
  readonly label: string;
  readonly scope: string;
  readonly response_type: string;
  readonly client_id: string;
  readonly client_secret: S;
  readonly discovery_document_uri: string;
  readonly redirect_uri: string | null;
  readonly auto_create_users: boolean;
}

/** A SAML provider in the API's names. A desired `base_url` of null is left to the server, and not compared. */
export interface SamlProvider<S = Secret> {
  readonly id: string;
  readonly label: string;
  readonly base_url: string | null;
  readonly metadata: S;
  readonly sign_requests: boolean | null;
  readonly sign_metadata: boolean | null;
  readonly signed_assertion_in_resp: boolean | null;
  readonly signed_envelopes_in_resp: boolean | null;
  readonly auto_create_users: boolean;
}

/** The logo; the field names are the API's. All null: no logo. */
export type Logo = Readonly<Record<'url' | 'data' | 'type', string | null>>;

/** The writable fields of the Configuration in canonical form (addresses canonical, `/32` dropped); `S`: what stands for a secret. */
export interface ConfigurationFields<S = Secret> {
  readonly allow_unprivileged_device_configuration: boolean | null;
  readonly allow_unprivileged_device_management: boolean | null;
  readonly default_client_allowed_ips: readonly string[] | null;
  readonly default_client_dns: readonly string[] | null;
  readonly default_client_endpoint: string | null;
  readonly default_client_mtu: number | null;
  readonly default_client_persistent_keepalive: number | null;
  readonly disable_vpn_on_oidc_error: boolean | null;
  readonly local_auth_enabled: boolean | null;
  readonly logo: Logo | null;
  readonly openid_connect_providers: readonly OidcProvider<S>[];
  readonly saml_identity_providers: readonly SamlProvider<S>[];
  readonly vpn_session_duration: number;
}

export type ConfigurationField = keyof ConfigurationFields;

/** Every writable field, in the order of every output. */
export const configurationFields: readonly ConfigurationField[] = [
  'local_auth_enabled',
  'openid_connect_providers',
  'saml_identity_providers',
  'disable_vpn_on_oidc_error',
  'vpn_session_duration',
  'allow_unprivileged_device_management',
  'allow_unprivileged_device_configuration',
  'default_client_allowed_ips',
  'default_client_dns',
  'default_client_endpoint',
  'default_client_mtu',
  'default_client_persistent_keepalive',
  'logo',
];

/** Shortest deadline of OpenID Connect providers, ms: the server reads a document, then its keys, each for 15 s (facts, 5.1). */
export const providersTimeoutMs = 40_000;

/** What people sign in to the administration with. */
export const signInFields = ['local_auth_enabled', 'openid_connect_providers', 'saml_identity_providers'] as const;

/** Whether nobody can sign in to the administration with this configuration. */
export function leavesNoSignIn(fields: ConfigurationFields): boolean {
  const providers = fields.openid_connect_providers.length + fields.saml_identity_providers.length;
  return fields.local_auth_enabled !== true && providers === 0;
}

/** Whether the last way to sign in would go with these fields. */
export function losesSignIn(
  live: LiveConfiguration,
  desired: DesiredConfiguration,
  sent: readonly ConfigurationField[],
): boolean {
  const after = { ...live.fields, ...Object.fromEntries(sent.map((field) => [field, desired.fields[field]])) };
  return leavesNoSignIn(after) && !leavesNoSignIn(live.fields);
}

/** The fields with something else in place of each provider's secret. */
export function mapSecrets<From, To>(
  fields: Partial<ConfigurationFields<From>>,
  map: (secret: From, provider: OidcProvider<From> | SamlProvider<From>) => To,
): Partial<ConfigurationFields<To>> {
  const { openid_connect_providers: oidc, saml_identity_providers: saml, ...rest } = fields;
  return {
    ...rest,
    ...(oidc && {
      openid_connect_providers: oidc.map((one) => ({ ...one, client_secret: map(one.client_secret, one) })),
    }),
    ...(saml && { saml_identity_providers: saml.map((one) => ({ ...one, metadata: map(one.metadata, one) })) }),
  };
}

/** Where fields stand in the manifests, and the items of those that are lists. */
export type ConfigurationPlaces = Partial<
  Readonly<Record<ConfigurationField | `${ConfigurationField}[${number}]`, Place>>
>;

/** A secret by its name in a reference, and where it may be sent: a provider's id, and the `findSecretHost` its discovery document. */
export type SecretBinding = Readonly<Record<'name' | 'provider' | 'host', string>>;

/** SAML metadata as XML parsers read it (XML 1.0, 2.11): a checkout on Windows, and a form in a browser, end lines otherwise. */
export function unifyLineEnds(metadata: string): string {
  return metadata.replace(/\r\n?/g, '\n');
}

/** The host of a discovery document, with `http://` before one without TLS, where a secret could be read on the way. */
export function findSecretHost(uri: string): string | null {
  if (!URL.canParse(uri)) return null;
  const { host, protocol } = new URL(uri);
  return protocol === 'https:' ? host : `${protocol}//${host}`;
}

/** What the manifests manage of the Configuration: only fields that are written. `places` says where each stands. */
export interface DesiredConfiguration {
  readonly name: string;
  readonly place: Place;
  readonly fields: Partial<ConfigurationFields>;
  readonly places: ConfigurationPlaces;
  /** The secrets of providers that are references to the operator's, and where each would go. */
  readonly references: readonly (SecretBinding & { readonly place: Place })[];
}

export interface LiveConfiguration {
  readonly id: string;
  readonly fields: ConfigurationFields;
  /** Paths of members that are not read here; absent where there are none. */
  readonly unknownFields?: readonly string[];
}
