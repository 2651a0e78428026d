import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readValues } from '../src/manifest/values.ts';
import { build } from './desired/helpers.ts';

const root = new URL('../examples/', import.meta.url);

/** The manifests of an example by path. */
function example(name: string): Readonly<Record<string, string>> {
  const folder = new URL(`${name}/`, root);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.yaml'));
  return Object.fromEntries(files.map((file) => [file, readFileSync(new URL(file, folder), 'utf8')]));
}

function values(file: string): ReadonlyMap<string, string> | null {
  return readValues(file, readFileSync(new URL(file, root), 'utf8')).values;
}

describe('the examples', () => {
  it.each([
    ['minimal', {}],
    ['company', {}],
    ['environments', { overlay: 'staging', values: values('environments/values-staging.yaml') }],
    ['environments', { overlay: 'production', values: values('environments/values-production.yaml') }],
  ])('%s %o have no problem', (name, changes) => {
    const desired = build(example(name), changes);
    expect(desired.problems).toEqual([]);
    expect(desired.state?.rules.length).toBeGreaterThan(0);
    expect(desired.state?.configuration).not.toBeNull();
  });

  it('begin with the line by which editors find the schema', () => {
    for (const name of readdirSync(root)) {
      for (const [file, text] of Object.entries(example(name))) {
        if (file.startsWith('values-')) continue;
        const schema = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text)?.[1] ?? 'none';
        const resolved = new URL(schema, new URL(`${name}/${file}`, root));
        expect(resolved.pathname, file).toBe(new URL('../schemas/manifest.json', root).pathname);
      }
    }
  });
});
