import { parseNetwork } from '../model/address.ts';
import { type ConfigurationField, type ConfigurationPlaces, configurationFields } from '../model/configuration.ts';
import { makeError, makeWarning, type Place, relateTo } from '../model/problem.ts';
import { Secret } from '../model/secret.ts';
import { describeAddressFault } from './address-faults.ts';
import { checkUrl, type Decoding, getPlace, readName, readNetwork, reportAt } from './decoding.ts';
import type { ConfigurationManifest, ConfigurationTemplate, SecretSource } from './manifest.ts';
import { findChild, findScalar, type Node, type ScalarNode } from './node.ts';
import { oidcProvider, samlProvider } from './schema.ts';
import type { Shape } from './shape.ts';

/** Decodes a `kind: Configuration` of checked shape. Only fields that are written become managed. */
export function decodeConfiguration(decoding: Decoding, root: Node): ConfigurationManifest {
  const spec = findChild(root, 'spec');
  const fields: Record<string, unknown> = {};
  const places: { -readonly [Name in keyof ConfigurationPlaces]: Place } = {};
  for (const field of configurationFields) {
    const node = findChild(spec, field);
    if (node === undefined) continue;
    const decode = decoders[field] ?? (() => (node.type === 'scalar' ? node.value : null));
    fields[field] = decode(decoding, node, field);
    places[field] = getPlace(decoding, node);
    const items = node.type === 'seq' ? node.items : [];
    for (const [index, item] of items.entries()) places[`${field}[${index}]`] = getPlace(decoding, item);
  }
  return { kind: 'Configuration', ...readName(decoding, root), fields: fields as ConfigurationTemplate, places };
}

type Decode = (decoding: Decoding, node: Node, field: ConfigurationField) => unknown;

/** Of fields that are more than `null`, `true` or `false`. */
const decoders: Partial<Readonly<Record<ConfigurationField, Decode>>> = {
  openid_connect_providers: providersOf(oidcProvider),
  saml_identity_providers: providersOf(samlProvider),
  vpn_session_duration: bounded(0, 2_147_483_647),
  default_client_allowed_ips: (decoding, node) => distinctList(decoding, node, (item) => routeOf(decoding, item)),
  default_client_dns: (decoding, node) => distinctList(decoding, node, (item) => resolverOf(decoding, item)),
  default_client_endpoint: endpointOf,
  default_client_mtu: bounded(576, 1500),
  default_client_persistent_keepalive: bounded(0, 120),
  logo: logoOf,
};

/** Bounds are the server's own (observed: recordings/configuration_fields); another server may have others. */
function bounded(low: number, high: number): Decode {
  return (decoding, node, field) => {
    if (node.type !== 'scalar' || typeof node.value !== 'number') return null;
    const { value } = node;
    if (decoding.profile.name === 'firezone-0.7' && (value < low || value > high)) {
      const hint = `Write a number from ${low} to ${high}.`;
      reportAt(decoding, node, makeError('out-of-bounds', `\`${field}\` is out of bounds.`, hint));
    }
    return value;
  };
}

/** A list without equal members; equal ones make the server refuse every later change (recordings/configuration_poisoned). */
function distinctList(decoding: Decoding, node: Node, decode: (item: ScalarNode) => string | null) {
  if (node.type !== 'seq') return null;
  const seen = new Map<string, Node>();
  for (const item of node.items) {
    const text = item.type === 'scalar' ? decode(item) : null;
    if (text === null) continue;
    const first = seen.get(text);
    if (first === undefined) seen.set(text, item);
    else {
      const summary = `\`${text}\` is twice in this list; the server would refuse every later change, or lock itself up.`;
      const hint = 'Keep one of the two. An address and the same with `/32` or `/128` are equal.';
      reportAt(decoding, item, relateTo(makeError('duplicate-member', summary, hint), getPlace(decoding, first)));
    }
  }
  return [...seen.keys()];
}

/** Canonical spelling with host bits kept, as the server stores it (observed: recordings/configuration_fields). */
function routeOf(decoding: Decoding, item: ScalarNode): string | null {
  const network = readNetwork(decoding, item);
  if (network === null) return null;
  const [address = ''] = item.text.trim().split('/');
  const host = parseNetwork(address);
  const hasMask = network.text.includes('/');
  return host.ok && hasMask ? `${host.value.network.text}/${network.prefix}` : network.text;
}

const hostName = /^[A-Za-z0-9._-]+$/;

function resolverOf(decoding: Decoding, item: ScalarNode): string | null {
  const text = item.text.trim();
  const parsed = parseNetwork(text);
  if (parsed.ok && !text.includes('/')) return parsed.value.network.text;
  const looksNumeric = /^[0-9.]+$/.test(text);
  if (hostName.test(text) && !looksNumeric && text.length <= 255) return text;
  if (!parsed.ok && (parsed.error === 'octal' || parsed.error === 'short'))
    return reportAt(decoding, item, describeAddressFault(parsed.error, text));
  const summary = 'This is neither an IP address nor a host name.';
  const hint = 'Write an address or a name (at most 255 characters), without port, mask or brackets.';
  return reportAt(decoding, item, makeError('invalid-resolver', summary, hint));
}

function endpointOf(decoding: Decoding, node: Node): string | null {
  if (node.type !== 'scalar' || node.value === null) return null;
  const text = node.text.trim();
  if (text.length <= 255 && isEndpoint(text)) return text;
  const summary = 'This is not an endpoint for clients.';
  const hint =
    'Write a host name or IP address, with or without `:port` (1–65535); IPv6 with a port as `[address]:port`; at most 255 characters.';
  return reportAt(decoding, node, makeError('invalid-endpoint', summary, hint));
}

function isEndpoint(text: string): boolean {
  const bracketed = /^\[([^\]]*)\]:([0-9]{1,5})$/.exec(text);
  if (bracketed !== null) return isAddress(bracketed[1] ?? '', 6) && isPort(bracketed[2] ?? '');
  if (isAddress(text, 6)) return true;
  const [host, port, ...more] = text.split(':');
  if (more.length > 0 || host === undefined || (port !== undefined && !isPort(port))) return false;
  // Digits and dots alone mean an address; the server would store `256.1.1.1` as a name.
  return /^[0-9.]+$/.test(host) ? isAddress(host, 4) : hostName.test(host) && /[A-Za-z0-9]/.test(host);
}

function isAddress(text: string, family: 4 | 6): boolean {
  const parsed = parseNetwork(text);
  return parsed.ok && parsed.value.network.family === family && !text.includes('/');
}

function isPort(text: string): boolean {
  return /^[0-9]{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65535;
}

function logoOf(decoding: Decoding, node: Node): unknown {
  if (node.type !== 'map') return null;
  const [url = null, data = null, type = null] = ['url', 'data', 'type'].map((name) => {
    const part = findScalar(node, name);
    return part === undefined || part.value === null ? null : part.text;
  });
  if (url !== null) checkUrl(decoding, node, 'url');
  for (const [name, text] of Object.entries({ data, type })) {
    if (text?.trim() !== '') continue;
    // The server stores an empty text as null, so that it would differ for ever.
    const hint = `Write its text, or leave \`${name}\` out. \`logo: null\` means no logo.`;
    reportAt(decoding, findChild(node, name) ?? node, makeError('blank-field', `\`logo.${name}\` is empty.`, hint));
  }
  return (url ?? data ?? type) === null ? null : { url, data, type };
}

/** Ids that the server keeps for itself (case-sensitive; observed: recordings/configuration_oidc, configuration_saml). */
const reservedIds: ReadonlySet<string> = new Set(['identity', 'saml', 'magic_link']);

/** Decodes a list of providers: each field as it is written, or with its default where it is left out or empty. */
function providersOf({ properties = {} }: Shape): Decode {
  return (decoding, node) => {
    const ids = new Map<string, Node>();
    return (node.type === 'seq' ? node.items : []).map((item) => {
      checkId(decoding, findScalar(item, 'id'), ids);
      for (const field of ['id', 'label', 'client_id']) notBlank(decoding, item, field);
      const members = Object.entries(properties).map(([name, shape]) => [name, memberOf(decoding, item, name, shape)]);
      return Object.fromEntries(members);
    });
  };
}

function memberOf(decoding: Decoding, item: Node, name: string, shape: Shape): unknown {
  if (name === 'client_secret' || name === 'metadata') return secretOf(decoding, item, name);
  if (textOf(item, name) !== '' || name === 'discovery_document_uri') memberChecks[name]?.(decoding, item, name);
  const value = findScalar(item, name)?.value;
  return value === undefined || value === '' ? shape.default : value;
}

const memberChecks: Readonly<Record<string, (decoding: Decoding, item: Node, name: string) => void>> = {
  scope: checkScope,
  response_type: checkResponseType,
  discovery_document_uri: checkUrl,
  redirect_uri: checkUrl,
  base_url: checkUrl,
};

function checkId(decoding: Decoding, id: ScalarNode | undefined, ids: Map<string, Node>): void {
  if (id === undefined) return;
  const first = ids.get(id.text);
  if (first !== undefined) {
    const summary = 'Two providers of this list have the same id.';
    const hint = 'Give each provider an id of its own.';
    reportAt(decoding, id, relateTo(makeError('duplicate-provider', summary, hint), getPlace(decoding, first)));
  }
  ids.set(id.text, id);
  if (!reservedIds.has(id.text) || decoding.profile.name !== 'firezone-0.7') return;
  const summary = `The provider id \`${id.text}\` is reserved by the server.`;
  reportAt(decoding, id, makeError('reserved-id', summary, 'Choose another one.'));
}

function notBlank(decoding: Decoding, item: Node, field: string): void {
  const node = findScalar(item, field);
  if (node === undefined || node.text.trim() !== '') return;
  const hint = 'The server refuses a blank value.';
  reportAt(decoding, node, makeError('blank-field', `\`${field}\` is blank.`, hint));
}

function checkScope(decoding: Decoding, item: Node): void {
  const missing = ['openid', 'email'].filter((part) => !textOf(item, 'scope').includes(part));
  if (decoding.profile.name !== 'firezone-0.7' || missing.length === 0) return;
  const summary = `The scope lacks \`${missing.join('` and `')}\`, which the server requires.`;
  const hint = 'Write for example `openid email profile`.';
  reportAt(decoding, findChild(item, 'scope') ?? item, makeError('invalid-scope', summary, hint));
}

function checkResponseType(decoding: Decoding, item: Node): void {
  if (decoding.profile.name !== 'firezone-0.7' || textOf(item, 'response_type') === 'code') return;
  const summary = 'The server knows only the response type `code`.';
  const hint = 'Write `response_type: code`, or leave it out.';
  reportAt(decoding, findChild(item, 'response_type') ?? item, makeError('invalid-response-type', summary, hint));
}

function textOf(item: Node, field: string): string {
  const node = findScalar(item, field);
  return node === undefined || node.value === null ? '' : node.text;
}

function secretOf(decoding: Decoding, item: Node, field: 'client_secret' | 'metadata'): SecretSource {
  const node = findChild(item, field) ?? item;
  const place = getPlace(decoding, node);
  const env = findScalar(node, 'env');
  if (env !== undefined) return { from: 'env', name: env.text, place };
  const file = findScalar(node, 'file');
  if (file !== undefined) return { from: 'file', name: file.text, place };
  notBlank(decoding, item, field);
  const hint = 'Write `{env: RECONCILE_SECRET_…}` or `{file: path}`, and renew a secret that was committed.';
  reportAt(decoding, node, makeWarning('literal-secret', `The text of \`${field}\` is written in the manifest.`, hint));
  return { from: 'literal', key: Secret.of(node.type === 'scalar' ? node.text : '').toKey(), place };
}
