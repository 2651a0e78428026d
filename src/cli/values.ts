import { readFileSync } from 'node:fs';
import type { Locator, Node } from '../manifest/node.ts';
import { parseFile } from '../manifest/parse.ts';
import type { Problem } from '../model/problem.ts';
import { Failure, failure } from './failure.ts';
import type { Settings } from './settings.ts';

const largest = 1_000_000;

/** The values for `${name}` from every `--values` file, later files over earlier ones; null without the option. */
export function valuesOf(settings: Settings): ReadonlyMap<string, string> | null {
  if (settings.values.length === 0) return null;
  const values = new Map<string, string>();
  for (const path of settings.values) for (const [name, value] of readValues(path)) values.set(name, value);
  return values;
}

function readValues(path: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  const wrong: Problem[] = [];
  const problems = parseFile({
    path,
    text: readText(path),
    values: null,
    onDocument: ({ root }, { locator }) => collect({ root, locator, values, wrong }),
  });
  if (problems.length + wrong.length > 0) throw new Failure([...problems, ...wrong]);
  return values;
}

interface Collection {
  readonly root: Node;
  readonly locator: Locator;
  readonly values: Map<string, string>;
  readonly wrong: Problem[];
}

function collect({ root, locator, values, wrong }: Collection): void {
  const problem = (summary: string, offset: number): void => {
    wrong.push({
      code: 'bad-values',
      severity: 'error',
      summary,
      hint: 'write `name: value`, one a line',
      place: locator.place(offset),
    });
  };
  if (root.type !== 'map') problem('a values file maps names to values', root.start);
  for (const { key, keyStart, value } of root.type === 'map' ? root.entries : []) {
    if (!/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(key)) problem(`\`${key}\` is not a name for a value`, keyStart);
    else if (value.type !== 'scalar' || value.value === null)
      problem(`\`${key}\` must be a text, a number or a boolean`, value.start);
    else values.set(key, value.text);
  }
}

function readText(path: string): string {
  try {
    const bytes = readFileSync(path);
    if (bytes.length <= largest) return bytes.toString('utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    throw failure('bad-values', `the values file ${path} cannot be read (${code})`, 'check --values');
  }
  throw failure('bad-values', `the values file ${path} is larger than ${largest} bytes`);
}
