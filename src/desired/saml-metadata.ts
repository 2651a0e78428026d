/** Why a text is not SAML metadata that the server can read (observed: recordings/configuration_saml). */
export type SamlFault = 'not-xml' | 'not-saml' | 'no-entity-id' | 'bad-certificate';

const tag =
  /<(?:!--[\s\S]*?-->|!\[CDATA\[[\s\S]*?\]\]>|\?[\s\S]*?\?>|!DOCTYPE[^>]*>|(\/?)([A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?)((?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>)/y;

/** Checks that the text is well-formed XML, is SAML metadata, names an entity, and holds readable certificates. */
export function checkSamlMetadata(text: string): SamlFault | null {
  const elements = scan(text);
  if (elements === null) return 'not-xml';
  const root = elements[0];
  if (root === undefined) return 'not-xml';
  if (root.name !== 'EntityDescriptor' && root.name !== 'EntitiesDescriptor') return 'not-saml';
  const entity = elements.find((element) => element.name === 'EntityDescriptor');
  if (entity === undefined) return 'not-saml';
  if (!/\sentityID\s*=\s*(?:"[^"]+"|'[^']+')/.test(entity.attributes)) return 'no-entity-id';
  const certificates = elements.filter((element) => element.name === 'X509Certificate');
  return certificates.every((element) => isDer(element.text)) ? null : 'bad-certificate';
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
  if (lengthBytes > 4) return false;
  const length = lengthBytes === 0 ? bytes[1] : bytes.readUIntBE(2, lengthBytes || 1);
  return bytes.length === 2 + lengthBytes + length;
}
