import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { castString } from '../cast.ts';
import { ServerCrash } from '../crash.ts';
import { isMap, type JsonTerm, type TermMap } from '../http/json.ts';
import type { FieldErrors } from '../http/response.ts';
import { isSameValue, scalarFields } from './fields.ts';
import { castProviders, type Provider, type ProviderKind } from './provider.ts';

/** The configuration as the API shows it, keys in order. */
export type Configuration = Readonly<Record<string, unknown>>;

export interface ChangeRules {
  readonly kinds: Readonly<Record<string, ProviderKind>>;
  /** Fields pinned by the server's environment. */
  readonly environment: Readonly<Record<string, unknown>>;
}

export type CastConfiguration =
  | { readonly ok: true; readonly values: Configuration; readonly changed: ReadonlySet<string> }
  | { readonly ok: false; readonly errors: FieldErrors };

/**
 * Works out an update as the server does: casts what was sent, checks every plain field of the resulting row (the ones
 * that were not sent too), and looks at the stored value of each changed field, which raises ServerCrash when that is
 * invalid itself (observed: recordings/configuration_poisoned, recordings/configuration_oidc).
 */
export async function castConfiguration(
  stored: Configuration,
  sent: TermMap,
  rules: ChangeRules,
): Promise<CastConfiguration> {
  const values = { ...stored };
  const work: Change = { stored, sent, values, changed: new Set(), errors: {} };
  castScalars(work);
  castSentLogo(work);
  for (const [name, kind] of Object.entries(rules.kinds)) await castSentProviders(work, name, kind);
  for (const [name, field] of Object.entries(scalarFields)) {
    for (const message of field.problems(values[name]).toReversed()) addError(work, name, message);
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
  readonly stored: Configuration;
  readonly sent: TermMap;
  readonly values: Record<string, unknown>;
  readonly changed: Set<string>;
  readonly errors: Record<string, unknown>;
}

/** The configuration's loader validates what is stored under each changed key, and raises. */
async function checkStored(stored: Configuration, field: string, rules: ChangeRules): Promise<void> {
  const scalar = scalarFields[field];
  if (scalar !== undefined && scalar.problems(stored[field]).length > 0) {
    throw new ServerCrash(`stored ${field} is invalid`);
  }
  const kind = rules.kinds[field];
  if (kind === undefined) return;
  for (const provider of listProviders(stored, field)) {
    if (Object.keys(await kind.check(provider)).length > 0) throw new ServerCrash(`stored ${field} is invalid`);
  }
}

/** Adds a message in front: the newest comes first. */
function addError({ errors }: Change, field: string, message: string): void {
  const known = errors[field];
  errors[field] = [message, ...(Array.isArray(known) ? known : [])];
}

function castScalars(work: Change): void {
  for (const [name, field] of Object.entries(scalarFields)) {
    const term = work.sent.get(name);
    if (term === undefined) continue;
    const cast = term === '' ? { value: field.empty } : field.cast(term);
    if ('message' in cast) addError(work, name, cast.message);
    else if (!isSameValue(work.values[name], cast.value)) {
      work.values[name] = cast.value;
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
  } else if (!isSameValue(cast.value, {}) || !isSameValue(stored['logo'], {})) {
    values['logo'] = cast.value;
    changed.add('logo');
  }
}

async function castSentProviders(work: Change, name: string, kind: ProviderKind): Promise<void> {
  const term = work.sent.get(name);
  if (term === undefined) return;
  const before = listProviders(work.stored, name);
  const cast = await castProviders(kind, term);
  if ('errors' in cast) {
    const nested = cast.errors.some((error) => typeof error === 'object');
    if (nested) work.changed.add(name);
    // A replaced provider takes a place of its own in the list of errors.
    work.errors[name] = nested ? [...before.map(() => ({})), ...cast.errors] : cast.errors;
  } else if (cast.providers.length > 0 || before.length > 0) {
    work.values[name] = cast.providers;
    work.changed.add(name);
  }
}

function listProviders(stored: Configuration, name: string): readonly Provider[] {
  const providers = stored[name];
  return Array.isArray(providers) ? providers : [];
}

const logoExtensions = ['.jpg', '.jpeg', '.png', '.gif', '.webp', '.avif', '.svg', '.tiff'];

/** Reads the sent logo, which replaces the stored one as a whole; null takes it away, and none is shown as `{}`. */
function castLogo(term: JsonTerm): { readonly value: object } | { readonly errors: FieldErrors | string[] } {
  if (term === null) return { value: {} };
  if (Array.isArray(term) && term.length === 0) return { value: { data: null, type: null, url: null } };
  if (!isMap(term)) return { errors: ['is invalid'] };
  const logo: Record<'data' | 'file' | 'type' | 'url', string | null> = {
    data: null,
    file: null,
    type: null,
    url: null,
  };
  const errors: Record<string, string[]> = {};
  for (const name of ['data', 'file', 'type', 'url'] as const) {
    const sent = term.get(name);
    const cast = sent === undefined || sent === '' ? { value: null } : castString(sent);
    if ('message' in cast) errors[name] = [cast.message];
    else logo[name] = cast.value;
  }
  const { file, ...shown } = logo;
  if (file !== null) Object.assign(errors, checkFile(file));
  return Object.keys(errors).length > 0 ? { errors } : { value: shown };
}

/** The server copies the file, which raises when it is not there. */
function checkFile(file: string): Record<string, string[]> {
  if (!existsSync(file)) throw new ServerCrash('no such file');
  const extension = extname(file);
  if (logoExtensions.includes(extension)) return {};
  const expected = logoExtensions.map((name) => `"${name}"`).join(', ');
  return { file: [`file extension is not supported, got ${extension}, expected one of [${expected}]`] };
}
