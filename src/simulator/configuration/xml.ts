/** An element of a parsed document; `name` without its prefix, `namespace` as bound where it stands. */
export interface XmlElement {
  readonly name: string;
  readonly namespace: string | undefined;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: XmlElement[];
  text: string;
}

/** Why a text is not well-formed, in the words of the server's parser. */
export class XmlError extends Error {}

interface Open {
  readonly element: XmlElement;
  readonly qualified: string;
  readonly namespaces: ReadonlyMap<string, string>;
}

/** Parses XML as far as provider metadata needs it; raises XmlError with the server's own description. */
export function parseXml(text: string): XmlElement {
  return new XmlReader(text).document();
}

/** Start tags, the attributes of each, and what makes it an empty element. */
const tagPattern = /<[A-Za-z_][\w.:-]*((?:\s+[\w.:-]+\s*=\s*(?:"[^"]*"|'[^']*'?))*)\s*(\/?>)?/g;

class XmlReader {
  readonly #text: string;
  #at = 0;
  readonly #open: Open[] = [];
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
    if (parent === undefined && run.trim() !== '') {
      this.#at += run.search(/\S/);
      this.#fail(':expected_element_start_tag');
    }
    if (parent !== undefined) parent.element.text += decodeEntities(run);
    this.#at += run.length;
  }

  #cdata(): void {
    const start = this.#at + 9;
    this.#skipTo(']]>');
    const parent = this.#open.at(-1);
    if (parent === undefined) this.#fail(':expected_element_start_tag');
    else parent.element.text += this.#text.slice(start, this.#at - 3);
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
    const { element, namespaces } = makeElement(qualified, attributeText, parent?.namespaces ?? new Map());
    parent?.element.children.push(element);
    this.#root ??= element;
    this.#at += all.length;
    if (empty === '') this.#open.push({ element, qualified, namespaces });
  }

  #brokenTag(): never {
    const rest = this.#text.slice(this.#at);
    const complete = /^<[^<>]*>/.test(rest);
    if (!complete && !/[<]/.test(rest.slice(1))) {
      this.#at = this.#text.length;
      this.#fail(':unexpected_end');
    }
    this.#at += 1;
    this.#fail('{:error, {:wfc_Legal_Character, {:bad_character, 60}}}');
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
  outer: ReadonlyMap<string, string>,
): { element: XmlElement; namespaces: ReadonlyMap<string, string> } {
  const attributes = new Map<string, string>();
  const namespaces = new Map(outer);
  for (const match of attributeText.matchAll(/([\w.:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    const [, name = '', double, single] = match;
    const value = decodeEntities(double ?? single ?? '');
    attributes.set(name, value);
    if (name === 'xmlns') namespaces.set('', value);
    else if (name.startsWith('xmlns:')) namespaces.set(name.slice(6), value);
  }
  const colon = qualified.indexOf(':');
  const namespace = namespaces.get(colon < 0 ? '' : qualified.slice(0, colon));
  return { element: { name: qualified.slice(colon + 1), namespace, attributes, children: [], text: '' }, namespaces };
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function decodeEntities(text: string): string {
  return text.replace(/&(#x[0-9a-fA-F]+|#[0-9]+|\w+);/g, (all, name: string) => {
    if (name.startsWith('#x')) return String.fromCodePoint(Number.parseInt(name.slice(2), 16));
    if (name.startsWith('#')) return String.fromCodePoint(Number(name.slice(1)));
    return entities[name] ?? all;
  });
}

/** A name as the server's language prints an atom. */
function atom(name = ''): string {
  return /^[A-Za-z_]\w*$/.test(name) ? `:${name}` : `:"${name}"`;
}
