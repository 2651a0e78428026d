import { posix } from 'node:path';
import type { ConfigurationManifest, SecretSource } from '../manifest/manifest.ts';
import { decodeText } from '../manifest/read-manifests.ts';
import { type DesiredConfiguration, findSecretHost, mapSecrets, unifyLineEnds } from '../model/configuration.ts';
import { compareText, makeError, makeNote, type Place, type Problem } from '../model/problem.ts';
import { encrypted, reveal, Secret, stillEncrypted } from '../model/secret.ts';
import type { DesiredContext } from './context.ts';
import type { ParsedFiles } from './parse-files.ts';

export interface Resolution {
  readonly context: DesiredContext;
  readonly problems: Problem[];
  /** Files of the source that are no manifests (what manifests name in a Git repository), by path. */
  readonly attachments: ReadonlyMap<string, Uint8Array>;
}

/** The desired Configuration, its secrets resolved as far as they are available here. */
export function buildConfiguration(written: ConfigurationManifest, resolution: Resolution): DesiredConfiguration {
  const { name, place, fields, places } = written;
  const built = mapSecrets(fields, (source, provider) => {
    const path = source.from === 'file' ? pathInSource(source.name, source.place) : null;
    const named = source.from === 'literal' ? undefined : `{${source.from}: ${path ?? source.name}}`;
    const text = reveal(resolve(source, resolution));
    if (text === undefined) return Secret.unknown(named);
    // Editors and `echo` end a file with a line feed that nobody means.
    if ('client_secret' in provider)
      return Secret.of(source.from === 'file' ? text.replace(/\r?\n$/, '') : text, named);
    const fault = checkSamlMetadata(text);
    if (fault !== null) resolution.problems.push(makeError('invalid-saml-metadata', fault, samlHint, source.place));
    return Secret.of(unifyLineEnds(text), named);
  });
  const references = (fields.openid_connect_providers ?? []).flatMap(({ id, client_secret: source, ...provider }) => {
    const host = findSecretHost(provider.discovery_document_uri);
    // A file of the repository itself is no secret of the operator's.
    if (source.from === 'literal' || host === null || attachmentOf(source, resolution) !== null) return [];
    return [{ name: source.name, provider: id, host, place: source.place }];
  });
  return { name, place, fields: built, places, references };
}

/** The secret of a reference; not available here is no problem, not allowed is one. */
function resolve(source: SecretSource, resolution: Resolution): Secret {
  if (source.from === 'literal') return Secret.fromKey(source.key);
  const { context, problems } = resolution;
  const attached = attachmentOf(source, resolution);
  if (attached !== null) return attached;
  const reference = source.from === 'env' ? { env: source.name } : { file: source.name };
  const resolved = context.resolveSecret(reference, source.place);
  if (!resolved.ok) {
    const hint =
      resolved.error === stillEncrypted
        ? 'For example with `git-crypt unlock` or `git lfs pull`.'
        : 'Names start with `RECONCILE_SECRET_` or stand in the settings under `secrets.env`; files lie below the manifest root or in `secrets.dirs`.';
    problems.push(makeError('secret-not-allowed', resolved.error, hint, source.place));
    return Secret.unknown();
  }
  if (!resolved.value.known) {
    const name = source.from === 'env' ? source.name : `file ${source.name}`;
    const hint = 'Its field shows as unknown and is not written. Provide it where changes are applied.';
    problems.push(makeNote('unknown-secret', `The secret \`${name}\` is not available here.`, hint, source.place));
  }
  const text = reveal(resolved.value);
  if (text !== undefined && text.trim() === '') {
    problems.push(makeError('blank-field', 'This secret is blank.', 'The server refuses a blank value.', source.place));
  }
  return resolved.value;
}

/** Files that manifests name relative to themselves (`{file: …}`), by their path from the root; none outside of it. */
export function listReferencedFiles({ manifests }: ParsedFiles): readonly string[] {
  const paths = new Set<string | null>();
  for (const manifest of manifests.flatMap((file) => file.manifests)) {
    if (manifest.kind !== 'Configuration') continue;
    mapSecrets(manifest.fields, (one) => one.from === 'file' && paths.add(pathInSource(one.name, one.place)));
  }
  return [...paths].filter((path) => path !== null).sort(compareText);
}

/** Where in the source a file lies that is named relative to its manifest; null outside of the source. */
function pathInSource(name: string, place: Place): string | null {
  if (posix.isAbsolute(name)) return null;
  const path = posix.join(posix.dirname(place.file), name);
  return path === '..' || path.startsWith('../') ? null : path;
}

/** The file of the source that a manifest names relative to itself; null when the source has no such file. */
function attachmentOf(source: SecretSource, { attachments }: Resolution): Secret | null {
  const path = source.from === 'file' ? pathInSource(source.name, source.place) : null;
  const bytes = path === null ? undefined : attachments.get(path);
  // The resolver says what is wrong with a file that is no text, or encrypted.
  const text = bytes === undefined ? null : decodeText(bytes);
  return text === null || encrypted.test(text) ? null : Secret.of(text);
}

const samlHint = 'Download the metadata document from the identity provider again, byte for byte.';

const tag =
  /<(?:!--[\s\S]*?-->|!\[CDATA\[[\s\S]*?\]\]>|\?[\s\S]*?\?>|!DOCTYPE[^>]*>|(\/?)([A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?)((?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>)/y;

/** Why a text is not SAML metadata that the server can read, a sentence (observed: recordings/configuration_saml). */
export function checkSamlMetadata(text: string): string | null {
  const elements = scan(text) ?? [];
  const [root] = elements;
  if (root === undefined) return 'The SAML metadata is not well-formed XML.';
  const isSaml = root.name === 'EntityDescriptor' || root.name === 'EntitiesDescriptor';
  const entity = isSaml ? elements.find((element) => element.name === 'EntityDescriptor') : undefined;
  if (entity === undefined) return 'The SAML metadata is XML, but no SAML metadata: its root is no EntityDescriptor.';
  if (!/\sentityID\s*=\s*(?:"[^"]+"|'[^']+')/.test(entity.attributes))
    return 'The SAML metadata names no entity (`entityID`).';
  const certificates = elements.filter((element) => element.name === 'X509Certificate');
  const areReadable = certificates.every((element) => isDer(element.text));
  return areReadable ? null : 'A certificate in the SAML metadata cannot be read.';
}

interface Element {
  readonly name: string;
  readonly attributes: string;
  /** Character data directly inside. */
  text: string;
}

/** The elements in order of their start tags; null when the text is not well-formed. */
function scan(text: string): readonly Element[] | null {
  // An XML declaration is allowed only at the very start, and nothing but space around the root.
  if (/\S/.test(text) && !text.startsWith('<') && !/^\s*<(?!\?xml)/.test(text)) return null;
  const elements: Element[] = [];
  const open: { readonly element: Element; readonly name: string }[] = [];
  let position = text.indexOf('<');
  if (position < 0) return null;
  while (position < text.length) {
    tag.lastIndex = position;
    const match = tag.exec(text);
    if (match === null) return null;
    const [, closing, name, attributes = '', selfClosing] = match;
    if (name !== undefined) {
      if (closing === '/') {
        if (open.pop()?.name !== name) return null;
      } else {
        if (open.length === 0 && elements.length > 0) return null;
        const element: Element = { name: name.slice(name.indexOf(':') + 1), attributes, text: '' };
        elements.push(element);
        if (selfClosing !== '/') open.push({ element, name });
      }
    }
    const next = text.indexOf('<', tag.lastIndex);
    const between = text.slice(tag.lastIndex, next < 0 ? text.length : next);
    const inside = open.at(-1);
    if (inside !== undefined) inside.element.text += between;
    else if (/\S/.test(between)) return null;
    if (next < 0) break;
    position = next;
  }
  return open.length === 0 ? elements : null;
}

/** Whether the text is base64 of something that begins like a certificate (a DER sequence). */
function isDer(text: string): boolean {
  const compact = text.replace(/\s+/g, '');
  if (compact === '' || !/^[A-Za-z0-9+/]+={0,2}$/.test(compact) || compact.length % 4 !== 0) return false;
  const bytes = Buffer.from(compact, 'base64');
  if (bytes[0] !== 0x30 || bytes[1] === undefined) return false;
  const lengthBytes = bytes[1] < 0x80 ? 0 : bytes[1] & 0x7f;
  if (lengthBytes > 4 || bytes.length < 2 + lengthBytes) return false;
  const length = lengthBytes === 0 ? bytes[1] : bytes.readUIntBE(2, lengthBytes || 1);
  return bytes.length === 2 + lengthBytes + length;
}
