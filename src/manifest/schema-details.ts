import { isObject } from '../model/result.ts';
import type { Kind } from './manifest.ts';

/** A part of a JSON Schema that is still being made. */
type Draft = Record<string, unknown>;

interface FieldDetails {
  readonly example?: unknown;
  readonly description?: string;
}

/** What editors show for a field: an example, and what it means where the schema does not say so. */
const fields: Readonly<Record<string, FieldDetails>> = {
  apiVersion: { example: 'firezone/v0', description: 'The version of the manifest.' },
  kind: { description: 'What the manifest holds.' },
  metadata: { example: { name: 'office' } },
  spec: { description: 'What is wanted; its fields depend on `kind`.' },
  name: { example: 'office' },
  description: { example: 'Who may reach the office network' },
  labels: { example: { team: 'network' } },
  annotations: { example: { ticket: 'NET-17' } },
  owner: { example: 'network team' },
  ticket: { example: 'NET-17' },
  action: { example: 'accept' },
  destination: { example: '10.0.0.0/8' },
  destinations: { example: ['10.0.0.0/8', { network: 'staging' }] },
  network: { example: 'staging' },
  port_type: { example: 'tcp' },
  port_range: { example: '8000-8010' },
  user_id: { example: '5f6c2f5e-6a8e-4d0c-9b7e-3d1c6a0f2b11' },
  user: { example: 'alice@example.com' },
  users: { example: ['alice', { group: 'contractors' }] },
  group: { example: 'contractors' },
  defaults: { example: { action: 'accept' } },
  rules: { example: [{ name: 'web', action: 'accept', destination: '10.0.0.0/8' }] },
  members: { example: ['alice', 'bob@example.com'] },
  cidrs: { example: ['10.9.0.0/16', '2001:db8::/32'] },
  cases: { example: [{ destination: '10.0.0.1', expect: 'drop' }], description: 'The traffic to check, one by one.' },
  protocol: { example: 'tcp' },
  port: { example: 443 },
  expect: { example: 'drop' },
  always: { example: true },
  bases: { example: ['../base'] },
  remove: { example: ['Rule/legacy'] },
  env: { example: 'RECONCILE_SECRET_OIDC', description: 'An environment variable that holds the secret.' },
  file: { example: 'saml/okta.xml', description: 'A file that holds the secret, relative to this one.' },
  local_auth_enabled: { example: true },
  openid_connect_providers: { example: [] },
  saml_identity_providers: { example: [] },
  disable_vpn_on_oidc_error: {
    example: false,
    description: 'Whether people lose their VPN when their sign-in cannot be renewed.',
  },
  vpn_session_duration: { example: 86_400 },
  allow_unprivileged_device_management: { example: true, description: 'Whether users may add and remove devices.' },
  allow_unprivileged_device_configuration: { example: false, description: 'Whether users may change their devices.' },
  default_client_allowed_ips: { example: ['0.0.0.0/0', '::/0'] },
  default_client_dns: { example: ['10.0.0.53'] },
  default_client_endpoint: { example: 'vpn.example.com:51820' },
  default_client_mtu: { example: 1280 },
  default_client_persistent_keepalive: { example: 25 },
  logo: { example: { url: 'https://example.com/logo.png' } },
  url: { example: 'https://example.com/logo.png', description: 'The address of the picture.' },
  data: { example: 'iVBORw0KGgo=', description: 'The picture itself, in Base64.' },
  type: { example: 'image/png', description: 'The media type of `data`.' },
  id: { example: 'google' },
  label: { example: 'Google' },
  scope: { example: 'openid email profile' },
  response_type: { example: 'code' },
  client_id: { example: 'firezone', description: 'The id that the identity provider gave this server.' },
  client_secret: { example: { env: 'RECONCILE_SECRET_OIDC' } },
  discovery_document_uri: { example: 'https://idp.example.com/.well-known/openid-configuration' },
  redirect_uri: { example: 'https://vpn.example.com/auth/oidc/google/callback' },
  auto_create_users: { example: false, description: 'Whether people get an account when they first sign in.' },
  base_url: { example: 'https://vpn.example.com/auth/saml' },
  sign_requests: { example: true, description: 'Whether the server signs its requests.' },
  sign_metadata: { example: true, description: 'Whether the server signs its metadata.' },
  signed_assertion_in_resp: { example: true, description: 'Whether assertions must be signed.' },
  signed_envelopes_in_resp: { example: true, description: 'Whether responses must be signed.' },
};

/** SAML metadata shares its name with what every manifest has. */
const samlMetadata: FieldDetails = { example: { file: 'saml/okta.xml' } };

const octet = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])';
const ipv4 = `(?:${octet}\\.){3}${octet}(?:/(?:3[0-2]|[12]?[0-9]))?`;
const ipv6 = '[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?';
/** A text with a reference to a value may become anything. */
const reference = '.*\\$\\{.*';
const networkText = { type: 'string', pattern: `^(?:\\s*(?:${ipv4}|${ipv6})\\s*|${reference})$` };
const portText = { type: 'string', pattern: `^(?:\\s*[0-9]{1,9}(?:\\s*-\\s*[0-9]{1,9})?\\s*|${reference})$` };
const portNumber = { type: 'integer', minimum: 0, maximum: 65_535 };

const networkFields: ReadonlySet<string> = new Set([
  'destination',
  'destinations',
  'cidrs',
  'default_client_allowed_ips',
]);
const portFields: ReadonlySet<string> = new Set(['port_range', 'port']);

/** Gives every property a description and an example, and networks and ports the form that they must have. */
export function annotate(schema: Draft): void {
  for (const [name, field] of propertiesOf(schema)) {
    const { example, description } =
      name === 'metadata' && field['properties'] === undefined ? samlMetadata : (fields[name] ?? {});
    if (description !== undefined) field['description'] ??= description;
    field['examples'] ??= [example ?? field['const'] ?? exampleOf(field)];
    if (networkFields.has(name)) restrictScalars(field, networkText, null);
    if (portFields.has(name)) restrictScalars(field, portText, portNumber);
  }
  for (const part of partsOf(schema)) annotate(part);
}

/** An example of a mapping: the fields that it must have, or one that it may have. */
function exampleOf(schema: Draft): unknown {
  const names = propertiesOf(schema).map(([name]) => name);
  const { required = [] } = schema;
  const chosen = names.filter((name) => Array.isArray(required) && required.includes(name));
  const shown = (chosen.length > 0 ? chosen : names.slice(0, 1)).map((name) => [name, fields[name]?.example]);
  return shown.length > 0 ? Object.fromEntries(shown) : { alice: fields['user_id']?.example };
}

/** Replaces texts and numbers of a field, also those of a list or choice; no number fits where `number` is null. */
function restrictScalars(field: Draft, text: Draft, number: Draft | null): void {
  if (Array.isArray(field['anyOf'])) {
    const choices = field['anyOf'].filter(isObject).filter((one) => number !== null || one['type'] !== 'number');
    for (const one of choices) restrictScalars(one, text, number);
    field['anyOf'] = choices;
  }
  if (isObject(field['items'])) restrictScalars(field['items'], text, number);
  if (field['type'] === 'string') Object.assign(field, text);
  if (field['type'] === 'number' && number !== null) Object.assign(field, number);
}

const userFields = ['user_id', 'user', 'group', 'users'];

/** Adds what holds between the fields of a rule: ports have a type, and of two fields for one thing only one is written. */
export function addRuleConstraints(kind: Kind, schema: Draft): void {
  const spec = propertiesOf(schema).find(([name]) => name === 'spec')?.[1];
  if (spec === undefined) return;
  if (kind === 'Rule') spec['allOf'] = [...exclusive(userFields.slice(0, 3)), ...together];
  if (kind !== 'RuleSet') return;
  const [, rules] = propertiesOf(spec).find(([name]) => name === 'rules') ?? [];
  const [, defaults] = propertiesOf(spec).find(([name]) => name === 'defaults') ?? [];
  const pairs = [...exclusive(userFields), ...exclusive(['destination', 'destinations'])];
  if (isObject(rules?.['items'])) rules['items']['allOf'] = pairs;
  if (defaults !== undefined) defaults['allOf'] = pairs;
  spec['allOf'] = [
    unlessDefault(['port_type', 'port_range'], together),
    unlessDefault(['action'], [requires('action')]),
    unlessDefault(['destination', 'destinations'], [{ anyOf: [requires('destination'), requires('destinations')] }]),
  ];
}

/** No two of these are written side by side. */
function exclusive(names: readonly string[]): readonly Draft[] {
  return names.flatMap((one, index) => names.slice(index + 1).map((other) => ({ not: requires(one, other) })));
}

/** All of these are written. Named as properties too: strict validators refuse requirements of anything else. */
function requires(...names: readonly string[]): Draft {
  return { type: 'object', properties: Object.fromEntries(names.map((name) => [name, true])), required: names };
}

/** Where a field is written, and not as `null`, another is too. */
function needs(field: string, other: string): Draft {
  const isWritten = (name: string): Draft => ({
    type: 'object',
    properties: { [name]: { not: { type: 'null' } } },
    required: [name],
  });
  // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema.
  return { if: isWritten(field), then: isWritten(other) };
}

const together: readonly Draft[] = [needs('port_range', 'port_type'), needs('port_type', 'port_range')];

/** What holds for every rule of a set unless the defaults have one of the fields. */
function unlessDefault(names: readonly string[], allOf: readonly Draft[]): Draft {
  const has = names.map((name) => requires(name));
  return {
    if: { not: { type: 'object', properties: { defaults: { anyOf: has } }, required: ['defaults'] } },
    // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema.
    then: { type: 'object', properties: { rules: { type: 'array', items: { allOf } } } },
  };
}

function propertiesOf(schema: Draft): readonly (readonly [string, Draft])[] {
  const { properties } = schema;
  return isObject(properties)
    ? Object.entries(properties).filter((entry): entry is [string, Draft] => isObject(entry[1]))
    : [];
}

/** The schemas directly within a schema. */
function partsOf(schema: Draft): readonly Draft[] {
  const { anyOf, items, additionalProperties } = schema;
  const parts = [...(Array.isArray(anyOf) ? anyOf : []), items, additionalProperties];
  return [...propertiesOf(schema).map(([, field]) => field), ...parts].filter(isObject);
}
