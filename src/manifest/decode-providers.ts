import type { OidcProvider, SamlProvider } from '../model/configuration.ts';
import { makeWarning } from '../model/problem.ts';
import { Secret } from '../model/secret.ts';
import { checkUrl, type Decoding, getPlace, reportAt } from './decoding.ts';
import type { SecretSource } from './manifest.ts';
import { findChild, findScalar, type Node } from './node.ts';

/** Ids that the server keeps for itself (case-sensitive; observed: recordings/configuration_oidc, configuration_saml). */
const reservedIds: ReadonlySet<string> = new Set(['identity', 'saml', 'magic_link']);

/** Decodes a list of providers, each by the function for its protocol. */
export function decodeProviders<T>(
  decoding: Decoding,
  node: Node,
  decode: (decoding: Decoding, item: Node) => T,
): readonly T[] {
  const ids = new Map<string, Node>();
  return (node.type === 'seq' ? node.items : []).map((item) => {
    const id = findScalar(item, 'id');
    const first = ids.get(id?.text ?? '');
    if (id !== undefined && first !== undefined) {
      reportAt(decoding, id, {
        code: 'duplicate-provider',
        summary: 'Two providers of this list have the same id.',
        hint: 'Give each provider an id of its own.',
        related: [{ place: getPlace(decoding, first), note: 'the first one' }],
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
  const node = findScalar(item, field);
  if (node === undefined || node.text.trim() !== '') return;
  reportAt(decoding, node, {
    code: 'blank-field',
    summary: `\`${field}\` is blank.`,
    hint: 'The server refuses a blank value.',
  });
}

export function decodeOidc(decoding: Decoding, item: Node): OidcProvider<SecretSource> {
  const strict = decoding.profile.name === 'firezone-0.7';
  const scope = textOf(item, 'scope') || 'openid email profile';
  const missing = ['openid', 'email'].filter((part) => !scope.includes(part));
  if (strict && missing.length > 0) {
    reportAt(decoding, findChild(item, 'scope') ?? item, {
      code: 'invalid-scope',
      summary: `The scope lacks \`${missing.join('` and `')}\`, which the server requires.`,
      hint: 'Write for example `openid email profile`.',
    });
  }
  const responseType = textOf(item, 'response_type') || 'code';
  if (strict && responseType !== 'code') {
    reportAt(decoding, findChild(item, 'response_type') ?? item, {
      code: 'invalid-response-type',
      summary: 'The server knows only the response type `code`.',
      hint: 'Write `response_type: code`, or leave it out.',
    });
  }
  checkUrl(decoding, item, 'discovery_document_uri');
  if (textOf(item, 'redirect_uri') !== '') checkUrl(decoding, item, 'redirect_uri');
  return {
    id: textOf(item, 'id'),
    label: textOf(item, 'label'),
    scope,
    response_type: responseType,
    client_id: textOf(item, 'client_id'),
    client_secret: secretOf(decoding, item, 'client_secret'),
    discovery_document_uri: textOf(item, 'discovery_document_uri'),
    redirect_uri: textOf(item, 'redirect_uri') || null,
    auto_create_users: findScalar(item, 'auto_create_users')?.value === true,
  };
}

export function decodeSaml(decoding: Decoding, item: Node): SamlProvider<SecretSource> {
  if (textOf(item, 'base_url') !== '') checkUrl(decoding, item, 'base_url');
  const flag = (field: string): boolean | null => {
    const node = findScalar(item, field);
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
    auto_create_users: findScalar(item, 'auto_create_users')?.value === true,
  };
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
  const summary = `The text of \`${field}\` is written in the manifest.`;
  const hint = 'Write `{env: RECONCILE_SECRET_…}` or `{file: path}`, and renew a secret that was committed.';
  decoding.reporter.add(makeWarning('literal-secret', summary, hint), node.start);
  return { from: 'literal', secret: Secret.of(node.type === 'scalar' ? node.text : ''), place };
}
