import { type Document, isScalar } from 'yaml';
import { makeError } from '../model/problem.ts';
import { type Conversion, Converter } from './convert.ts';
import type { Node, Reporter, Unplaced } from './node.ts';
import { tooDeep } from './read-tokens.ts';
import { describeYamlFault, explainSyntaxError } from './yaml-faults.ts';

/** Syntax errors reported for one file; what follows the first few is mostly their echo. */
const mostSyntaxErrors = 5;

/** A parsed document's content as our nodes; null when it has none, or errors, which are reported. `text`: the file's. */
export function convertDocument(document: Document.Parsed, text: string, conversion: Conversion): Node | null {
  const { reporter } = conversion;
  const known = reporter.problems.length;
  const isFaulty = (): boolean => reporter.problems.length > known;
  reportWarnings(document, text, reporter);
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

function reportWarnings(document: Document.Parsed, text: string, reporter: Reporter): void {
  reportErrors(document, text, reporter);
  for (const { code, pos } of document.warnings) {
    const { summary, hint } = describeYamlFault(code);
    reporter.add(code === 'TAG_RESOLVE_FAILED' ? unknownTag : makeError('invalid-yaml', summary, hint), pos[0]);
  }
}

function reportErrors(document: Document.Parsed, text: string, reporter: Reporter): void {
  let found: ReturnType<typeof explainError>[] = [];
  for (const error of document.errors.slice(0, mostSyntaxErrors)) {
    const one = explainError(error, document, text);
    // What stands below its cause follows from it, too.
    if (one.isLast) found = found.filter(({ offset }) => offset < one.offset);
    found.push(one);
    if (one.isLast) break;
  }
  for (const { problem, offset } of found) reporter.add(problem, offset);
}

/** `isLast`: the rest of the document's errors follow from this one. */
function explainError(
  error: Document.Parsed['errors'][number],
  document: Document.Parsed,
  text: string,
): ReturnType<typeof explainSyntaxError> | { problem: Unplaced; offset: number; isLast: true } {
  const [offset] = error.pos;
  if (text.startsWith('${', offset - 1)) return { problem: bareReference, offset: offset - 1, isLast: true };
  if (text.startsWith('{{', offset - 1)) return { problem: template, offset: offset - 1, isLast: true };
  if (error.code === 'RESOURCE_EXHAUSTION') return { problem: tooDeep, offset, isLast: true };
  return explainSyntaxError(error, document, text);
}

const unknownTag = makeError(
  'unknown-tag',
  'This YAML tag (`!…`) is not known here.',
  'Remove the tag; quote a value that starts with `!`.',
);

const template = makeError(
  'invalid-yaml',
  'This is not valid YAML. `{{` is no template here.',
  `Write \`\${name}\` in quotes, and give its value with \`--values FILE\`; or render the templates first.`,
);

const bareReference = makeError(
  'invalid-yaml',
  'This is not valid YAML. Inside `{…}` and `[…]` a brace begins a mapping, after a `$` too.',
  'Put the text with the reference to a value in quotes.',
);
