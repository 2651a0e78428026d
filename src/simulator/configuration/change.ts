import { ServerCrash } from '../crash.ts';
import type { TermMap } from '../http/json.ts';
import type { FieldErrors } from '../http/response.ts';
import { isSameValue, scalarFields } from './fields.ts';
import { castLogo, type StoredLogo } from './logo.ts';
import { castProviders, type Provider, type ProviderKind } from './provider.ts';

/** The configuration's columns as shown; no logo is null. */
export interface ConfigurationValues {
  readonly scalars: Readonly<Record<string, unknown>>;
  readonly logo: StoredLogo | null;
  readonly providers: Readonly<Record<string, readonly Provider[]>>;
}

export interface ChangeRules {
  readonly kinds: Readonly<Record<string, ProviderKind>>;
  /** Fields pinned by the server's environment. */
  readonly environment: Readonly<Record<string, unknown>>;
}

export type CastConfiguration =
  | { readonly ok: true; readonly values: ConfigurationValues; readonly changed: ReadonlySet<string> }
  | { readonly ok: false; readonly errors: FieldErrors };

/**
 * Works out an update as the server does: casts what was sent, checks every plain field of the resulting row (the ones
 * that were not sent too), and looks at the stored value of each changed field, which raises ServerCrash when that is
 * invalid itself (observed: recordings/configuration_poisoned, recordings/configuration_oidc).
 */
export async function castConfiguration(
  stored: ConfigurationValues,
  sent: TermMap,
  rules: ChangeRules,
): Promise<CastConfiguration> {
  const values = { scalars: { ...stored.scalars }, logo: stored.logo, providers: { ...stored.providers } };
  const work: Change = { stored, sent, values, changed: new Set(), errors: {} };
  castScalars(work);
  castSentLogo(work);
  for (const [name, kind] of Object.entries(rules.kinds)) await castSentProviders(work, name, kind);
  for (const [name, field] of Object.entries(scalarFields)) {
    for (const message of field.problems(values.scalars[name]).toReversed()) addError(work, name, message);
  }
  for (const field of work.changed) {
    if (field in rules.environment) {
      const variable = field.toUpperCase();
      addError(work, field, `cannot be changed; it is overridden by ${variable} environment variable`);
    } else await checkStored(stored, field, rules);
  }
  const { changed, errors } = work;
  return Object.keys(errors).length > 0 ? { ok: false, errors } : { ok: true, values, changed };
}

/** An update on its way. */
interface Change {
  readonly stored: ConfigurationValues;
  readonly sent: TermMap;
  readonly values: {
    readonly scalars: Record<string, unknown>;
    readonly providers: Record<string, readonly Provider[]>;
    logo: StoredLogo | null;
  };
  readonly changed: Set<string>;
  readonly errors: Record<string, unknown>;
}

/** The configuration's loader validates what is stored under each changed key, and raises. */
async function checkStored(stored: ConfigurationValues, field: string, rules: ChangeRules): Promise<void> {
  const scalar = scalarFields[field];
  if (scalar !== undefined && scalar.problems(stored.scalars[field]).length > 0) {
    throw new ServerCrash(`stored ${field} is invalid`);
  }
  const kind = rules.kinds[field];
  if (kind === undefined) return;
  for (const provider of stored.providers[field] ?? []) {
    if (Object.keys(await kind.check(provider)).length > 0) throw new ServerCrash(`stored ${field} is invalid`);
  }
}

/** Adds a message in front: the newest comes first. */
function addError({ errors }: Change, field: string, message: string): void {
  const known = errors[field];
  errors[field] = [message, ...(Array.isArray(known) ? known : [])];
}

function castScalars(work: Change): void {
  const { scalars } = work.values;
  for (const [name, field] of Object.entries(scalarFields)) {
    const term = work.sent.get(name);
    if (term === undefined) continue;
    const cast = term === '' ? { value: field.empty } : field.cast(term);
    if ('message' in cast) addError(work, name, cast.message);
    else if (!isSameValue(scalars[name], cast.value)) {
      scalars[name] = cast.value;
      work.changed.add(name);
    }
  }
}

function castSentLogo({ stored, sent, values, changed, errors }: Change): void {
  const term = sent.get('logo');
  if (term === undefined) return;
  const cast = castLogo(term);
  if ('errors' in cast) {
    errors['logo'] = cast.errors;
  } else if (cast.value !== null || stored.logo !== null) {
    values.logo = cast.value;
    changed.add('logo');
  }
}

async function castSentProviders(work: Change, name: string, kind: ProviderKind): Promise<void> {
  const term = work.sent.get(name);
  if (term === undefined) return;
  const before = work.stored.providers[name] ?? [];
  const cast = await castProviders(kind, term);
  if ('errors' in cast) {
    const nested = cast.errors.some((error) => typeof error === 'object');
    if (nested) work.changed.add(name);
    // A replaced provider takes a place of its own in the list of errors.
    work.errors[name] = nested ? [...before.map(() => ({})), ...cast.errors] : cast.errors;
  } else if (cast.providers.length > 0 || before.length > 0) {
    work.values.providers[name] = cast.providers;
    work.changed.add(name);
  }
}
