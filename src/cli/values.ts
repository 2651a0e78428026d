import { readFileSync } from 'node:fs';
import { decodeText } from '../manifest/read-manifests.ts';
import { readValues } from '../manifest/values-file.ts';
import { exitCodes } from './exit-code.ts';
import { Failure, failure } from './failure.ts';
import type { Settings } from './settings.ts';

const largest = 1_000_000;

/** The values for `${name}` from every `--values` file, later files over earlier ones; null without the option. */
export function valuesOf(settings: Settings): ReadonlyMap<string, string> | null {
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
  const bytes = readBytes(path);
  if (bytes.length > largest) throw failure('bad-values', `the values file ${path} is larger than ${largest} bytes`);
  const text = decodeText(bytes);
  if (text === null) throw failure('bad-values', `the values file ${path} is not UTF-8 text`, 'save it as UTF-8');
  return text;
}

function readBytes(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    throw failure('bad-values', `the values file ${path} cannot be read (${code})`, 'check --values');
  }
}
