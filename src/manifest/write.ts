import { apiVersion, isList, type Kind } from './manifest.ts';

/** A value to be written as YAML. */
export type Yaml =
  | string
  | number
  | boolean
  | null
  | readonly Yaml[]
  | { readonly [key: string]: Yaml | undefined }
  | Flow;

/** Written on one line: `[a, b]` or `{file: x}`. */
export class Flow {
  readonly value: readonly Yaml[] | { readonly [key: string]: Yaml };

  constructor(value: readonly Yaml[] | { readonly [key: string]: Yaml }) {
    this.value = value;
  }
}

/** Words that a YAML 1.1 reader takes for something else than text. */
const words = /^(?:y|n|yes|no|on|off|true|false|null|~|\.inf|\.nan|=|<<)$/i;

/** A text as a scalar that readers of YAML 1.2 and 1.1 take for the same text: plain where nothing else can be seen in it. */
export function quoteYaml(text: string): string {
  const plain = /^[A-Za-z0-9][A-Za-z0-9 ._@/+-]*$/.test(text) && !/ $| #/.test(text) && !words.test(text);
  const numeric = /^[0-9._+eExXoObBa-fA-F]+$/.test(text) && !/^[0-9]+(?:\.[0-9]+){3}$/.test(text);
  const date = /^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}/.test(text);
  return plain && !numeric && !date && text.length <= 200 ? text : quoted(text);
}

/** YAML's own escapes of control characters for which JSON has none. */
const shortEscapes: Readonly<Record<string, string>> = { '00': '0', '07': 'a', '0b': 'v', '1b': 'e' };

/** JSON's escapes are YAML's, which has shorter ones that `fmt` writes; what nobody can see is escaped too. */
function quoted(text: string): string {
  const json = JSON.stringify(text).replace(/\\(?:\\|u00([01][0-9a-f]))/g, (sequence, code: string | undefined) =>
    code === undefined ? sequence : `\\${shortEscapes[code] ?? `x${code}`}`,
  );
  return escapeUnseen(json);
}

/** What YAML calls not printable, line ends of YAML 1.1, marks without width, and what turns the direction of text. */
export const unseen = /[\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]/g;

/** A double-quoted text with the characters that nobody can see as escapes. */
export function escapeUnseen(doubleQuoted: string): string {
  return doubleQuoted.replace(unseen, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Writes a manifest in block style, ending with a line feed. Members that are undefined are left out. */
export function writeManifest(kind: Kind, metadata: Flow['value'], spec: Yaml): string {
  return `${block({ apiVersion, kind, metadata: new Flow(metadata), spec }, '').replace(/^\n/, '')}\n`;
}

/** The value as it stands after `key:` or `-`: with a leading space on the same line, or on lines of its own. */
function block(value: Yaml, indent: string): string {
  if (value instanceof Flow || value === null || typeof value !== 'object') return ` ${inline(value)}`;
  if (isList(value)) {
    if (value.length === 0) return ' []';
    return value.map((item) => `\n${indent}- ${block(item, `${indent}  `).replace(/^\s+/, '')}`).join('');
  }
  const members = membersOf(value);
  if (members.length === 0) return ' {}';
  return members.map(([key, member]) => `\n${indent}${quoteYaml(key)}:${block(member, `${indent}  `)}`).join('');
}

function membersOf(value: { readonly [key: string]: Yaml | undefined }): readonly (readonly [string, Yaml])[] {
  return Object.entries(value).flatMap(([key, member]) => (member === undefined ? [] : [[key, member] as const]));
}

function inline(value: Yaml): string {
  if (typeof value === 'string') return quoteYaml(value);
  if (value instanceof Flow) return inline(value.value);
  if (value === null || typeof value !== 'object') return String(value);
  if (isList(value)) return `[${value.map(inline).join(', ')}]`;
  const members = membersOf(value).map(([key, member]) => `${quoteYaml(key)}: ${inline(member)}`);
  return `{${members.join(', ')}}`;
}
