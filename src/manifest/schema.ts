import * as z from 'zod';
import { getOrMake } from '../model/group-by.ts';
import { type Kind, kinds } from './manifest.ts';

/** Names of manifests, sets, users and networks: letters, digits, and `. _ @ + -` inside. */
export const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,125}[A-Za-z0-9_])?$/;

/** Names of rules may be those of expanded ones: `contractors/web/alice/2001:db8::-32/tcp-443`. */
const ruleNamePattern = /^[A-Za-z0-9][!-~]{0,250}$/;

const uuid = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;

/** Whether a text is a dashed UUID; the server answers an empty 500 to any other spelling. */
export function isUuid(text: string): boolean {
  return uuid.test(text);
}

const name = z.string().regex(namePattern).meta({ description: 'A name: letters, digits and . _ @ + - inside.' });
const label = z.union([z.string(), z.number(), z.boolean()]);

/** Who answers for a rule. */
const notes = {
  owner: z.string().min(1).max(200).optional().meta({ description: 'Who answers for it: a team, a person. Not sent.' }),
  ticket: z.string().min(1).max(200).optional().meta({ description: 'Where it was asked for. Not sent.' }),
};

const time = z.string().meta({
  description: 'A date, or an RFC 3339 time with its zone.',
  examples: ['2026-12-01', '2026-12-01T18:00:00+01:00'],
});
/** From when until when a rule is in force. */
const times = {
  notBefore: time.optional().meta({ description: 'In force from then on; a date: from its first moment.' }),
  expires: time.optional().meta({ description: 'In force until then; a date: to its last moment.' }),
};
const timezone = z
  .string()
  .optional()
  .meta({ description: 'Of the dates here; default: UTC.', examples: ['Europe/Berlin'] });

const metadataWith = (namePattern: RegExp, more: Partial<typeof notes> = {}) =>
  z
    .strictObject({
      name: z.string().regex(namePattern).meta({ description: 'Unique among the manifests of its kind.' }),
      description: z.string().optional().meta({ description: 'For people.' }),
      labels: z.record(z.string(), label).optional().meta({ description: 'For people and tools; not sent.' }),
      annotations: z.record(z.string(), label).optional().meta({ description: 'For people and tools; not sent.' }),
      ...more,
    })
    .meta({ description: 'The name, and what people want to note.' });

function makeMetadata(kind: Kind): ReturnType<typeof metadataWith> {
  return metadataWith(
    kind === 'Rule' ? ruleNamePattern : namePattern,
    kind === 'Rule' || kind === 'RuleSet' ? notes : {},
  );
}

const address = z.union([z.string(), z.number()]);
const destination = address.meta({
  description: 'An IP address or a network in CIDR notation.',
  examples: ['10.0.0.0/8', '2001:db8::1'],
});
const action = z.enum(['accept', 'drop']).meta({ description: 'What happens to matching packets.' });
const portRange = z.union([z.number(), z.string()]).meta({
  description: 'A port or a range of ports.',
  examples: [443, '8000-8010'],
});
const portType = z.enum(['tcp', 'udp']).meta({ description: 'The protocol of the ports.' });
const userId = z
  .union([z.string().regex(uuid), z.null()])
  .meta({ description: "The user's UUID; null: a rule for everybody." });
const userName = z.string().meta({ description: 'A name from a `kind: Users`, an e-mail address, or a UUID.' });
const groupName = name.meta({ description: 'The name of a `kind: Group`: one rule for each member.' });

const makeRuleSpec = () =>
  z.strictObject({
    action,
    destination,
    port_type: z.union([portType, z.null()]).optional().meta({ description: 'The protocol of the ports.' }),
    port_range: z
      .union([portRange, z.null()])
      .optional()
      .meta({ description: 'A port or a range; without it, all traffic.' }),
    user_id: userId.optional(),
    user: userName.optional(),
    group: groupName.optional(),
    ...times,
    timezone,
  });

const networkReference = z.strictObject({ network: name }).meta({ description: 'The name of a `kind: Network`.' });
const groupReference = z.strictObject({ group: groupName });
const destinationItem = z.union([address, networkReference]);

const setFields = {
  action: action.optional(),
  destination: destinationItem.optional().meta({ description: 'One destination.' }),
  destinations: z.array(destinationItem).optional().meta({ description: 'Several: one rule for each.' }),
  port_type: z.union([portType, z.null()]).optional().meta({ description: 'The protocol of the ports.' }),
  port_range: z
    .union([portRange, z.array(portRange), z.null()])
    .optional()
    .meta({ description: 'A port, a range, or a list of them: one rule for each.' }),
  user_id: userId.optional(),
  user: userName.optional(),
  group: groupName.optional(),
  users: z
    .array(z.union([userName, groupReference]))
    .optional()
    .meta({ description: 'Several users and groups: one rule for each user.' }),
};

const makeRuleSetSpec = () =>
  z.strictObject({
    ...times,
    timezone,
    defaults: z.strictObject(setFields).optional().meta({
      description: 'What every rule of the set has unless it says otherwise: any field of a rule but its name.',
    }),
    rules: z
      .array(
        z.strictObject({ name: name.meta({ description: 'Unique in the set.' }), ...notes, ...times, ...setFields }),
      )
      .meta({ description: 'The rules; `[]` says that there are none.' }),
  });

const makePolicyTestSpec = () =>
  z.strictObject({
    timezone,
    cases: z.array(
      z.strictObject({
        name: z.string().optional().meta({ description: 'For the report.' }),
        user: userName
          .optional()
          .meta({ description: '`any`: nobody and every user named in a rule; without it, a device of nobody.' }),
        destination: address.meta({ description: 'All of this network must get the verdict.' }),
        protocol: z
          .enum(['tcp', 'udp', 'other'])
          .optional()
          .meta({ description: 'Without it, all three. ICMP is `other`.' }),
        port: portRange.optional().meta({ description: 'A port or a range, with tcp or udp; without it, 0–65535.' }),
        expect: action.meta({ description: 'The verdict that all of this traffic must get.' }),
        always: z.boolean().optional().meta({ description: 'Must hold in every intermediate state of a plan too.' }),
        at: time.optional().meta({ description: 'Tests the rules of that time; a date: its first moment.' }),
      }),
    ),
  });

const secretReference = z.union([z.strictObject({ env: z.string() }), z.strictObject({ file: z.string() })]);
const secret = z.union([z.string(), secretReference]).meta({
  description: 'A reference, `{env: NAME}` or `{file: path}`, or (not advised) the text itself.',
});

const makeOidcProvider = () =>
  z.strictObject({
    id: z.string().meta({ description: 'The key of the provider, chosen by you.' }),
    label: z.string().meta({ description: 'Shown on the sign-in page.' }),
    scope: z.string().default('openid email profile').meta({ description: 'Must contain openid and email.' }),
    response_type: z.string().default('code').meta({ description: 'Only code.' }),
    client_id: z.string(),
    client_secret: secret,
    discovery_document_uri: z.string().meta({ description: 'The server fetches it; https (or http).' }),
    redirect_uri: z.union([z.string(), z.null()]).default(null).meta({ description: 'An absolute http or https URL.' }),
    auto_create_users: z.boolean(),
  });

const flag = z.union([z.boolean(), z.null()]).default(true);
const makeSamlProvider = () =>
  z.strictObject({
    id: z.string().meta({ description: 'The key of the provider, chosen by you.' }),
    label: z.string().meta({ description: 'Shown on the sign-in page.' }),
    base_url: z.union([z.string(), z.null()]).default(null).meta({ description: "Without it, the server's own." }),
    metadata: secret.meta({ description: 'The SAML 2.0 metadata document (XML), by reference or as text.' }),
    sign_requests: flag,
    sign_metadata: flag,
    signed_assertion_in_resp: flag,
    signed_envelopes_in_resp: flag,
    auto_create_users: z.boolean(),
  });

const switched = z.union([z.boolean(), z.null()]).optional();
const bounded = z.union([z.int(), z.null()]).optional();

const makeConfigurationSpec = () =>
  z.strictObject({
    local_auth_enabled: switched.meta({ description: 'Whether people may sign in with e-mail and password.' }),
    openid_connect_providers: z
      .array(makeOidcProvider())
      .optional()
      .meta({ description: 'Managed as a whole when written.' }),
    saml_identity_providers: z
      .array(makeSamlProvider())
      .optional()
      .meta({ description: 'Managed as a whole when written.' }),
    disable_vpn_on_oidc_error: switched,
    vpn_session_duration: z.int().optional().meta({ description: '0 to 2147483647.' }),
    allow_unprivileged_device_management: switched,
    allow_unprivileged_device_configuration: switched,
    default_client_allowed_ips: z
      .union([z.array(address), z.null()])
      .optional()
      .meta({ description: 'IP addresses and networks that clients route through the VPN.' }),
    default_client_dns: z
      .union([z.array(address), z.null()])
      .optional()
      .meta({ description: 'IP addresses or host names.' }),
    default_client_endpoint: z
      .union([z.string(), z.number(), z.null()])
      .optional()
      .meta({ description: 'A host name or IP address, with or without :port.' }),
    default_client_mtu: bounded.meta({ description: '576 to 1500.' }),
    default_client_persistent_keepalive: bounded.meta({ description: '0 to 120.' }),
    logo: z
      .union([
        z.strictObject({
          url: z.union([z.string(), z.null()]).optional(),
          data: z.union([z.string(), z.null()]).optional(),
          type: z.union([z.string(), z.null()]).optional(),
        }),
        z.null(),
      ])
      .optional()
      .meta({ description: 'null: no logo.' }),
  });

const makeSpec: Readonly<Record<Kind, () => z.ZodType>> = {
  Rule: makeRuleSpec,
  RuleSet: makeRuleSetSpec,
  Users: () => z.record(name, z.string().regex(uuid)).meta({ description: 'Name to UUID.' }),
  Group: () =>
    z.strictObject({
      members: z.array(userName).meta({ description: 'Names from a `kind: Users`, e-mail addresses, or UUIDs.' }),
    }),
  Network: () =>
    z.strictObject({
      cidrs: z.array(address).meta({ description: 'IP addresses and networks in CIDR notation.' }),
    }),
  PolicyTest: makePolicyTestSpec,
  Overlay: () =>
    z.strictObject({
      bases: z
        .array(z.string())
        .meta({ description: 'Directories below the manifest root, relative to this file; later ones win.' }),
      remove: z
        .array(z.string())
        .optional()
        .meta({ description: '`Kind/name` of manifests of the bases that do not count here.' }),
    }),
  Configuration: makeConfigurationSpec,
};

const made = new Map<Kind, ReturnType<typeof makeManifest>>();

/** The schema of a kind, made when it is first needed: all of them would take 5 ms of each start. */
export function findSchema(kind: Kind): ReturnType<typeof makeManifest> {
  return getOrMake(made, kind, () => makeManifest(kind));
}

function makeManifest(kind: Kind) {
  return z.strictObject({
    apiVersion: z.literal('firezone/v0'),
    kind: z.literal(kind),
    metadata: makeMetadata(kind),
    spec: makeSpec[kind](),
  });
}

/** The field names that a mapping at this path may have, for "did you mean". */
export function listFields(kind: Kind, path: readonly PropertyKey[]): readonly string[] {
  return fieldsOf(findSchema(kind), path);
}

function fieldsOf(schema: z.core.$ZodType, path: readonly PropertyKey[]): readonly string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return fieldsOf(schema.unwrap(), path);
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => fieldsOf(option, path));
  if (schema instanceof z.ZodArray) return path.length === 0 ? [] : fieldsOf(schema.element, path.slice(1));
  if (!(schema instanceof z.ZodObject)) return [];
  const [key] = path;
  if (key === undefined) return Object.keys(schema.shape);
  const next: z.core.$ZodType | undefined = schema.shape[String(key)];
  return next === undefined ? [] : fieldsOf(next, path.slice(1));
}

/** Every field name of any kind. */
export function listAllFields(): ReadonlySet<string> {
  known ??= new Set(kinds.flatMap((kind) => fieldsWithin(findSchema(kind))));
  return known;
}

let known: ReadonlySet<string> | undefined;

function fieldsWithin(schema: z.core.$ZodType): readonly string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return fieldsWithin(schema.unwrap());
  if (schema instanceof z.ZodUnion) return schema.options.flatMap(fieldsWithin);
  if (schema instanceof z.ZodArray) return fieldsWithin(schema.element);
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries(schema.shape).flatMap(([name, field]) => [name, ...fieldsWithin(field as z.core.$ZodType)]);
}
