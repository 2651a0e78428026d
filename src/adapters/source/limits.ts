import type { Limits } from '../../desired/context.ts';
import { makeError, makeNote, type Problem } from '../../model/problem.ts';

/** A source beyond one of its limits, a directory and a Git tree alike. `setting`: the one that raises it; without, none does. */
export function refuseTooLarge(summary: string, setting?: string): Problem {
  const raise = setting === undefined ? '' : `, or raise ${setting} in the settings file`;
  return makeError('source-too-large', summary, `point PATH (or --git-path) at the manifests only${raise}`);
}

/** A source that goes beyond one of the settings' limits; `path`: where, of those that count within it. */
export function refuseBeyond(limits: Limits, name: 'files' | 'totalBytes' | 'depth' | 'fileBytes', path = ''): Problem {
  const found = {
    files: `there are more than ${limits.files} manifests`,
    totalBytes: `the manifests are larger than ${limits.totalBytes} bytes in all`,
    depth: `${path} lies more than ${limits.depth} directories deep`,
    fileBytes: `${path} is larger than ${limits.fileBytes} bytes`,
  };
  return refuseTooLarge(found[name], `limits.${name}`);
}

/** JSON files that are looked at beside the manifests, and the largest of them in bytes. */
export const mostJson = 10;
export const largestJson = 1_000_000;

export function isJsonPath(path: string): boolean {
  return /^[^.].*\.json$/i.test(path);
}

/** A note on a JSON file that seems to hold rules, by its content or, without it, its name: its writer may think that it is read. */
export function noteJson(path: string, bytes: Uint8Array | null): readonly Problem[] {
  const isLikely =
    bytes === null
      ? /(?:^|[/_.-])(?:rules?|rulesets?|polic(?:y|ies)|firezone|firewall)[_.-]/i.test(path)
      : /"firezone\/v0"|"destination"\s*:/.test(Buffer.from(bytes).toString('latin1'));
  if (!isLikely) return [];
  const summary = 'This file is not read: manifests are YAML files (*.yaml, *.yml).';
  const hint = 'Give it the ending `.yaml` (JSON is YAML), or leave it as it is.';
  return [makeNote('json-not-read', summary, hint, { file: path, line: 1, column: 1 })];
}

/** For a folder without manifests: `; manifests are YAML, so JSON is not read (rules.json)`. */
export function describeJson(json: readonly { readonly path: string }[]): string {
  const names = json.map(({ path }) => path).slice(0, 3);
  return names.length === 0 ? '' : `; manifests are YAML, so JSON is not read (${names.join(', ')})`;
}
