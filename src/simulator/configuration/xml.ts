/** An element of a parsed document. */
export interface XmlElement {
  /** As it is written. */
  readonly qualified: string;
  /** Without its prefix. */
  readonly name: string;
  /** By prefix, as they are bound here. */
  readonly namespaces: ReadonlyMap<string, string>;
  readonly namespace: string | undefined;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: XmlElement[];
  text: string;
}

/** Why a text is not well-formed, in the words of the server's parser. */
export class XmlError extends Error {}

/** Parses XML as far as provider metadata needs it; raises XmlError with the server's own description. */
export function parseXml(text: string): XmlElement {
  return new XmlReader(text).document();
}

/** Start tags, the attributes of each, and what makes it an empty element. */
const tagPattern = /<[A-Za-z_][\w.:-]*((?:\s+[\w.:-]+\s*=\s*(?:"[^"]*"|'[^']*'?))*)\s*(\/?>)?/g;

class XmlReader {
  readonly #text: string;
  #at = 0;
  readonly #open: XmlElement[] = [];
  #root: XmlElement | undefined;

  constructor(text: string) {
    this.#text = text;
  }

  document(): XmlElement {
    if (/^<\?xml\s/.test(this.#text)) this.#skipTo('?>');
    // What follows the root element is not looked at.
    while (this.#root === undefined || this.#open.length > 0) {
      if (this.#at >= this.#text.length) this.#fail(this.#root ? ':unexpected_end' : ':expected_element_start_tag');
      this.#markup();
    }
    return this.#root;
  }

  #markup(): void {
    if (this.#text[this.#at] !== '<') {
      this.#characters();
    } else if (this.#text.startsWith('<!--', this.#at)) this.#skipTo('-->');
    else if (this.#text.startsWith('<![CDATA[', this.#at)) this.#cdata();
    else if (this.#text.startsWith('<!', this.#at)) this.#skipTo('>');
    else if (this.#text.startsWith('<?', this.#at)) this.#instruction();
    else if (this.#text.startsWith('</', this.#at)) this.#endTag();
    else this.#startTag();
  }

  #characters(): void {
    const end = this.#text.indexOf('<', this.#at);
    const run = this.#text.slice(this.#at, end < 0 ? undefined : end);
    const parent = this.#open.at(-1);
    if (parent !== undefined) parent.text += this.#decode(run);
    else if (run.trim() !== '') {
      this.#at += run.search(/\S/);
      this.#fail(':expected_element_start_tag');
    }
    this.#at += run.length;
  }

  #cdata(): void {
    const start = this.#at + 9;
    this.#skipTo(']]>');
    const parent = this.#open.at(-1);
    if (parent === undefined) this.#fail(':expected_element_start_tag');
    else parent.text += this.#text.slice(start, this.#at - 3);
  }

  #instruction(): void {
    if (/^<\?xml\b/i.test(this.#text.slice(this.#at, this.#at + 6))) {
      this.#at += 5;
      const next = this.#text.slice(this.#at, this.#at + 10).replaceAll("'", "\\'");
      this.#fail(`{:invalid_target_name, '${next}'}`);
    }
    this.#skipTo('?>');
  }

  #startTag(): void {
    const tag = /<([A-Za-z_][\w.:-]*)((?:\s+[A-Za-z_][\w.:-]*\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>/y;
    tag.lastIndex = this.#at;
    const match = tag.exec(this.#text);
    if (match === null) this.#brokenTag();
    const [all, qualified = '', attributeText = '', empty] = match;
    const parent = this.#open.at(-1);
    const element = makeElement(qualified, attributeText, parent?.namespaces, this.#decode);
    parent?.children.push(element);
    this.#root ??= element;
    this.#at += all.length;
    if (empty === '') this.#open.push(element);
  }

  #brokenTag(): never {
    if (!/[<>]/.test(this.#text.slice(this.#at + 1))) {
      this.#at = this.#text.length;
      this.#fail(':unexpected_end');
    }
    this.#at += 1;
    this.#refuse(60);
  }

  /** A text with its references resolved. */
  readonly #decode = (text: string): string =>
    text.replace(/&(#x[0-9a-fA-F]+|#[0-9]+|\w+);/g, (all, name: string) => {
      if (!name.startsWith('#')) return entities.get(name) ?? all;
      const character = Number(name.replace('#x', '0x').replace('#', ''));
      if (character > 0x10_ffff || !xmlCharacter.test(String.fromCodePoint(character))) this.#refuse(character);
      return String.fromCodePoint(character);
    });

  #refuse(character: number): never {
    this.#fail(`{:error, {:wfc_Legal_Character, {:bad_character, ${character}}}}`);
  }

  #endTag(): void {
    const match = /^<\/([A-Za-z_][\w.:-]*)\s*>/.exec(this.#text.slice(this.#at, this.#at + 1_000));
    const opened = this.#open.pop();
    if (match === null) {
      this.#at = this.#text.length;
      this.#fail(':unexpected_end');
    }
    if (match[1] !== opened?.qualified) {
      this.#at += 2;
      this.#fail(`{:endtag_does_not_match, {:was, ${atom(match[1])}, :should_have_been, ${atom(opened?.qualified)}}}`);
    }
    this.#at += match[0].length;
  }

  #skipTo(end: string): void {
    const found = this.#text.indexOf(end, this.#at);
    this.#at = found < 0 ? this.#text.length : found + end.length;
    if (found < 0) this.#fail(':unexpected_end');
  }

  /** How far the server's parser (xmerl) miscounts a line: up for start tags, attributes and read-ahead, down for empty elements. */
  #miscount(line: string, reason: string): number {
    const isAtEnd = this.#at >= this.#text.length;
    const isIndented = /^\s/.test(line) && this.#text.includes('\n');
    let extra = reason === ':expected_element_start_tag' && this.#text !== '' ? 1 : 0;
    for (const { 0: tag, 1: attributes = '', 2: end, index } of line.matchAll(tagPattern)) {
      const count = attributes.split('=').length - 1;
      if (end === '/>') extra--;
      else if (end === '>' && !isIndented) extra += index + tag.length < line.length || !isAtEnd ? 1 : 0;
      else if (end === undefined && count > 0) extra++;
      extra += Math.max(0, count - 1);
    }
    return extra;
  }

  #fail(reason: string): never {
    const before = this.#text.slice(0, this.#at).split('\n');
    const column = 1 + (before.at(-1) ?? '').length + this.#miscount(before.at(-1) ?? '', reason);
    throw new XmlError(
      `{:fatal, {${reason}, {:file, :file_name_unknown}, {:line, ${before.length}}, {:col, ${column}}}}`,
    );
  }
}

function makeElement(
  qualified: string,
  attributeText: string,
  outer: ReadonlyMap<string, string> | undefined,
  decode: (written: string) => string,
): XmlElement {
  const attributes = new Map<string, string>();
  const namespaces = new Map(outer);
  for (const match of attributeText.matchAll(/([\w.:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    const [, name = '', double, single] = match;
    const value = decode(double ?? single ?? '');
    attributes.set(name, value);
    if (name === 'xmlns') namespaces.set('', value);
    else if (name.startsWith('xmlns:')) namespaces.set(name.slice(6), value);
  }
  const colon = qualified.indexOf(':');
  const namespace = namespaces.get(colon < 0 ? '' : qualified.slice(0, colon));
  const name = qualified.slice(colon + 1);
  return { qualified, name, namespaces, namespace, attributes, children: [], text: '' };
}

const entities = new Map(Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }));

const xmlCharacter = /[\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u;

/** A name as the server's language prints an atom. */
function atom(name = ''): string {
  return /^[A-Za-z_]\w*$/.test(name) ? `:${name}` : `:"${name}"`;
}
