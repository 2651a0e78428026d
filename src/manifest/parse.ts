import { Composer, type Document, LineCounter } from 'yaml';
import type { Problem } from '../model/problem.ts';
import { convertDocument } from './document.ts';
import { createExcerpts } from './excerpt.ts';
import { createLocator, type Node } from './node.ts';
import { defaultFileWork, mostProblems, type Reading, readTokens, tooDeep, Unread, type Work } from './read-tokens.ts';
import type { Reporter, Unplaced } from './reporter.ts';

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
  /** What reading may cost, and what was spent; without it, `defaultFileWork`. */
  readonly work?: Work;
  /** Most documents, and most empty ones. */
  readonly documents?: number;
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
      // One more than that, and the rest of the file is not read.
      if (problems.length > mostProblems) return;
      const place = locator.place(offset);
      const line = excerpt(place.line, yamlIsBroken);
      problems.push({ ...problem, place, ...(line === undefined ? {} : { excerpt: line }) });
    },
  };
  const { work = { spent: 0, most: defaultFileWork } } = request;
  const reading: Reading = { text: request.text, fields: request.fields, lines, work };
  try {
    const substituted = { characters: 0 };
    const count = { withContent: 0, empty: 0 };
    const { documents = Number.POSITIVE_INFINITY } = request;
    for (const document of composed(reading)) {
      if (++count[document.contents === null ? 'empty' : 'withContent'] > documents) {
        throw new Unread(tooManyDocuments(documents), document.contents?.range[0] ?? document.range[0]);
      }
      yamlIsBroken = document.errors.length > 0;
      const root = convertDocument(document, request.text, { reporter, values: request.values, substituted, work });
      yamlIsBroken = false;
      if (root !== null) request.onDocument({ root }, reporter);
      if (problems.length > mostProblems) throw new Unread(tooManyProblems, document.range[2]);
    }
  } catch (error) {
    if (error instanceof Unread) {
      yamlIsBroken = true; // for all that is known: the line is not shown
      if (problems.length > mostProblems) problems.length = mostProblems;
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

function tooManyDocuments(limit: number): Unplaced {
  return {
    code: 'too-many-documents',
    severity: 'error',
    summary: `This file has more than ${limit} documents; the rest of it was not read.`,
    hint: 'Split it, use RuleSets, or raise the limit in the settings.',
  };
}

/** The documents of a text, with line starts collected in `lines`. */
function composed(reading: Reading): Iterable<Document.Parsed> {
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
  return composer.compose(readTokens(reading), false, reading.text.length);
}
