import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { build } from '../desired/helpers.ts';

/** Each case: `== NAME`, the manifest, then per problem `>> SEVERITY LINE:COLUMN CODE`, its summary and its hint. */
const text = readFileSync(new URL('wrong-manifests.txt', import.meta.url), 'utf8');

const cases = text
  .split(/^== /m)
  .slice(1)
  .map((one): readonly [string, string, string] => {
    const name = one.slice(0, one.indexOf('\n'));
    const start = one.indexOf('\n>> ');
    return [name, one.slice(name.length + 1, start + 1), one.slice(start + 1)];
  });

describe('a wrong manifest', () => {
  it('has many forms', () => {
    expect(cases.length).toBeGreaterThan(65);
  });

  it.each(cases)('is explained: %s', (_, manifest, expected) => {
    const { problems } = build({ 'a.yaml': manifest });
    const said = problems.map(
      ({ severity, place, code, summary, hint }) =>
        `>> ${severity} ${place?.line}:${place?.column} ${code}\n   ${summary}\n   ${hint}\n`,
    );
    expect(said.join('')).toBe(expected);
  });
});

describe('an empty file', () => {
  it('is named when nothing else says what is wanted', () => {
    const [problem] = build({ 'a.yaml': '', 'b.yaml': '# nothing\n' }).problems;
    expect(problem).toMatchObject({ code: 'no-manifests', place: { file: 'a.yaml' } });
    expect(problem?.summary).toBe('There are no manifests here: a.yaml, b.yaml have no content.');
  });
});
