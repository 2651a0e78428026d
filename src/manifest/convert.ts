import { type Alias, type Document, isAlias, isMap, isScalar, Scalar } from 'yaml';
import { formatCount } from '../model/printable.ts';
import { makeError, relateTo } from '../model/problem.ts';
import { type Entry, isSecretField, type Node, type Reporter, type ScalarNode, type Unplaced } from './node.ts';
import { deepest, describeSpentWork, tooDeep, Unread, type Work } from './read-tokens.ts';
import { resolveScalar, substitute } from './scalar.ts';
import { didYouMean } from './suggest.ts';
import { describeYamlFault, explainSyntaxErrors } from './yaml-faults.ts';

/** Most characters that values may put into one file. */
const mostSubstituted = 20_000_000;
interface Conversion {
  readonly reporter: Reporter;
  readonly values: ReadonlyMap<string, string> | null;
  /** Characters that values put into the file so far. */
  readonly substituted: { characters: number };
  readonly work: Work;
}

/** A parsed document's content as our nodes; null when it has none, or errors, which are reported. `text`: the file's. */
export function convertDocument(document: Document.Parsed, text: string, conversion: Conversion): Node | null {
  const { reporter } = conversion;
  const known = reporter.problems.length;
  const isFaulty = (): boolean => reporter.problems.length > known;
  for (const { problem, offset } of explainSyntaxErrors(document, text)) reporter.add(problem, offset);
  for (const { code, pos } of document.warnings) {
    reporter.add(code === 'TAG_RESOLVE_FAILED' ? unknownTag : describeYamlFault(code), pos[0]);
  }
  const { yaml } = document.directives;
  if (yaml.version !== '1.2') {
    const offset = Math.max(0, (document.contents?.range[0] ?? document.range[0]) - 1);
    const summary = `Manifests are YAML 1.2, and this document says %YAML ${yaml.version}.`;
    reporter.add(makeError('yaml-version', summary, 'Remove the %YAML directive.'), offset);
  }
  if (isFaulty() || document.contents === null) return null;
  const contents = document.contents;
  if (isScalar(contents) && contents.value === null && contents.source === '') return null;
  const root = new Converter(conversion).node(contents, 0, false);
  return isFaulty() ? null : root;
}

type YamlNode = NonNullable<Document.Parsed['contents']>;

/** Turns the parser's nodes of one document into ours; stateful because of anchors and the count of values. */
class Converter {
  readonly #conversion: Conversion;
  readonly #anchors = new Map<string, { readonly node: Node; readonly values: number }>();
  #values = 0;

  constructor(conversion: Conversion) {
    this.#conversion = conversion;
  }

  node(source: YamlNode, depth: number, secret: boolean): Node {
    const [start] = source.range;
    const before = this.#values;
    this.#count(1, start);
    if (depth > deepest) {
      this.#error(tooDeep, start);
      return absent(start);
    }
    if (isAlias(source)) return this.#alias(source.source, start);
    const node = this.#convert(source, depth, secret);
    if (source.anchor !== undefined) this.#anchors.set(source.anchor, { node, values: this.#values - before });
    return node;
  }

  #convert(source: Exclude<YamlNode, Alias.Parsed>, depth: number, secret: boolean): Node {
    const [start] = source.range;
    if (isScalar(source)) return this.#scalar(source, secret);
    if (isMap(source)) return { type: 'map', entries: this.#entries(source.items as never, depth), start };
    const items = (source.items as YamlNode[]).map((item) => this.node(item, depth + 1, false));
    return { type: 'seq', items, start };
  }

  #entries(pairs: readonly { readonly key: Scalar.Parsed; readonly value: YamlNode | null }[], depth: number) {
    const entries: Entry[] = [];
    const seen = new Map<string, number>();
    for (const { key: keyNode, value } of pairs) {
      const key = String(keyNode.value);
      const keyStart = keyNode.range[0];
      const first = seen.get(key);
      if (first !== undefined && depth === 0 && (key === 'apiVersion' || key === 'kind')) {
        this.#error(secondManifest, keyStart);
        break;
      }
      if (first !== undefined) this.#duplicate(key, keyStart, first);
      else if (key === '__proto__') this.#error(forbiddenKey, keyStart);
      else {
        seen.set(key, keyStart);
        const node = value === null ? absent(keyStart) : this.node(value, depth + 1, isSecretField(key));
        if (node.type === 'scalar' && node.value === null && node.text === '' && node.plain) {
          this.#error(emptyField, keyStart);
        }
        entries.push({ key, keyStart, value: node });
      }
    }
    return entries;
  }

  #duplicate(key: string, offset: number, first: number): void {
    const hint = isSecretField(key)
      ? 'Keep one of the two.'
      : 'Keep one of the two, or separate the documents with `---`.';
    const twice = makeError('duplicate-key', 'The same field is written twice.', hint);
    this.#error(relateTo(twice, this.#conversion.reporter.place(first)), offset);
  }

  #alias(name: string, offset: number): Node {
    const anchor = this.#anchors.get(name);
    if (anchor === undefined) {
      this.#error(describeYamlFault('BAD_ALIAS'), offset);
      // Not plain: a field that is written is not empty as well.
      return { ...absent(offset), plain: false };
    }
    this.#count(anchor.values, offset);
    return anchor.node;
  }

  #scalar(source: Scalar.Parsed, secret: boolean): ScalarNode {
    const [start] = source.range;
    const plain = source.type === Scalar.PLAIN;
    // Of a plain text over several lines the source has the line breaks, the value has them folded.
    let text = plain && typeof source.value !== 'string' ? source.source : String(source.value);
    let value = source.value as ScalarNode['value'];
    const { values, substituted: total } = this.#conversion;
    if (values !== null && !secret) {
      const substituted = substitute(text, values, mostSubstituted - total.characters);
      if (total.characters <= mostSubstituted && total.characters + substituted.length > mostSubstituted) {
        this.#error(valuesTooLong, start);
      }
      total.characters += substituted.length;
      if (substituted.malformed !== null) this.#error(malformedReference(substituted.malformed), start);
      else if (substituted.missing !== null) this.#undefinedValue(substituted.missing, start, values);
      else if (substituted.changed) {
        text = substituted.text;
        value = plain ? resolveScalar(text) : text;
      }
    }
    if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) this.#error(unsafeInteger, start);
    return { type: 'scalar', value, text, plain, start };
  }

  #undefinedValue(name: string, offset: number, values: ReadonlyMap<string, string>): void {
    const known = [...values.keys()].slice(0, 10).join(', ');
    const has = known === '' ? '' : ` (it has ${known})`;
    const otherwise = `Add it to the values file${has}, or write \`$\${\` for a literal \`\${\`.`;
    const hint = didYouMean(name, values.keys(), otherwise);
    this.#error(makeError('undefined-value', `There is no value named \`${name}\`.`, hint), offset);
  }

  /** An alias bomb stands for billions of values: it is refused before anything follows its aliases. */
  #count(values: number, offset: number): void {
    const { work } = this.#conversion;
    this.#values += values;
    work.spent += values;
    if (work.spent > work.most) throw new Unread(describeSpentWork(work), offset);
  }

  #error(problem: Unplaced, offset: number): void {
    this.#conversion.reporter.add(problem, offset);
  }
}

function malformedReference(text: string): Unplaced {
  const hint = 'Write letters, digits and `_ . -` between the braces, without spaces; or `$${` for a literal `${`.';
  return makeError('undefined-value', `\`${text}\` is not a value's name.`, hint);
}

const valuesTooLong = makeError(
  'too-expensive',
  `Values put more than ${formatCount(mostSubstituted)} characters into this file.`,
  'Write shorter values, or name them less often.',
);

const secondManifest = makeError('duplicate-key', 'A second manifest begins here.', 'Write `---` above this line.');

const forbiddenKey = makeError('forbidden-key', 'The key `__proto__` is not allowed.', 'Remove it: no kind has it.');

const emptyField = makeError(
  'empty-field',
  'This field has no value.',
  'Write one, or leave the field out. `[]` is an empty list, `null` an empty field where the reference allows it.',
);

const unsafeInteger = makeError('unsafe-integer', 'This number is too large to be exact.', 'Quote it if it is a text.');

const unknownTag = makeError('unknown-tag', 'This YAML tag is not known.', 'Remove it; quote what starts with `!`.');

function absent(offset: number): ScalarNode {
  return { type: 'scalar', value: null, text: '', plain: true, start: offset };
}
