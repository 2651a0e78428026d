import { parseNetwork } from '../model/address.ts';
import { type ConfigurationField, type ConfigurationPlaces, configurationFields } from '../model/configuration.ts';
import type { Place } from '../model/problem.ts';
import { describeAddressFault } from './address-faults.ts';
import { decodeOidc, decodeProviders, decodeSaml } from './decode-providers.ts';
import { checkUrl, type Decoding, getPlace, readName, readNetwork, reportAt } from './decoding.ts';
import type { ConfigurationManifest, ConfigurationTemplate } from './manifest.ts';
import { findChild, findScalar, type Node, type ScalarNode } from './node.ts';

/** Decodes a `kind: Configuration` of checked shape. Only fields that are written become managed. */
export function decodeConfiguration(decoding: Decoding, root: Node): ConfigurationManifest {
  const spec = findChild(root, 'spec');
  const fields: Record<string, unknown> = {};
  const places: { -readonly [Name in keyof ConfigurationPlaces]: Place } = {};
  for (const field of configurationFields) {
    const node = findChild(spec, field);
    if (node === undefined) continue;
    fields[field] = decoders[field](decoding, node, field);
    places[field] = getPlace(decoding, node);
    const items = node.type === 'seq' ? node.items : [];
    for (const [index, item] of items.entries()) places[`${field}[${index}]`] = getPlace(decoding, item);
  }
  return { kind: 'Configuration', ...readName(decoding, root), fields: fields as ConfigurationTemplate, places };
}

type Decode = (decoding: Decoding, node: Node, field: ConfigurationField) => unknown;

const asWritten: Decode = (_, node) => (node.type === 'scalar' ? node.value : null);

const decoders: Readonly<Record<ConfigurationField, Decode>> = {
  local_auth_enabled: asWritten,
  openid_connect_providers: (decoding, node) => decodeProviders(decoding, node, decodeOidc),
  saml_identity_providers: (decoding, node) => decodeProviders(decoding, node, decodeSaml),
  disable_vpn_on_oidc_error: asWritten,
  vpn_session_duration: bounded(0, 2_147_483_647),
  allow_unprivileged_device_management: asWritten,
  allow_unprivileged_device_configuration: asWritten,
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
      reportAt(decoding, node, {
        code: 'out-of-bounds',
        summary: `\`${field}\` is out of bounds.`,
        hint: `Write a number from ${low} to ${high}.`,
      });
    }
    return value;
  };
}

/** A list without equal members; equal ones make the server refuse every later change (recordings/configuration_poisoned). */
function distinctList(
  decoding: Decoding,
  node: Node,
  decode: (item: ScalarNode) => string | null,
): readonly string[] | null {
  if (node.type !== 'seq') return null;
  const seen = new Map<string, Node>();
  for (const item of node.items) {
    const text = item.type === 'scalar' ? decode(item) : null;
    if (text === null) continue;
    const first = seen.get(text);
    if (first === undefined) seen.set(text, item);
    else {
      reportAt(decoding, item, {
        code: 'duplicate-member',
        summary: `\`${text}\` is twice in this list; the server would refuse every later change, or lock itself up.`,
        hint: 'Keep one of the two. An address and the same with `/32` or `/128` are equal.',
        related: [{ place: getPlace(decoding, first), note: 'the first one' }],
      });
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
  if (!parsed.ok && (parsed.error === 'octal' || parsed.error === 'short')) {
    decoding.reporter.add(describeAddressFault(parsed.error, text), item.start);
    return null;
  }
  reportAt(decoding, item, {
    code: 'invalid-resolver',
    summary: 'This is neither an IP address nor a host name.',
    hint: 'Write an address or a name (at most 255 characters), without port, mask or brackets.',
  });
  return null;
}

function endpointOf(decoding: Decoding, node: Node): string | null {
  if (node.type !== 'scalar' || node.value === null) return null;
  const text = node.text.trim();
  if (text.length <= 255 && isEndpoint(text)) return text;
  reportAt(decoding, node, {
    code: 'invalid-endpoint',
    summary: 'This is not an endpoint for clients.',
    hint: 'Write a host name or IP address, with or without `:port` (1–65535); IPv6 with a port as `[address]:port`; at most 255 characters.',
  });
  return null;
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
  for (const [name, text] of Object.entries({ data, type })) if (text?.trim() === '') reportBlank(decoding, node, name);
  return (url ?? data ?? type) === null ? null : { url, data, type };
}

/** The server stores an empty text as null, so that it would differ for ever. */
function reportBlank(decoding: Decoding, logo: Node, name: string): void {
  reportAt(decoding, findChild(logo, name) ?? logo, {
    code: 'blank-field',
    summary: `\`logo.${name}\` is empty.`,
    hint: `Write its text, or leave \`${name}\` out. \`logo: null\` means no logo.`,
  });
}
