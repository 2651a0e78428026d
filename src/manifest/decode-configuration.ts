import { parseNetwork } from '../model/address.ts';
import { type ConfigurationField, configurationFields } from '../model/configuration.ts';
import type { Place } from '../model/problem.ts';
import { Secret } from '../model/secret.ts';
import { addressFinding } from './address-faults.ts';
import { type Decoding, nameOf, networkOf, placeOf, report, reportAt } from './decode.ts';
import type {
  ConfigurationManifest,
  ConfigurationTemplate,
  OidcTemplate,
  SamlTemplate,
  SecretSource,
} from './manifest.ts';
import { childOf, type Node, type ScalarNode, scalarOf } from './node.ts';

/** Decodes a `kind: Configuration` of checked shape. Only fields that are written become managed. */
export function decodeConfiguration(decoding: Decoding, root: Node): ConfigurationManifest {
  const spec = childOf(root, 'spec');
  const fields: Record<string, unknown> = {};
  const places: Partial<Record<ConfigurationField, Place>> = {};
  for (const field of configurationFields) {
    const node = childOf(spec, field);
    if (node === undefined) continue;
    fields[field] = decodeField(decoding, field, node);
    places[field] = placeOf(decoding, node);
  }
  return { kind: 'Configuration', ...nameOf(decoding, root), fields: fields as ConfigurationTemplate, places };
}

function decodeField(decoding: Decoding, field: ConfigurationField, node: Node): unknown {
  switch (field) {
    case 'openid_connect_providers':
      return providers(decoding, node, decodeOidc);
    case 'saml_identity_providers':
      return providers(decoding, node, decodeSaml);
    case 'default_client_allowed_ips':
      return distinctList(decoding, node, (item) => routeOf(decoding, item));
    case 'default_client_dns':
      return distinctList(decoding, node, (item) => resolverOf(decoding, item));
    case 'default_client_endpoint':
      return endpointOf(decoding, node);
    case 'vpn_session_duration':
      return bounded(decoding, node, { field, low: 0, high: 2_147_483_647 });
    case 'default_client_mtu':
      return bounded(decoding, node, { field, low: 576, high: 1500 });
    case 'default_client_persistent_keepalive':
      return bounded(decoding, node, { field, low: 0, high: 120 });
    case 'logo':
      return logoOf(decoding, node);
    case 'local_auth_enabled':
    case 'disable_vpn_on_oidc_error':
    case 'allow_unprivileged_device_configuration':
    case 'allow_unprivileged_device_management':
      return node.type === 'scalar' ? node.value : null;
  }
}

/** Bounds are the server's own (observed: recordings/configuration_fields); another server may have others. */
function bounded(
  decoding: Decoding,
  node: Node,
  bounds: { readonly field: string; readonly low: number; readonly high: number },
): number | null {
  if (node.type !== 'scalar' || typeof node.value !== 'number') return null;
  const { value } = node;
  const strict = decoding.profile.name === 'firezone-0.7';
  if (strict && (value < bounds.low || value > bounds.high)) {
    reportAt(decoding, node, {
      code: 'out-of-bounds',
      summary: `\`${bounds.field}\` is out of bounds.`,
      hint: `Write a number from ${bounds.low} to ${bounds.high}.`,
    });
  }
  return value;
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
        summary: `\`${text}\` stands twice in this list; the server would refuse every later change, or lock itself up.`,
        hint: 'Keep one of the two. An address and the same with `/32` or `/128` are equal.',
        related: [{ place: placeOf(decoding, first), note: 'the first one' }],
      });
    }
  }
  return [...seen.keys()];
}

/** Canonical spelling with host bits kept, as the server stores it (observed: recordings/configuration_fields). */
function routeOf(decoding: Decoding, item: ScalarNode): string | null {
  const network = networkOf(decoding, item);
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
    report(decoding, addressFinding(parsed.error, item.start));
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
    summary: 'This is no endpoint for clients.',
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
  const part = (name: string): string | null => scalarOf(node, name)?.text ?? null;
  const isNull = (name: string): boolean => scalarOf(node, name)?.value === null;
  const [url, data, type] = ['url', 'data', 'type'].map((name) => (isNull(name) ? null : part(name)));
  if (url !== null && url !== undefined && !isHttpUrl(url)) {
    reportAt(decoding, childOf(node, 'url') ?? node, badUrl('url'));
  }
  if ((url ?? data ?? type ?? null) === null) return null;
  return { url: url ?? null, data: data ?? null, type: type ?? null };
}

function badUrl(field: string): { readonly code: string; readonly summary: string; readonly hint: string } {
  return {
    code: 'invalid-url',
    summary: `\`${field}\` is not an absolute http or https URL.`,
    hint: 'Write it whole, such as `https://vpn.example.com/path`, without spaces.',
  };
}

function isHttpUrl(text: string): boolean {
  return /^https?:\/\/[^\s/]\S*$/i.test(text) && URL.canParse(text);
}

/** Ids that the server keeps for itself (case-sensitive; observed: recordings/configuration_oidc, configuration_saml). */
const reservedIds: ReadonlySet<string> = new Set(['identity', 'saml', 'magic_link']);

function providers<T>(decoding: Decoding, node: Node, decode: (decoding: Decoding, item: Node) => T): readonly T[] {
  const ids = new Map<string, Node>();
  return (node.type === 'seq' ? node.items : []).map((item) => {
    const id = scalarOf(item, 'id');
    const first = ids.get(id?.text ?? '');
    if (id !== undefined && first !== undefined) {
      reportAt(decoding, id, {
        code: 'duplicate-provider',
        summary: 'Two providers of this list have the same id.',
        hint: 'Give each provider an id of its own.',
        related: [{ place: placeOf(decoding, first), note: 'the first one' }],
      });
    }
    if (id !== undefined) ids.set(id.text, id);
    if (id !== undefined && reservedIds.has(id.text) && decoding.profile.name === 'firezone-0.7') {
      reportAt(decoding, id, {
        code: 'reserved-id',
        summary: `The provider id \`${id.text}\` is reserved by the server.`,
        hint: 'Choose another one.',
      });
    }
    for (const field of ['id', 'label', 'client_id']) notBlank(decoding, item, field);
    return decode(decoding, item);
  });
}

function notBlank(decoding: Decoding, item: Node, field: string): void {
  const node = scalarOf(item, field);
  if (node === undefined || node.text.trim() !== '') return;
  reportAt(decoding, node, {
    code: 'blank-field',
    summary: `\`${field}\` is blank.`,
    hint: 'The server refuses a blank value.',
  });
}

function decodeOidc(decoding: Decoding, item: Node): OidcTemplate {
  const strict = decoding.profile.name === 'firezone-0.7';
  const scope = textOf(item, 'scope') || 'openid email profile';
  const missing = ['openid', 'email'].filter((part) => !scope.includes(part));
  if (strict && missing.length > 0) {
    reportAt(decoding, childOf(item, 'scope') ?? item, {
      code: 'invalid-scope',
      summary: `The scope lacks \`${missing.join('` and `')}\`, which the server requires.`,
      hint: 'Write for example `openid email profile`.',
    });
  }
  const responseType = textOf(item, 'response_type') || 'code';
  if (strict && responseType !== 'code') {
    reportAt(decoding, childOf(item, 'response_type') ?? item, {
      code: 'invalid-response-type',
      summary: 'The server knows only the response type `code`.',
      hint: 'Write `response_type: code`, or leave it out.',
    });
  }
  checkUrl(decoding, item, 'discovery_document_uri', false);
  checkUrl(decoding, item, 'redirect_uri', true);
  return {
    id: textOf(item, 'id'),
    label: textOf(item, 'label'),
    scope,
    response_type: responseType,
    client_id: textOf(item, 'client_id'),
    client_secret: secretOf(decoding, item, 'client_secret'),
    discovery_document_uri: textOf(item, 'discovery_document_uri'),
    redirect_uri: textOf(item, 'redirect_uri') || null,
    auto_create_users: scalarOf(item, 'auto_create_users')?.value === true,
  };
}

function decodeSaml(decoding: Decoding, item: Node): SamlTemplate {
  checkUrl(decoding, item, 'base_url', true);
  const flag = (field: string): boolean | null => {
    const node = scalarOf(item, field);
    return node === undefined ? true : (node.value as boolean | null);
  };
  return {
    id: textOf(item, 'id'),
    label: textOf(item, 'label'),
    base_url: textOf(item, 'base_url') || null,
    metadata: secretOf(decoding, item, 'metadata'),
    sign_requests: flag('sign_requests'),
    sign_metadata: flag('sign_metadata'),
    signed_assertion_in_resp: flag('signed_assertion_in_resp'),
    signed_envelopes_in_resp: flag('signed_envelopes_in_resp'),
    auto_create_users: scalarOf(item, 'auto_create_users')?.value === true,
  };
}

function textOf(item: Node, field: string): string {
  const node = scalarOf(item, field);
  return node === undefined || node.value === null ? '' : node.text;
}

function checkUrl(decoding: Decoding, item: Node, field: string, optional: boolean): void {
  const node = childOf(item, field);
  const text = textOf(item, field);
  if (node === undefined || (optional && text === '') || isHttpUrl(text)) return;
  reportAt(decoding, node, badUrl(field));
}

function secretOf(decoding: Decoding, item: Node, field: 'client_secret' | 'metadata'): SecretSource {
  const node = childOf(item, field) ?? item;
  const place = placeOf(decoding, node);
  const env = scalarOf(node, 'env');
  if (env !== undefined) return { from: 'env', name: env.text, place };
  const file = scalarOf(node, 'file');
  if (file !== undefined) return { from: 'file', name: file.text, place };
  notBlank(decoding, item, field);
  decoding.reporter.add(
    {
      code: 'literal-secret',
      severity: 'warning',
      summary: `The text of \`${field}\` stands in the manifest.`,
      hint: 'Write `{env: RECONCILE_SECRET_…}` or `{file: path}`, and renew a secret that was committed.',
    },
    node.start,
  );
  return { from: 'literal', secret: Secret.of(node.type === 'scalar' ? node.text : ''), place };
}
