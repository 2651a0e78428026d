import { X509Certificate } from 'node:crypto';
import { castBoolean, castString } from '../cast.ts';
import { ServerCrash } from '../crash.ts';
import { addError, checkUri, makeProvidersField, reservedIds } from './provider.ts';
import { parseXml, type XmlElement, XmlError } from './xml.ts';

/** The server's own address plus `auth/saml`; it loses its port on the way. */
const defaultBaseUrl = 'http://127.0.0.1/auth/saml';

const required = { cast: castString, required: true } as const;
const yes = { cast: castBoolean, default: true } as const;

/** SAML identity providers (observed: recordings/configuration_saml). */
export const samlField = makeProvidersField({
  fields: {
    auto_create_users: { cast: castBoolean, required: true },
    base_url: {
      cast: (term) => (term === null ? { value: defaultBaseUrl } : castString(term)),
      default: defaultBaseUrl,
    },
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
