import {
  type ConfigurationField,
  type ConfigurationFields,
  configurationFields,
  type DesiredConfiguration,
  type LiveConfiguration,
  type Logo,
  type OidcProvider,
  type SamlProvider,
} from '../model/configuration.ts';
import { isObject } from '../model/result.ts';
import { type FingerprintKey, Secret, type SecretComparison } from '../model/secret.ts';
import type { PlanInput } from './input.ts';
import type { FieldValue } from './plan.ts';

/** How a managed field compares. `hidden`: at most secrets unknown here differ; `blocked`: more differs, and one is unknown. */
export type FieldState = 'same' | 'differs' | 'hidden' | 'blocked';

/** Every managed field that is not `same`, in the order of `configurationFields`. `isMoved`: the base differs; null: it lacks the field. */
export function diffConfiguration(desired: DesiredConfiguration, live: LiveConfiguration, input: PlanInput) {
  const [key, former] = [input.options.fingerprintKey, input.base?.configuration?.fields ?? {}];
  return configurationFields.flatMap((field) => {
    const [wanted, held] = [desired.fields[field], live.fields[field]];
    if (wanted === undefined) return [];
    const state = compareField(field, wanted, held);
    if (state === 'same') return [];
    const change = { before: show(held, wanted, key, former[field]), after: show(wanted, held, key) };
    const isMoved = former[field] === undefined ? null : hasChanged(field, desired, { fields: former });
    return [{ field, state, isMoved, change }];
  });
}

type Value = ConfigurationFields[ConfigurationField];

export function compareField(field: ConfigurationField, wanted: Value, live: Value): FieldState {
  if (field === 'openid_connect_providers' || field === 'saml_identity_providers')
    return compareProviders(wanted as readonly Provider[], live as readonly Provider[]);
  return meaningOf(field, wanted) === meaningOf(field, live) ? 'same' : 'differs';
}

/** Equal for values that mean the same to a client: allowed addresses are a set, though the server keeps their order. */
function meaningOf(field: ConfigurationField, value: Value): string {
  if (field === 'default_client_allowed_ips') return JSON.stringify((value as readonly string[] | null)?.toSorted());
  if (field !== 'logo') return JSON.stringify(value);
  const { url = null, data = null, type = null } = (value as Logo | null) ?? {};
  return JSON.stringify([url, data, type]);
}

/** Whether a field is known to have another value now. */
export function hasChanged(field: ConfigurationField, { fields: one }: Held, { fields: other }: Held): boolean {
  const [value, held] = [one[field], other[field]];
  return value !== undefined && held !== undefined && ['differs', 'blocked'].includes(compareField(field, value, held));
}

type Held = Pick<DesiredConfiguration, 'fields'>;

type Provider = OidcProvider | SamlProvider;

export function hasUnknownSecret(providers: readonly Provider[]): boolean {
  const values = providers.flatMap((provider): readonly unknown[] => Object.values(provider));
  return values.some((value) => value instanceof Secret && !value.known);
}

/** Providers compare by position: their order is the order on the sign-in page. */
function compareProviders(wanted: readonly Provider[], live: readonly Provider[]): FieldState {
  const hasUnknown = hasUnknownSecret(wanted);
  if (wanted.length !== live.length) return hasUnknown ? 'blocked' : 'differs';
  const states = wanted.map((provider, index) => compareProvider(provider, live[index] as Provider));
  if (states.includes('changed')) return hasUnknown ? 'blocked' : 'differs';
  return states.includes('unknown') ? 'hidden' : 'same';
}

function compareProvider(wanted: Provider, live: Provider): SecretComparison {
  const other = new Map<string, unknown>(Object.entries(live));
  let result: SecretComparison = 'same';
  for (const [name, value] of Object.entries(wanted)) {
    if (name === 'base_url' && value === null) continue; // left to the server
    const held = other.get(name);
    const plain = value === held ? 'same' : 'changed';
    const state = value instanceof Secret && held instanceof Secret ? value.compare(held) : plain;
    if (state === 'changed') return 'changed';
    if (state === 'unknown') result = 'unknown';
  }
  return result;
}

/** A value for display; a secret says how it compares with its counterpart, never what it is. `base` has the references of live ones. */
function show(value: unknown, counterpart: unknown, key: FingerprintKey | null, base?: unknown): FieldValue {
  if (value instanceof Secret) {
    const secret = counterpart instanceof Secret ? value.compare(counterpart) : value.known ? 'changed' : 'unknown';
    const { source = base instanceof Secret ? base.source : undefined } = value;
    return { secret, fingerprint: key === null ? null : value.fingerprint(key), ...(source && { source }) };
  }
  if (typeof value !== 'object' || value === null) return value as FieldValue;
  const [others, former] = [counterpart, base].map((from) => new Map(membersOf(from)));
  const shown = membersOf(value).map(([name, member]) => {
    return [name, show(member, others?.get(name), key, former?.get(name))] as const;
  });
  return Array.isArray(value) ? shown.map(([, member]) => member) : Object.fromEntries(shown);
}

/** The members of a list or an object by their names: providers, whose order may differ, by their ids. */
function membersOf(value: unknown): readonly (readonly [string, unknown])[] {
  const members = Object.entries(value ?? {}) as [string, unknown][];
  if (!Array.isArray(value)) return members;
  return members.map(([name, one]) => [isObject(one) && typeof one['id'] === 'string' ? one['id'] : name, one]);
}
