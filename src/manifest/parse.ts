import { Composer, type Document, LineCounter } from 'yaml';
import type { Problem } from '../model/problem.ts';
import { tooDeep } from './convert.ts';
import { contentOf } from './document.ts';
import { createExcerpts } from './excerpt.ts';
import { createLocator, type Node } from './node.ts';
import type { Reporter } from './reporter.ts';
import { documentTokens, Unread } from './tokens.ts';

/** Problems after which the rest of a file is not read: nobody reads more. */
const mostProblems = 1_000;

/** One YAML document of a file. */
export interface ParsedDocument {
  readonly root: Node;
}

export interface ParseRequest {
  /** Path of the file relative to the manifest root. */
  readonly path: string;
  readonly text: string;
  /** Values for `${name}`; null leaves scalars as they are. */
  readonly values: ReadonlyMap<string, string> | null;
  /** The fields that a document may have at its top; a long document with another is not read to its end. */
  readonly fields?: readonly string[];
  /** Called with each document that has content and no error, in order; documents are not kept. */
  readonly onDocument: (document: ParsedDocument, reporter: Reporter) => void;
}

/**
 * Parses a file's documents one at a time (YAML 1.2, core schema). Invalid YAML, duplicate keys, unknown tags, other YAML
 * versions, `__proto__`, unsafe integers, alias bombs and endless nesting are problems.
 */
export function parseFile(request: ParseRequest): readonly Problem[] {
  const lines = new LineCounter();
  const locator = createLocator(request.path, request.text, lines.lineStarts);
  const excerpt = createExcerpts(request.text, (line) => locator.line(line));
  const problems: Problem[] = [];
  let yamlIsBroken = false;
  const reporter: Reporter = {
    locator,
    problems,
    add(problem, offset) {
      const place = locator.place(offset);
      const line = excerpt(place.line, yamlIsBroken);
      problems.push({ ...problem, place, ...(line === undefined ? {} : { excerpt: line }) });
    },
  };
  try {
    for (const document of composed(request, lines)) {
      yamlIsBroken = document.errors.length > 0;
      const root = contentOf(document, request.text, { reporter, values: request.values });
      yamlIsBroken = false;
      if (root !== null) request.onDocument({ root }, reporter);
      if (problems.length > mostProblems) throw new Unread(tooManyProblems, document.range[2]);
    }
  } catch (error) {
    if (error instanceof Unread) {
      yamlIsBroken = true; // for all that is known: the line is not shown
      reporter.add(error.problem, error.offset);
      return problems;
    }
    // The parser recurses; nesting that exhausts the stack ends here.
    if (!(error instanceof RangeError)) throw error;
    reporter.add(tooDeep, 0);
  }
  return problems;
}

const tooManyProblems = {
  code: 'too-many-problems',
  severity: 'error',
  summary: `More than ${mostProblems.toLocaleString('en')} problems; the rest of the file was not read.`,
  hint: 'Mend the first ones, or move the file out of the directory if it is no manifest.',
} as const;

/** The documents of a text, with line starts collected in `lines`. */
function composed({ text, fields }: ParseRequest, lines: LineCounter): Iterable<Document.Parsed> {
  const composer = new Composer({
    version: '1.2',
    schema: 'core',
    merge: false,
    resolveKnownTags: false,
    // Quadratic in the library; checked below instead.
    uniqueKeys: false,
    stringKeys: true,
    // Pretty errors quote the source.
    prettyErrors: false,
  });
  return composer.compose(documentTokens(text, fields, lines), false, text.length);
}
