import { X509Certificate } from 'node:crypto';
import { ServerCrash } from '../crash.ts';
import { parseXml, type XmlElement, XmlError } from './xml.ts';

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
