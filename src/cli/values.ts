import { decodeText } from '../manifest/read-manifests.ts';
import { readValues } from '../manifest/values-file.ts';
import { exitCodes } from './exit-code.ts';
import { Failure, makeFailure } from './failure.ts';
import { readNamedFile } from './read-file.ts';
import type { Settings } from './settings.ts';

const largest = 1_000_000;

/** The values for `${name}` from every `--values` file, later files over earlier ones; null without the option. */
export function readGivenValues(settings: Settings): ReadonlyMap<string, string> | null {
  if (settings.values.length === 0) return null;
  const values = new Map<string, string>();
  for (const path of settings.values) {
    const read = readValues(path, readText(path));
    if (read.values === null) throw new Failure(read.problems, exitCodes.invalid);
    for (const [name, value] of read.values) values.set(name, value);
  }
  return values;
}

function readText(path: string): string {
  const name = `the values file ${path}`;
  const text = decodeText(readNamedFile({ path, code: 'bad-values', name, largest, hint: 'check --values' }));
  if (text === null) throw makeFailure('bad-values', `${name} is not UTF-8 text`, 'save it as UTF-8');
  return text;
}
