import { ServerCrash } from '../crash.ts';
import type { TermMap } from '../http/json.ts';
import type { FieldErrors } from '../http/response.ts';
import { isSameValue, scalarFields } from './fields.ts';
import { castLogo, type StoredLogo } from './logo.ts';
import { castProviders, type Provider, type ProviderKind } from './provider.ts';

/** The configuration's columns as held: allowed IPs parsed, everything else as shown; no logo is null. */
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
  const work = new Change(stored);
  work.castScalars(sent);
  work.castLogo(sent);
  for (const [name, kind] of Object.entries(rules.kinds)) await work.castProviders(name, kind, sent);
  work.checkScalars();
  for (const field of work.changed) {
    if (field in rules.environment) {
      const variable = field.toUpperCase();
      work.addError(field, `cannot be changed; it is overridden by ${variable} environment variable`);
    } else await checkStored(stored, field, rules);
  }
  return work.result();
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

class Change {
  readonly changed = new Set<string>();
  readonly #stored: ConfigurationValues;
  readonly #scalars: Record<string, unknown>;
  readonly #providers: Record<string, readonly Provider[]>;
  #logo: StoredLogo | null;
  readonly #errors: Record<string, unknown> = {};

  constructor(stored: ConfigurationValues) {
    this.#stored = stored;
    this.#scalars = { ...stored.scalars };
    this.#providers = { ...stored.providers };
    this.#logo = stored.logo;
  }

  /** Adds a message in front: the newest comes first. */
  addError(field: string, message: string): void {
    const known = this.#errors[field];
    this.#errors[field] = [message, ...(Array.isArray(known) ? known : [])];
  }

  castScalars(sent: TermMap): void {
    for (const [name, field] of Object.entries(scalarFields)) {
      const term = sent.get(name);
      if (term === undefined) continue;
      const cast = term === '' ? { value: field.empty } : field.cast(term);
      if ('message' in cast) this.addError(name, cast.message);
      else if (!isSameValue(field, this.#scalars[name], cast.value)) {
        this.#scalars[name] = cast.value;
        this.changed.add(name);
      }
    }
  }

  castLogo(sent: TermMap): void {
    const term = sent.get('logo');
    if (term === undefined) return;
    const cast = castLogo(term);
    if ('errors' in cast) {
      this.#errors['logo'] = cast.errors;
    } else if (cast.value !== null || this.#stored.logo !== null) {
      this.#logo = cast.value;
      this.changed.add('logo');
    }
  }

  async castProviders(name: string, kind: ProviderKind, sent: TermMap): Promise<void> {
    const term = sent.get(name);
    if (term === undefined) return;
    const before = this.#stored.providers[name] ?? [];
    const cast = await castProviders(kind, term);
    if ('errors' in cast) {
      const nested = cast.errors.some((error) => typeof error === 'object');
      if (nested) this.changed.add(name);
      // A replaced provider takes a place of its own in the list of errors.
      this.#errors[name] = nested ? [...before.map(() => ({})), ...cast.errors] : cast.errors;
    } else if (cast.providers.length > 0 || before.length > 0) {
      this.#providers[name] = cast.providers;
      this.changed.add(name);
    }
  }

  checkScalars(): void {
    for (const [name, field] of Object.entries(scalarFields)) {
      for (const message of [...field.problems(this.#scalars[name])].reverse()) this.addError(name, message);
    }
  }

  result(): CastConfiguration {
    if (Object.keys(this.#errors).length > 0) return { ok: false, errors: this.#errors };
    const values = { scalars: this.#scalars, logo: this.#logo, providers: this.#providers };
    return { ok: true, values, changed: this.changed };
  }
}
