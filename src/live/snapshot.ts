import { createHash } from 'node:crypto';
import type { ConfigurationFields, LiveConfiguration } from '../model/configuration.ts';
import { compareText } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import { compareRules, type LiveRule, toWire } from '../model/rule.ts';
import { Secret } from '../model/secret.ts';
import type { LiveState } from '../model/state.ts';
import { decodeLiveConfiguration } from './live-configuration.ts';
import { decodeLiveRules, isObject, type LiveUser } from './live-rules.ts';

/** Version of the snapshot's form. */
export const snapshotVersion = '1.0';

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$/;

/** A live state as a file holds it: canonical, sorted, without any secret. */
export interface Snapshot {
  readonly takenAt: string;
  readonly live: LiveState;
  /** User ids by the SHA-256 of their e-mail address in lower case: enough to resolve, nothing to read. */
  readonly users: ReadonlyMap<string, string>;
}

/** The snapshot as a JSON value. The same live state gives the same value, whatever the order of the list. */
export function encodeSnapshot(live: LiveState, users: readonly LiveUser[], takenAt: string): unknown {
  const rules = [...live.rules].sort((a, b) => compareRules(a.rule, b.rule) || compareText(a.id, b.id));
  const byEmail = users.map(({ email, id }) => [hashEmail(email), id] as const).sort(([a], [b]) => compareText(a, b));
  return {
    format_version: snapshotVersion,
    kind: 'snapshot',
    taken_at: takenAt,
    rules: rules.map(encodeRule),
    configuration: live.configuration === null ? null : encodeConfiguration(live.configuration),
    users: Object.fromEntries(byEmail),
  };
}

/** Reads a snapshot; the error is a sentence. Its secrets are of unknown value, so that none of them causes a write. */
export function decodeSnapshot(value: unknown): Result<Snapshot, string> {
  if (!isObject(value) || value['kind'] !== 'snapshot')
    return fail('it is not a snapshot made by `reconcile snapshot`');
  if (value['format_version'] !== snapshotVersion) return fail(`its format is not ${snapshotVersion}: take a new one`);
  const takenAt = value['taken_at'];
  // A snapshot may come from a stranger's branch, and this text is shown: `Date.parse` alone takes comments too.
  if (typeof takenAt !== 'string' || !isoTime.test(takenAt) || Number.isNaN(Date.parse(takenAt)))
    return fail('it does not say when it was taken');
  const rules = decodeLiveRules({ data: value['rules'] });
  if (!rules.ok) return rules;
  const configuration = value['configuration'] === null ? ok(null) : decodeStored(value['configuration']);
  if (!configuration.ok) return configuration;
  const users = isObject(value['users']) ? Object.entries(value['users']) : [];
  const ids = users.filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return ok({ takenAt, live: { rules: rules.value, configuration: configuration.value }, users: new Map(ids) });
}

/** The key of an address in `Snapshot.users`. */
export function hashEmail(email: string): string {
  return createHash('sha256').update(email.toLowerCase()).digest('hex');
}

function encodeRule(live: LiveRule): unknown {
  const wire = { ...toWire(live.rule), destination: live.destinationText };
  return { id: live.id, ...wire, inserted_at: live.insertedAt, updated_at: live.updatedAt };
}

function encodeConfiguration({ id, fields }: LiveConfiguration): unknown {
  const { openid_connect_providers: oidc, saml_identity_providers: saml, ...rest } = fields;
  return {
    id,
    ...rest,
    openid_connect_providers: oidc.map(({ client_secret: _secret, ...provider }) => provider),
    saml_identity_providers: saml.map(({ metadata: _secret, ...provider }) => provider),
  };
}

function decodeStored(stored: unknown): Result<LiveConfiguration, string> {
  if (!isObject(stored)) return fail('its configuration is not an object');
  const withPlaceholders = {
    ...stored,
    openid_connect_providers: withMember(stored['openid_connect_providers'], 'client_secret'),
    saml_identity_providers: withMember(stored['saml_identity_providers'], 'metadata'),
  };
  const decoded = decodeLiveConfiguration({ data: withPlaceholders });
  return decoded.ok ? ok({ ...decoded.value, fields: withoutSecrets(decoded.value.fields) }) : decoded;
}

function withMember(providers: unknown, name: string): unknown {
  if (!Array.isArray(providers)) return providers;
  return providers.map((provider: unknown) => (isObject(provider) ? { ...provider, [name]: '' } : provider));
}

function withoutSecrets(fields: ConfigurationFields): ConfigurationFields {
  return {
    ...fields,
    openid_connect_providers: fields.openid_connect_providers.map((provider) => ({
      ...provider,
      client_secret: Secret.unknown(),
    })),
    saml_identity_providers: fields.saml_identity_providers.map((provider) => ({
      ...provider,
      metadata: Secret.unknown(),
    })),
  };
}
