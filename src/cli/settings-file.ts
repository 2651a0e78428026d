import { dirname } from 'node:path';
import * as z from 'zod';
import { addExcerpts } from '../manifest/excerpt.ts';
import { type Entry, findEntry, findNode, type Node, type Reporter, toPlain } from '../manifest/node.ts';
import { parseFile } from '../manifest/parse.ts';
import { suggest } from '../manifest/suggest.ts';
import { compareProblems, type Problem } from '../model/problem.ts';
import { Failure, makeFailure } from './command.ts';
import { readNamedFile } from './read-file.ts';
import { describeWanted, fleetSchema, nestedSchema, type SettingsFile, settingsSchema } from './settings-schema.ts';

const largest = 1_000_000;

/** Reads the operator's settings (YAML); throws a `Failure` with every problem and its place. */
export function readSettingsFile(path: string): SettingsFile {
  const document = readDocument(path, 'settings file', 'check --config or RECONCILE_CONFIG');
  if (document === null) return { path, folder: dirname(path), options: {}, nested: {} };
  const { root, place } = document;
  const given = checkDocument(document, settingsSchema, 'the settings file');
  const nested = nestedSchema.parse(toPlain(root)); // leaves the flags out
  const options = Object.fromEntries(Object.entries(given).filter(([key]) => !(key in nestedSchema.shape)));
  const entries = root.type === 'map' ? root.entries : [];
  const lines = new Map(entries.map(({ key, keyStart }) => [key, place(keyStart).line]));
  return { path, folder: dirname(path), options, nested, lines };
}

export function makeFleetSchema(): object {
  return z.toJSONSchema(fleetSchema, { io: 'input' });
}

/** Reads the operator's list of targets (YAML); throws as `readSettingsFile` does. */
export function readFleetFile(path: string) {
  const document = readDocument(path, 'fleet file', 'check --fleet');
  if (document === null) throw makeFailure('bad-setting', `the fleet file ${path} is empty`, 'write `targets:` in it');
  const { root, place } = document;
  const read = root.type === 'map' ? { ...root, entries: root.entries.map(readAbort) } : root;
  return checkDocument({ root: read, place }, fleetSchema, 'the fleet file');
}

/** The id of a commit may look like a number: 1234567, or 12345e2. */
function readAbort(entry: Entry): Entry {
  const { key, value } = entry;
  return key === 'abort' && value.type === 'scalar' ? { ...entry, value: { ...value, value: value.text } } : entry;
}

type OperatorDocument = Pick<Reporter, 'place'> & { readonly root: Node };

function readDocument(path: string, name: string, hint: string): OperatorDocument | null {
  const documents: OperatorDocument[] = [];
  const bytes = readNamedFile({ path, code: 'bad-setting', name: `the ${name} ${path}`, largest, hint });
  const text = bytes.toString().replace(/^\uFEFF/, '');
  const onDocument = (root: Node, { place }: Reporter) => documents.push({ root, place });
  const problems = parseFile({ path, text, values: null, onDocument });
  if (problems.length > 0) throw new Failure(addExcerpts(problems, () => text));
  if (documents.length > 1) throw makeFailure('bad-setting', `the ${name} ${path} must be one YAML document`);
  return documents[0] ?? null;
}

function checkDocument<T>({ root, place: placeOf }: OperatorDocument, schema: z.ZodType<T>, name: string): T {
  const parsed = schema.safeParse(toPlain(root));
  if (parsed.success) return parsed.data;
  const found = parsed.error.issues.flatMap((issue) => problemsOf(issue, name, schema));
  const problems = found.map(({ path, ...words }): Problem => {
    const key = findEntry(findNode(root, path.slice(0, -1)).node, String(path.at(-1)));
    const place = placeOf(key?.keyStart ?? findNode(root, path).node.start);
    return { code: 'bad-setting', severity: 'error', ...words, place };
  });
  throw new Failure(problems.sort(compareProblems));
}

const types: Readonly<Record<string, string>> = {
  ...{ int: 'a whole number', number: 'a number', boolean: 'true or false', array: 'a list' },
  ...{ string: 'a text (in quotes), or a time with its unit, such as 15s' },
  ...{ object: 'a mapping of names to values', record: 'a mapping of names to values' },
};

type Found = Pick<Problem, 'summary' | 'hint'> & { readonly path: readonly PropertyKey[] };

function problemsOf(issue: z.core.$ZodIssue, name: string, schema: z.ZodType): readonly Found[] {
  const { path, message } = issue;
  const where = path.length === 0 ? name : `\`${path.join('.')}\``;
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(key, path, name, schema));
  if (issue.code === 'invalid_value') return [{ path, summary: `${where} must be one of ${issue.values.join(', ')}` }];
  if (issue.code === 'custom') return [{ path, summary: `${where}: ${message}` }];
  const wanted = describeWanted(path, schema);
  if (issue.code === 'invalid_type') {
    const fault = message.endsWith('undefined') ? 'is missing' : `must be ${wanted ?? types[issue.expected]}`;
    return [{ path, summary: `${where} ${fault}` }];
  }
  const summary = `${where} ${wanted === null ? 'has a value that is not allowed' : `must be ${wanted}`}`;
  return [{ path, summary, hint: describeList(name) }];
}

function describeList(name: string): string {
  return name === 'the fleet file'
    ? '`reconcile schema fleet` prints every member'
    : 'docs/reference/commands.md lists every setting';
}

function unknownKey(key: string, parent: readonly PropertyKey[], name: string, schema: z.ZodType): Found {
  const path = [...parent, key];
  const instead = 'put it in a file of its own and name that with tokenFile';
  if (key === 'token') return { path, summary: `${name} must not hold the token`, hint: instead };
  const near = suggest(key, parent.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : []);
  const hint = near === null ? describeList(name) : `did you mean \`${near}\`?`;
  return { path, summary: `unknown setting \`${path.join('.')}\``, hint };
}
