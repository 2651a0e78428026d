import { X509Certificate } from 'node:crypto';
import { blank, type Cast, castBoolean, castString, invalidMessage } from '../cast.ts';
import type { SimulatorClock } from '../clock.ts';
import type { Configuration, TableEvents } from '../events.ts';
import { isMap, type JsonTerm, readObject, ServerCrash, type TermMap } from '../http/json.ts';
import { answerInvalid, type FieldErrors, type HttpAnswer, json, sortKeys } from '../http/response.ts';
import type { SimulatorOptions } from '../options.ts';
import { acceptDiscovery, type Discovery, fetchDiscovery } from './discovery.ts';
import { type Field, logoField, plainFields, usual } from './fields.ts';
import { parseXml, type XmlElement, XmlError } from './xml.ts';

/** One provider as stored and shown. */
type Provider = Readonly<Record<string, unknown>>;

interface ProviderField {
  readonly cast: (term: JsonTerm) => Cast<unknown>;
  /** What an absent or empty field becomes. */
  readonly default?: unknown;
  readonly required?: boolean;
}

/** A kind of provider: its fields, and what is checked beyond their types. */
interface ProviderKind {
  readonly fields: Readonly<Record<string, ProviderField>>;
  /** Messages by field, newest first as the server shows them; called with the fields that have a value. */
  readonly check: (provider: Provider) => Promise<Readonly<Record<string, readonly string[]>>>;
}

/** The array of a kind of provider; each stands on its own, nothing is merged. */
function makeProvidersField(kind: ProviderKind): Field {
  return {
    ...usual,
    cast: async (term, stored) => {
      const items = listOf(term);
      if (items === undefined) return { errors: [invalidMessage.message], changes: false };
      const results: { provider: Provider; errors: FieldErrors }[] = [];
      for (const item of items) results.push(await castProvider(kind, item));
      const before = listProviders(stored);
      if (results.every(({ errors }) => Object.keys(errors).length === 0)) {
        return { value: results.map(({ provider }) => provider), changes: items.length > 0 || before.length > 0 };
      }
      // A replaced provider takes a place of its own in the list of errors.
      return { errors: [...before.map(() => ({})), ...results.map(({ errors }) => errors)], changes: true };
    },
    isBroken: async (stored) => {
      for (const provider of listProviders(stored)) {
        if (Object.keys(await kind.check(provider)).length > 0) return true;
      }
      return false;
    },
  };
}

function listProviders(stored: unknown): readonly Provider[] {
  return Array.isArray(stored) ? stored : [];
}

/** The providers of the sent array, or of an object with numbered keys. */
function listOf(term: JsonTerm): readonly TermMap[] | undefined {
  const numbered = isMap(term) ? [...term].sort(([a], [b]) => Number(a) - Number(b) || (a < b ? -1 : 1)) : [];
  const listed: readonly JsonTerm[] = Array.isArray(term) ? term : [null];
  const sent = isMap(term) ? numbered.map(([, value]) => value) : listed;
  return sent.every(isMap) ? sent : undefined;
}

async function castProvider(kind: ProviderKind, sent: TermMap): Promise<{ provider: Provider; errors: FieldErrors }> {
  const provider: Record<string, unknown> = {};
  const errors: Record<string, readonly string[]> = {};
  for (const [name, field] of Object.entries(kind.fields)) {
    const fallback = field.default ?? null;
    const term = sent.get(name);
    const cast = term === undefined || term === '' ? { value: fallback } : field.cast(term);
    if ('message' in cast) errors[name] = [cast.message];
    provider[name] = 'message' in cast ? fallback : cast.value;
    // Null, empty or white space only is what "required" refuses.
    if (field.required === true && String(provider[name] ?? '').trim() === '') {
      errors[name] ??= [blank];
      provider[name] = null;
    }
  }
  for (const [name, messages] of Object.entries(await kind.check(provider))) {
    errors[name] = [...messages, ...(errors[name] ?? [])];
  }
  return { provider, errors: sortKeys(errors) };
}

/** Adds a message in front: the newest of a field comes first. */
function addError(errors: Record<string, unknown>, field: string, message: string | undefined): void {
  const known = errors[field];
  if (message !== undefined) errors[field] = [message, ...(Array.isArray(known) ? known : [])];
}

const reservedIds: ReadonlySet<unknown> = new Set(['identity', 'saml', 'magic_link']);

/** The message for a text that is no absolute http(s) URI, or undefined (observed: recordings/configuration_saml). */
export function checkUri(text: string): string | undefined {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[0] ?? '';
  const wrong = invalidCharacter(text.slice(scheme.length), scheme === '');
  // What fails as an absolute URI is read again as a relative one, which fails at the colon.
  if (wrong !== undefined) return `is invalid. Error at ${scheme === '' ? wrong : ':'}`;
  const [, authority = ''] = /^\/\/([^/?#]*)/.exec(text.slice(scheme.length)) ?? [];
  const host = authority.replace(/^.*@/, '').replace(/:[0-9]*$/, '');
  if (host === '') return 'does not contain a scheme or a host';
  if (scheme === '') return 'does not contain a scheme';
  return /^https?:$/.test(scheme) ? undefined : 'only http, https schemes are supported';
}

/** The first character of what follows a scheme that may not stand where it stands. */
function invalidCharacter(text: string, relative: boolean): string | undefined {
  const rest = text.replace(/^(\/\/(?:[^/?#@]*@)?)\[[0-9a-fA-F:.]*\]/, '$1');
  const character = /[^A-Za-z0-9\-._~:/?#@!$&'()*+,;=%]|(?<=#.*)#/.exec(rest)?.[0];
  if (character !== undefined) return character;
  const authority = /^\/\/([^/?#]*)/.exec(rest)?.[1];
  if (authority === undefined) return relative && !text.startsWith('/') && /^[^/?#]*:/.test(text) ? ':' : undefined;
  return /:(?![0-9]*$)/.test(authority.replace(/^.*@/, '')) ? ':' : undefined;
}

const required = { cast: castString, required: true } as const;

/** OpenID Connect providers (observed: recordings/configuration_oidc). */
function makeOpenidField(discovery: Discovery): Field {
  return makeProvidersField({
    fields: {
      auto_create_users: { cast: castBoolean, required: true },
      client_id: required,
      client_secret: required,
      discovery_document_uri: required,
      id: required,
      label: required,
      redirect_uri: { cast: castString },
      response_type: { ...required, default: 'code' },
      scope: { ...required, default: 'openid email profile' },
    },
    check: async (provider) => {
      const errors: Record<string, string[]> = {};
      const { id, discovery_document_uri: uri, redirect_uri: redirect, response_type: type, scope } = provider;
      if (reservedIds.has(id)) addError(errors, 'id', 'is reserved');
      if (typeof uri === 'string') {
        const reason = await discovery(uri);
        if (reason !== undefined) addError(errors, 'discovery_document_uri', `is invalid. Reason: ${reason}`);
      }
      if (typeof redirect === 'string') addError(errors, 'redirect_uri', checkUri(redirect));
      if (typeof type === 'string' && type !== 'code') addError(errors, 'response_type', 'is invalid');
      for (const word of ['openid', 'email']) {
        if (typeof scope === 'string' && !scope.includes(word)) addError(errors, 'scope', `must include ${word} scope`);
      }
      return errors;
    },
  });
}

/** The server's own address plus `auth/saml`; it loses its port on the way. */
const defaultBaseUrl = 'http://127.0.0.1/auth/saml';

const yes = { cast: castBoolean, default: true } as const;

/** SAML identity providers (observed: recordings/configuration_saml). */
const samlField = makeProvidersField({
  fields: {
    auto_create_users: { cast: castBoolean, required: true },
    base_url: { cast: (one) => (one === null ? { value: defaultBaseUrl } : castString(one)), default: defaultBaseUrl },
    id: required,
    label: required,
    metadata: required,
    sign_metadata: yes,
    sign_requests: yes,
    signed_assertion_in_resp: yes,
    signed_envelopes_in_resp: yes,
  },
  check: (provider) => {
    const errors: Record<string, string[]> = {};
    const { base_url: url, id, metadata } = provider;
    if (typeof url === 'string') addError(errors, 'base_url', checkUri(url));
    if (typeof metadata === 'string') addError(errors, 'metadata', checkMetadata(metadata));
    if (reservedIds.has(id)) addError(errors, 'id', 'is reserved');
    return Promise.resolve(errors);
  },
});

const samlNamespace = 'urn:oasis:names:tc:SAML:2.0:metadata';

/** The message for metadata that is no XML, or undefined; other faults raise ServerCrash (recordings/configuration_saml). */
export function checkMetadata(text: string): string | undefined {
  let root: XmlElement;
  try {
    root = parseXml(text);
  } catch (error) {
    if (error instanceof XmlError) return `is invalid. Details: ${error.message}.`;
    throw error;
  }
  const entity = find(root, 'EntityDescriptor')[0];
  if (entity?.namespace !== samlNamespace || !entity.attributes.has('entityID'))
    throw new ServerCrash('no SAML entity');
  for (const key of find(entity, 'KeyDescriptor')) {
    for (const certificate of find(key, 'X509Certificate')) checkCertificate(certificate.text);
  }
  return undefined;
}

function find(element: XmlElement, name: string): XmlElement[] {
  const below = element.children.flatMap((child) => find(child, name));
  return element.name === name ? [element, ...below] : below;
}

function checkCertificate(text: string): void {
  const base64 = text.replace(/\s+/g, '');
  try {
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) throw new Error('not base64');
    new X509Certificate(Buffer.from(base64, 'base64'));
  } catch {
    throw new ServerCrash('undecodable certificate');
  }
}

/** A fresh server's configuration. */
const defaults: Configuration = {
  allow_unprivileged_device_configuration: true,
  allow_unprivileged_device_management: true,
  default_client_allowed_ips: ['0.0.0.0/0', '::/0'],
  default_client_dns: ['1.1.1.1', '1.0.0.1'],
  default_client_endpoint: '127.0.0.1:51820',
  default_client_mtu: 1280,
  default_client_persistent_keepalive: 25,
  disable_vpn_on_oidc_error: false,
  local_auth_enabled: true,
  logo: {},
  openid_connect_providers: [],
  saml_identity_providers: [],
  vpn_session_duration: 0,
};

/** The one row of the configurations table. */
export function createConfiguration(options: SimulatorOptions, clock: SimulatorClock, events: TableEvents, id: string) {
  const fetching = { milliseconds: options.clock ?? Date.now, timeout: 15_000, ...options.discoveryFetch };
  const discovery = options.discovery === 'fetch' ? fetchDiscovery(fetching) : acceptDiscovery;
  const fields: Fields = {
    ...plainFields,
    logo: logoField,
    openid_connect_providers: makeOpenidField(discovery),
    saml_identity_providers: samlField,
  };
  const now = clock.now();
  let current: Configuration = sortKeys({ ...defaults, id, inserted_at: now, updated_at: now });
  return {
    row: () => current,
    load(row: Configuration): void {
      current = row;
    },
    /** Answers a change; shows the row as cast, not as stored. */
    async change(sent: JsonTerm): Promise<HttpAnswer> {
      const cast = await castFields(fields, options.environment ?? {}, current, readObject(sent));
      const { values, changed, errors } = cast;
      if (Object.keys(errors).length > 0) return answerInvalid(errors);
      if (changed.size === 0) return json(200, { data: current });
      const updated_at = clock.now();
      const stored = [...changed].map((name) => [name, fields[name]?.store(values[name])]);
      current = { ...current, updated_at, ...Object.fromEntries(stored) };
      events.emit('configured', current);
      return json(200, { data: { ...values, updated_at } });
    },
  };
}

type Fields = Readonly<Record<string, Field>>;

/**
 * Works out an update as the server does: casts what was sent, checks every plain field of the resulting row (the ones
 * that were not sent too), and looks at the stored value of each changed field, which raises ServerCrash when that is
 * invalid itself (observed: recordings/configuration_poisoned, recordings/configuration_oidc). `environment`: has the fields that it pins.
 */
async function castFields(all: Fields, environment: object, stored: Configuration, sent: TermMap) {
  const values = { ...stored };
  const changed = new Set<string>();
  const errors: Record<string, unknown> = {};
  const fields = Object.entries(all);
  for (const [name, field] of fields) {
    const term = sent.get(name);
    if (term === undefined) continue;
    const cast = await field.cast(term, stored[name]);
    if (cast.errors !== undefined) errors[name] = cast.errors;
    else if (cast.changes) values[name] = cast.value;
    if (cast.changes) changed.add(name);
  }
  for (const [name, { problems }] of fields) {
    for (const message of problems(values[name]).toReversed()) addError(errors, name, message);
  }
  for (const [name, { problems, isBroken }] of fields.filter((field) => changed.has(field[0]))) {
    if (name in environment) {
      const variable = name.toUpperCase();
      addError(errors, name, `cannot be changed; it is overridden by ${variable} environment variable`);
    } else if (problems(stored[name]).length > 0 || (await isBroken?.(stored[name])))
      throw new ServerCrash(`stored ${name} is invalid`);
  }
  return { values, changed, errors };
}
