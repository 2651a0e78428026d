import { type Document, Lexer, type YAMLError } from 'yaml';
import { makeError } from '../model/problem.ts';
import type { Finding, Unplaced, Words } from './node.ts';
import { tooDeep } from './read-tokens.ts';
import { listAllFields } from './schema.ts';

/** What is no YAML, in our own words by the parser's code: its messages may quote the source, and so a secret. */
const sentences: Readonly<Record<string, string>> = {
  BAD_ALIAS: '`*` begins an alias, and nothing above has that anchor.',
  BAD_DIRECTIVE: 'A `%` directive is malformed.',
  BAD_DQ_ESCAPE: 'A backslash in a double-quoted text is not followed by a known escape.',
  BAD_INDENT: 'This line is indented by another number of spaces than the lines that it belongs to.',
  BAD_SCALAR_START: 'A value starts with a character that has a meaning of its own in YAML.',
  BLOCK_AS_IMPLICIT_KEY: 'This value has a second colon.',
  BLOCK_IN_FLOW: 'A comma is missing in this value, or it contains `: `.',
  KEY_OVER_1024_CHARS: 'A key is longer than 1,024 characters.',
  MISSING_CHAR: 'A character is missing: a colon, a comma, or a closing quote or bracket.',
  MULTILINE_IMPLICIT_KEY: 'This line has no colon and a space after its field.',
  NON_STRING_KEY: 'A key is not a simple text.',
  TAB_AS_INDENT: 'This line is indented with a tab.',
};

const hints: Readonly<Record<string, string>> = {
  BAD_ALIAS:
    'Put a text that begins with `*` in quotes. For every address write `0.0.0.0/0`, and `::/0` in a rule for IPv6.',
  BAD_INDENT: 'Indent all fields of one mapping, and all entries of one list, by the same number of spaces.',
  BAD_SCALAR_START: 'Put the value in quotes.',
  BLOCK_IN_FLOW: 'Write a comma between fields; put a value that contains `: ` in quotes.',
  BLOCK_AS_IMPLICIT_KEY: 'Put a value that contains `: ` in quotes, or break the line after the first colon.',
  MULTILINE_IMPLICIT_KEY: 'Write `field: value`.',
  MISSING_CHAR: 'Look for an open quote or bracket at or above this line, or a missing `:` after a key.',
  TAB_AS_INDENT: 'Indent with spaces.',
};

/** The problem of a text that the parser refuses with this code. */
export function describeYamlFault(code: string): Unplaced {
  const summary = sentences[code] ?? 'Something stands where YAML does not allow it.';
  return makeFault({ summary, hint: hints[code] ?? 'Mend the YAML here or just above.' });
}

function makeFault({ summary, hint }: Words): Unplaced {
  return makeError('invalid-yaml', `This is not valid YAML. ${summary}`, hint);
}

/** What is wrong with a text, and where in it. */
interface Cause extends Words {
  readonly at: number;
}

/** Spaces that YAML does not take for one, and marks without width; copied from web pages and chats. */
export const strangeSpace = /[\u00a0\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]/;

/** What to do about such a character in a text; null where there is none. */
export function findStrangeSpace(text: string): Cause | null {
  const at = text.search(strangeSpace);
  if (at < 0) return null;
  const code = text.charCodeAt(at);
  const name = code === 0xa0 ? 'a no-break space' : 'a character that nobody can see';
  return {
    at,
    summary: `There is ${name} (U+${code.toString(16).toUpperCase().padStart(4, '0')}) here, which YAML does not take for a space.`,
    hint: 'Delete it and type a normal space where one belongs.',
  };
}

/** Syntax errors reported for one file; what follows the first few is mostly their echo. */
const mostSyntaxErrors = 5;

/** A document's syntax errors in the writer's terms, each where its cause is; `text`: the file's. */
export function explainSyntaxErrors(document: Document.Parsed, text: string): readonly Finding[] {
  let found: Fault[] = [];
  for (const error of document.errors.slice(0, mostSyntaxErrors)) {
    const one = explainSyntaxError(error, document, text);
    // What stands below its cause follows from it, too.
    if (one.isLast) found = found.filter(({ offset }) => offset < one.offset);
    found.push(one);
    if (one.isLast) break;
  }
  return found;
}

/** `isLast`: what the parser says after it follows from it. */
interface Fault extends Finding {
  readonly isLast: boolean;
}

function explainSyntaxError(error: SyntaxFault, document: Document.Parsed, text: string): Fault {
  const [offset] = error.pos;
  if (text.startsWith('${', offset - 1)) return makeLast(offset - 1, bareReference);
  if (text.startsWith('{{', offset - 1)) return makeLast(offset - 1, template);
  if (error.code === 'RESOURCE_EXHAUSTION') return { problem: tooDeep, offset, isLast: true };
  return findCause(error, document, text);
}

type SyntaxFault = Pick<YAMLError, 'code' | 'pos'>;

function makeLast(offset: number, cause: Words): Fault {
  return { problem: makeFault(cause), offset, isLast: true };
}

function findCause({ code, pos: [offset] }: SyntaxFault, document: Document.Parsed, text: string): Fault {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const line = /^.*/.exec(text.slice(start, start + mostOfLine))?.[0] ?? '';
  const tab = document.errors.find((one) => one.code === 'TAB_AS_INDENT')?.pos[0] ?? -1;
  if (tab >= start && !text.slice(offset, tab).replace('\n', '').includes('\n'))
    return { problem: describeYamlFault('TAB_AS_INDENT'), offset: tab, isLast: true };
  const inLine = /^(?:<{7}|={7}|>{7})(?: |$)/.test(line) ? conflict : findStrangeSpace(line);
  if (inLine !== null) return makeLast(start + inLine.at, inLine);
  const unclosed = unclosedCodes.has(code) ? findUnclosed(text, document.range[0], offset) : null;
  if (unclosed !== null) return makeLast(unclosed.at, unclosed);
  const deeper = code === 'BLOCK_AS_IMPLICIT_KEY' ? findDeeperLine(text.slice(start, start + mostOfLine), line) : null;
  if (deeper !== null) return makeLast(start + deeper.at, deeper);
  return describeLine(code, line, start, offset);
}

/** What is wrong with a line whose brackets and quotes are closed; `start` and `offset`: of the line, and of the fault. */
function describeLine(code: string, line: string, start: number, offset: number): Fault {
  const colon = code === 'MULTILINE_IMPLICIT_KEY' || code === 'MISSING_CHAR' ? explainColon(line) : null;
  if (colon !== null) return { problem: makeFault(colon), offset: start + colon.at, isLast: false };
  const isOutOfLine = outOfLineCodes.has(code) && offset === start && /^ +(?:- |[^\s:]+:(?: |$))/.test(line);
  return { problem: describeYamlFault(isOutOfLine ? 'BAD_INDENT' : code), offset, isLast: isOutOfLine };
}

const bareReference = {
  summary: 'Inside `{…}` and `[…]` a brace begins a mapping, after a `$` too.',
  hint: 'Put the text with the reference to a value in quotes.',
};

const conflict = {
  at: 0,
  summary: 'Git marked a merge conflict here.',
  hint: 'Keep one of the two sides, and delete the lines that begin with `<<<<<<<`, `=======` and `>>>>>>>`.',
};

const template = {
  summary: '`{{` is no template here.',
  hint: `Write \`\${name}\` in quotes, and give its value with \`--values FILE\`; or render the templates first.`,
};

const mostOfLine = 1_000;

/** What the parser says of a line with too many or too few spaces before it, beside BAD_INDENT. */
const outOfLineCodes: ReadonlySet<string> = new Set(['MISSING_CHAR', 'BLOCK_AS_IMPLICIT_KEY']);

const unclosedCodes: ReadonlySet<string> = new Set([
  'BAD_INDENT',
  'MISSING_CHAR',
  'UNEXPECTED_TOKEN',
  'BLOCK_IN_FLOW',
  'BAD_SCALAR_START',
  'BLOCK_AS_IMPLICIT_KEY',
]);

/** The brackets and quotes that are open at an offset of the document that begins at `start`. */
function listOpen(text: string, start: number, offset: number) {
  const open: { readonly at: number; readonly mark: string }[] = [];
  let at = start;
  for (const lexeme of new Lexer().lex(text.slice(start, offset))) {
    // Marks of the lexer itself; a flow collection that it gives up is not closed.
    if (lexeme === '\u0002' || lexeme === '\u001f') continue;
    if (lexeme === '\u0018') break;
    if (lexeme === '{' || lexeme === '[') open.push({ at, mark: lexeme });
    else if (lexeme === '}' || lexeme === ']') open.pop();
    else if (/^(?:"(?:[^"\\]|\\[\s\S])*|'(?:[^']|'')*)$/.test(lexeme)) open.push({ at, mark: lexeme[0] ?? '' });
    at += lexeme.length;
  }
  return open;
}

/** The innermost of them, unless it is closed further on in the same line. */
function findUnclosed(text: string, start: number, offset: number): Cause | null {
  const last = listOpen(text, start, offset).at(-1);
  if (last === undefined) return null;
  const closing = last.mark === '{' ? '}' : last.mark === '[' ? ']' : last.mark;
  const rest = /^.*/.exec(text.slice(offset, offset + mostOfLine))?.[0] ?? '';
  if (closing !== last.mark && rest.includes(closing) && !text.slice(last.at, offset).includes('\n')) return null;
  const what = closing === last.mark ? 'This quote' : `This \`${last.mark}\``;
  return { at: last.at, summary: `${what} is not closed.`, hint: `Write \`${closing}\` where it ends.` };
}

/** The line below `key: value`, with which the text begins, that is indented deeper, so that YAML takes it for more of the value. */
function findDeeperLine(text: string, line: string): Cause | null {
  const [, indent] = /^((?: *- )* *)[^\s#]/.exec(line) ?? [];
  const next = /^[^\n]*(?:\n[ \t]*(?:#[^\n]*)?)*\n( *)[^\s#]/.exec(text);
  if (indent === undefined || next === null || (next[1] ?? '').length <= indent.length) return null;
  return {
    at: next[0].length - 1,
    summary: 'This line is indented deeper than the field above it, which has a value already.',
    hint: `Indent it by ${indent.length} spaces, like the field above.`,
  };
}

/** A known field without its colon, or without the space after that. */
function explainColon(line: string): Cause | null {
  const [, before = '', field = '', rest = ''] =
    /^((?: *- )* *)([A-Za-z_]+)(:(?=\S)|[ \t]+(?=\S)(?!.*:))/.exec(line) ?? [];
  if (!listAllFields().has(field)) return null;
  const hint = `Write \`${field}: \` and then the value.`;
  return rest === ':'
    ? { at: before.length + field.length, summary: `A space is missing after \`${field}:\`.`, hint }
    : { at: before.length, summary: `A colon is missing after \`${field}\`.`, hint };
}
