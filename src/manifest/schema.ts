import { networkForms, portForms, ruleConstraints, setConstraints, setFieldConstraints } from './constraints.ts';
import { apiVersion, type Kind, kinds } from './manifest.ts';
import * as is from './shape.ts';

/** Names of manifests, sets, users and networks: letters, digits, and `. _ @ + -` inside. */
export const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,125}[A-Za-z0-9_])?$/;

/** Names of rules may be those of expanded ones: `contractors/web/alice/2001:db8::-32/tcp-443`. */
const ruleNamePattern = /^[A-Za-z0-9][!-~]{0,250}$/;

const uuid = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;

/** Whether a text is a dashed UUID; the server answers an empty 500 to any other spelling. */
export function isUuid(text: string): boolean {
  return uuid.test(text);
}

const exampleId = '5f6c2f5e-6a8e-4d0c-9b7e-3d1c6a0f2b11';
const textOrNumber = is.any(is.text, is.number);
const name = is.field(is.matching(namePattern), 'A name: a-z, A-Z, 0-9 and . _ @ + - inside.');
const address: is.Shape = { anyOf: networkForms, [is.checkedAs]: textOrNumber };
const portForm: is.Shape = { anyOf: portForms, [is.checkedAs]: is.any(is.number, is.text) };
const portRange = is.field(portForm, 'A port or a range of ports.', 443, '8000-8010');
const portType = is.field(is.choice('tcp', 'udp'), 'The protocol of the ports.');
const verdict = is.choice('accept', 'drop');
const action = is.field(verdict, 'What happens to matching packets.', 'accept');
const network = is.map({ network: { ...name, examples: ['staging'] } });
const networkReference = is.field(network, 'The name of a `kind: Network`.');
const destination = is.any(address, networkReference);
const userName = is.field(is.text, 'A name from a `kind: Users`, an e-mail address, or a UUID.');
const group = is.field(name, 'The name of a `kind: Group`: one rule for each member.', 'contractors');

/** A text with something to read in it. */
const pattern = '[^\\s\\u00ad\\u115f\\u1160\\u180e\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u2800\\u3164\\uffa0]';
const note: is.Shape = { type: 'string', pattern, maxLength: 200 };
const notes: is.Fields = {
  owner: is.optional(note, 'Who answers for it: a team, a person. Not sent.', 'network team'),
  ticket: is.optional(note, 'Where it was asked for. Not sent.', 'NET-17'),
};

const someTimes = ['2026-12-01', '2026-12-01T18:00:00+01:00'];
const times: is.Fields = {
  notBefore: is.optional(is.text, 'In force from then on; a date: from its first moment.', ...someTimes),
  expires: is.optional(is.text, 'In force until then; a date: to its last moment.', ...someTimes),
};
const timezone = is.optional(is.text, 'Of the dates here; default: UTC.', 'Europe/Berlin');

const portTypeField = is.optional(is.orNull(portType), 'The protocol of the ports.', 'tcp');
/** Of these only one is written. */
const oneUser: is.Fields = {
  user_id: is.optional(is.orNull(is.matching(uuid)), "The user's UUID; null: a rule for everybody.", exampleId),
  user: is.optional({ ...userName, examples: ['alice@example.com'] }),
  group: is.optional(group),
};

const ruleFields: is.Fields = {
  action,
  destination: is.field(address, 'An IP address or a network in CIDR notation.', '10.0.0.0/8', '2001:db8::1'),
  port_type: portTypeField,
  port_range: is.optional(is.orNull(portRange), 'A port or a range; without it, all traffic.', '8000-8010'),
  ...oneUser,
  ...times,
  timezone,
};

const setFields: is.Fields = {
  action: is.optional(action),
  destination: is.optional(destination, 'One destination.', '10.0.0.0/8'),
  destinations: is.optional(is.list(destination), 'Several: one rule each.', ['10.0.0.0/8', { network: 'staging' }]),
  port_type: portTypeField,
  port_range: is.optional(
    is.any(portRange, is.list(portRange), is.nothing),
    'A port, a range, or a list of them: one rule for each.',
    '8000-8010',
  ),
  ...oneUser,
  users: is.optional(
    is.list(is.any(userName, is.map({ group }))),
    'Several users and groups: one rule for each user.',
    ['alice', { group: 'contractors' }],
  ),
};

const ruleOfSet: is.Fields = { name: is.field(name, 'Unique in the set.', 'office'), ...notes, ...times, ...setFields };

const ruleSetFields: is.Fields = {
  ...times,
  timezone,
  defaults: is.optional(
    is.map(setFields, setFieldConstraints),
    'The action, destination, ports and users of every rule of the set that does not say otherwise.',
    { action: 'accept' },
  ),
  rules: is.field(is.list(is.map(ruleOfSet, setFieldConstraints)), 'The rules; `[]` says that there are none.', [
    { name: 'web', action: 'accept', destination: '10.0.0.0/8' },
  ]),
};

const policyCase = is.map({
  name: is.optional(is.text, 'For the report.', 'office'),
  user: is.optional(
    is.text,
    '`any`: nobody and every user named in a rule; without it, a device of nobody.',
    'alice@example.com',
  ),
  destination: is.field(address, 'All of this network must get the verdict.', '10.0.0.0/8'),
  protocol: is.optional(is.choice('tcp', 'udp', 'other'), 'Without it, all three. ICMP is `other`.', 'tcp'),
  port: is.optional(portForm, 'A port or a range, with tcp or udp; without it, 0–65535.', 443, '8000-8010'),
  expect: is.field(verdict, 'The verdict that all of this traffic must get.', 'drop'),
  always: is.optional(is.boolean, 'Must hold in every intermediate state of a plan too.', true),
  at: is.optional(is.text, 'Tests the rules of that time; a date: its first moment.', ...someTimes),
});

const secret = is.any(
  is.text,
  is.any(
    is.map({ env: is.field(is.text, 'An environment variable that holds the secret.', 'RECONCILE_SECRET_OIDC') }),
    is.map({ file: is.field(is.text, 'A file that holds the secret, relative to this one.', 'saml/okta.xml') }),
  ),
);

const providerFields: is.Fields = {
  id: is.field(is.text, 'The key of the provider, chosen by you.', 'google'),
  label: is.field(is.text, 'Shown on the sign-in page.', 'Google'),
};
const autoCreate = is.field(is.boolean, 'Whether people get an account when they first sign in.', false);

export const oidcProvider = is.map({
  ...providerFields,
  scope: withDefault(is.text, 'openid email profile', 'Must contain openid and email.', 'openid email profile'),
  response_type: withDefault(is.text, 'code', 'Only code.', 'code'),
  client_id: is.field(is.text, 'The id that the identity provider gave this server.', 'firezone'),
  client_secret: is.field(secret, 'A reference, `{env: NAME}` or `{file: path}`, or (not advised) the text itself.', {
    env: 'RECONCILE_SECRET_OIDC',
  }),
  discovery_document_uri: is.field(
    is.text,
    'The server fetches it; https (or http).',
    'https://idp.example.com/.well-known/openid-configuration',
  ),
  redirect_uri: withDefault(
    is.orNull(is.text),
    null,
    'An absolute http or https URL.',
    'https://vpn.example.com/auth/oidc/google/callback',
  ),
  auto_create_users: autoCreate,
});

export const samlProvider = is.map({
  ...providerFields,
  base_url: withDefault(is.orNull(is.text), null, "Without it, the server's own.", 'https://vpn.example.com/auth/saml'),
  metadata: is.field(secret, 'The SAML 2.0 metadata document (XML), by reference or as text.', {
    file: 'saml/okta.xml',
  }),
  sign_requests: withDefault(is.orNull(is.boolean), true, 'Whether the server signs its requests.', true),
  sign_metadata: withDefault(is.orNull(is.boolean), true, 'Whether the server signs its metadata.', true),
  signed_assertion_in_resp: withDefault(is.orNull(is.boolean), true, 'Whether assertions must be signed.', true),
  signed_envelopes_in_resp: withDefault(is.orNull(is.boolean), true, 'Whether responses must be signed.', true),
  auto_create_users: autoCreate,
});

function withDefault(shape: is.Shape, value: unknown, description: string, example: unknown): is.Shape {
  return { ...is.optional(shape, description, example), default: value };
}

const flag = is.orNull(is.boolean);
const addresses = is.orNull(is.list(address));

const configuration = is.map({
  local_auth_enabled: is.optional(flag, 'Whether people may sign in with e-mail and password.', true),
  openid_connect_providers: is.optional(is.list(oidcProvider), 'Managed as a whole when written.', []),
  saml_identity_providers: is.optional(is.list(samlProvider), 'Managed as a whole when written.', []),
  disable_vpn_on_oidc_error: is.optional(flag, 'Whether users lose their VPN when a sign-in cannot be renewed.', false),
  vpn_session_duration: is.optional(is.integer, '0 to 2147483647.', 86_400),
  allow_unprivileged_device_management: is.optional(flag, 'Whether users may add and remove devices.', true),
  allow_unprivileged_device_configuration: is.optional(flag, 'Whether users may change their devices.', false),
  default_client_allowed_ips: is.optional(addresses, 'IP addresses and networks that clients route through the VPN.', [
    '0.0.0.0/0',
    '::/0',
  ]),
  default_client_dns: is.optional(is.orNull(is.list(textOrNumber)), 'IP addresses or host names.', ['10.0.0.53']),
  default_client_endpoint: is.optional(
    is.any(is.text, is.number, is.nothing),
    'A host name or IP address, with or without :port.',
    'vpn.example.com:51820',
  ),
  default_client_mtu: is.optional(is.orNull(is.integer), '576 to 1500.', 1280),
  default_client_persistent_keepalive: is.optional(is.orNull(is.integer), '0 to 120.', 25),
  logo: is.optional(
    is.orNull(
      is.map({
        url: is.optional(is.orNull(is.text), 'The address of the picture.', 'https://example.com/logo.png'),
        data: is.optional(is.orNull(is.text), 'The picture itself, in Base64.', 'iVBORw0KGgo='),
        type: is.optional(is.orNull(is.text), 'The media type of `data`.', 'image/png'),
      }),
    ),
    'null: no logo.',
    { url: 'https://example.com/logo.png' },
  ),
});

const directories = 'Directories below the manifest root, relative to this file; later ones win.';

const specs: Readonly<Record<Kind, is.Shape>> = {
  Rule: is.map(ruleFields, ruleConstraints),
  RuleSet: is.map(ruleSetFields, setConstraints),
  Users: is.field(is.names(name, is.field(is.matching(uuid), 'The UUID.')), 'Name to UUID.', { alice: exampleId }),
  Group: is.map({
    members: is.field(is.list(userName), 'Names from a `kind: Users`, e-mail addresses, or UUIDs.', [
      'alice',
      'bob@example.com',
    ]),
  }),
  Network: is.map({
    cidrs: is.field(is.list(address), 'IP addresses and networks in CIDR notation.', ['10.9.0.0/16', '2001:db8::/32']),
  }),
  PolicyTest: is.map({
    timezone,
    cases: is.field(is.list(policyCase), 'The traffic to check, one by one.', [
      { destination: '10.0.0.1', expect: 'drop' },
    ]),
  }),
  Overlay: is.map({
    bases: is.field(is.list(is.text), directories, ['../base']),
    remove: is.optional(is.list(is.text), '`Kind/name` of manifests of the bases that do not count here.', [
      'Rule/legacy',
    ]),
  }),
  Configuration: configuration,
};

const labels = is.names(is.text, is.any(is.text, is.number, is.boolean));

function makeSchema(kind: Kind): is.Shape {
  const metadata = is.map({
    name: is.field(
      is.matching(kind === 'Rule' ? ruleNamePattern : namePattern),
      'Unique among the manifests of its kind.',
      'office',
    ),
    description: is.optional(is.text, 'For people.', 'Who may reach the office network'),
    labels: is.optional(labels, 'For people and tools; not sent.', { team: 'network' }),
    annotations: is.optional(labels, 'For people and tools; not sent.', { ticket: 'NET-17' }),
    ...(kind === 'Rule' || kind === 'RuleSet' ? notes : {}),
  });
  return is.map({
    apiVersion: is.field(is.choice(apiVersion), 'The version of the manifest.', apiVersion),
    kind: is.field(is.choice(kind), 'What the manifest holds.', kind),
    metadata: is.field(metadata, 'The name, and what people want to note.', { name: 'office' }),
    spec: { description: 'Its fields depend on `kind`.', examples: [exampleOf(specs[kind])], ...specs[kind] },
  });
}

/** An example of a mapping: the fields that it must have, or one that it may have. */
function exampleOf({ properties = {}, required = Object.keys(properties).slice(0, 1) }: is.Shape): object {
  return Object.fromEntries(required.map((name) => [name, properties[name]?.examples?.[0]]));
}

const schemas = new Map(kinds.map((kind) => [kind, makeSchema(kind)]));

export function findSchema(kind: Kind): is.Shape {
  return schemas.get(kind) ?? is.map({});
}

/** The field names that a mapping at this path may have, for "did you mean". */
export function listFields(kind: Kind, path: readonly PropertyKey[]): readonly string[] {
  return is.listFieldsAt(findSchema(kind), path);
}

export function listAllFields(): ReadonlySet<string> {
  return new Set(kinds.flatMap((kind) => is.listFieldsAt(findSchema(kind), null)));
}
