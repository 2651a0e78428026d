import { readFileSync } from 'node:fs';
import { readValues } from '../manifest/values.ts';
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
  try {
    const bytes = readFileSync(path);
    if (bytes.length <= largest) return bytes.toString('utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    throw failure('bad-values', `the values file ${path} cannot be read (${code})`, 'check --values');
  }
  throw failure('bad-values', `the values file ${path} is larger than ${largest} bytes`);
}
