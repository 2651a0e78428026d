import { Composer } from 'yaml';
import { findFirstPosition } from '../model/group-by.ts';
import { formatCount } from '../model/printable.ts';
import { makeError, type Problem } from '../model/problem.ts';
import { convertDocument } from './convert.ts';
import type { Node, Reporter } from './node.ts';
import { readPlain } from './read-plain.ts';
import { defaultFileWork, mostProblems, readTokens, tooDeep, Unread, type Work } from './read-tokens.ts';

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
  readonly onDocument: (root: Node, reporter: Reporter) => void;
}

/** Parses a file's documents one at a time (YAML 1.2, core schema); whatever is no plain, finite YAML is a problem. */
export function parseFile(request: ParseRequest): readonly Problem[] {
  const { path, text } = request;
  const problems: Problem[] = [];
  /** Where lines begin, as far as places were asked for, and the line feed before the next. */
  const lineStarts = [0];
  let feed = text.indexOf('\n');
  const reporter: Reporter = {
    problems,
    place(offset) {
      for (; feed >= 0 && feed < offset; feed = text.indexOf('\n', feed + 1)) lineStarts.push(feed + 1);
      const line = findFirstPosition(lineStarts.length, (at) => (lineStarts[at] ?? 0) > offset);
      return { file: path, line, column: offset - (lineStarts[line - 1] ?? 0) + 1 };
    },
    add(problem, offset) {
      // One more than that, and the rest of the file is not read.
      if (problems.length <= mostProblems) problems.push({ ...problem, place: reporter.place(offset) });
    },
  };
  try {
    for (const { root, end } of readDocuments(request, reporter)) {
      if (root !== null) request.onDocument(root, reporter);
      if (problems.length > mostProblems) throw new Unread(tooManyProblems, end);
    }
  } catch (error) {
    // The parser recurses; nesting that exhausts the stack ends here.
    if (error instanceof RangeError) reporter.add(tooDeep, 0);
    else if (!(error instanceof Unread)) throw error;
    else {
      if (problems.length > mostProblems) problems.length = mostProblems;
      reporter.add(error.problem, error.offset);
    }
  }
  return problems;
}

function* readDocuments(request: ParseRequest, reporter: Reporter) {
  const { text, fields, values, documents = Number.POSITIVE_INFINITY } = request;
  const work = request.work ?? { spent: 0, most: defaultFileWork };
  const hasNames = values !== null && text.includes('${');
  const plain = hasNames ? null : readPlain({ text, fields, documents, work });
  if (plain !== null) return yield* plain;
  const conversion = { reporter, values, substituted: { characters: 0 }, work };
  const count = { withContent: 0, empty: 0 };
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
  for (const document of composer.compose(readTokens({ text, fields, work }), false, text.length)) {
    if (++count[document.contents === null ? 'empty' : 'withContent'] > documents) {
      const summary = `This file has more than ${documents} documents; the rest of it was not read.`;
      const hint = 'Split it, use RuleSets, or raise the limit in the settings.';
      const problem = makeError('too-many-documents', summary, hint);
      throw new Unread(problem, document.contents?.range[0] ?? document.range[0]);
    }
    yield { root: convertDocument(document, text, conversion), end: document.range[2] };
  }
}

const tooManyProblems = makeError(
  'too-many-problems',
  `More than ${formatCount(mostProblems)} problems; the rest of the file was not read.`,
  'Mend the first ones, or move the file out of the directory if it is not a manifest.',
);
