import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { applySuppressions } from '../../src/manifest/suppressions.ts';
import { readValues } from '../../src/manifest/values-file.ts';
import { lint } from '../../src/policy/lint/lint.ts';
import { runPolicyTests } from '../../src/policy/tests.ts';
import { build } from '../desired/helpers.ts';

const root = new URL('../../examples/', import.meta.url);

function built(name: string, overlay?: string) {
  const folder = new URL(`${name}/`, root);
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.yaml'));
  const files = Object.fromEntries(names.map((file) => [file, readFileSync(new URL(file, folder), 'utf8')]));
  if (overlay === undefined) return build(files);
  const text = readFileSync(new URL(`values-${overlay}.yaml`, folder), 'utf8');
  return build(files, { overlay, values: readValues('values.yaml', text).values });
}

describe('the examples', () => {
  it.each([
    ['minimal', undefined],
    ['company', undefined],
    ['environments', 'staging'],
    ['environments', 'production'],
  ])('%s %s please the lint', (name, overlay) => {
    const { state, suppressions } = built(name, overlay);
    if (state === null) throw new Error('no desired state');
    expect(applySuppressions(lint(state), suppressions)).toEqual([]);
  });

  it('company passes its policy tests', () => {
    const { state } = built('company');
    const results = runPolicyTests(state?.tests ?? [], state?.rules ?? [], { low: 1, high: 65_534 });
    expect(results.length).toBeGreaterThanOrEqual(15);
    expect(results.filter(({ failure }) => failure !== null)).toEqual([]);
  });

  it('company has tests that notice when any of its rules goes', () => {
    const { state } = built('company');
    const [tests, rules] = [state?.tests ?? [], state?.rules ?? []];
    const guarded = rules.filter((rule) => {
      const left = rules.filter((other) => other !== rule);
      return runPolicyTests(tests, left, { low: 1, high: 65_534 }).some(({ failure }) => failure !== null);
    });
    expect(guarded.length).toBeGreaterThan(rules.length / 3);
  });
});
