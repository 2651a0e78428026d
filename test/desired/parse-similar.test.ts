import fc from 'fast-check';
import { expect, it } from 'vitest';
import { defaultLimits } from '../../src/desired/context.ts';
import { parseFile } from '../../src/desired/parse-files.ts';
import { makeSimilarParser } from '../../src/desired/parse-similar.ts';
import type { WrittenRule } from '../../src/manifest/manifest.ts';
import { findProfile } from '../../src/model/profile.ts';
import { runs } from '../property/runs.ts';

const options = { profile: findProfile('firezone-0.7'), values: null, limits: defaultLimits };
const fileOf = (text: string) => ({ path: 'net/a.yaml', bytes: new TextEncoder().encode(text), hash: text });

const heads = ['', '  defaults: {action: drop}\n', '  expires: 2030-01-01\n', '---\n'].map((more) =>
  more === '---\n' ? more + headWith('') : headWith(more),
);

function headWith(more: string): string {
  return `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: a}\nspec:\n${more}  rules:\n`;
}

/** Rules as people write them, and what could make one of them reach into others. */
const rules = [
  '    - {name: web, action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443}\n',
  '    - name: dns\n      action: accept\n      destinations: [10.2.0.1, 10.2.0.2]\n      users: [alice, {group: staff}]\n',
  '    - {name: wall, action: drop, destination: 10.0.0.0/8} # for now\n\n  # more:\n',
  '    - name: note\n      action: drop\n      description: |+\n        one\n\n      destination: 10.4.0.0/16\n',
  '    - name: last\n      action: drop\n      destination: 10.4.0.0/16\n      owner: |+\n        one\n',
  '    - {name: two,\n       action: drop, destination: 10.5.0.0/16}\n',
  '    - {name: here, action: drop, destination: &a 10.6.0.0/16}\n',
  '    - {name: again, action: drop, destination: &a 10.6.1.0/24}\n',
  '    - {name: there, action: drop, destination: *a}\n',
  '    - {name: "open, action: drop, destination: 10.7.0.0/16}\n',
  '    - {name: cut, action: drop, destination: 10.8.0.0/16,\n',
  '    - name: folded\n      description: >-\n        a\n         b\n      action: drop\n      destination: 10.9.0.0/16\r\n',
  '    - {name: bits, action: drop, destination: 10.1.2.3/8}\n',
  '    - {name: web, action: drop, destination: 10.1.0.0/16} # reconcile-ignore: shadowed why\n',
  '    -\n      name: below\n      action: drop\n      destination: 10.11.0.0/16\n',
  '    - name: plain\n      action: drop\n      description: a\n        b\n      destination: 10.12.0.0/16\n',
  '      more: }\n',
  '  more: "}\n',
  '---\n',
  "    - name: gone\n      action: drop\n      destination: 10.13.0.0/16\n      description: '\n",
];

/** Each rule with as many lines as the others, so that those after it stay at theirs. */
const padded = (text: string): string => text + '\n'.repeat(Math.max(0, 8 - text.split('\n').length));

/** A file, and what is done to it: rules are replaced, added and taken out. */
const anyVersions = fc
  .record({
    head: fc.constantFrom(...heads, heads[0]),
    start: fc.array(fc.nat(rules.length + 20), { minLength: 1, maxLength: 6 }),
    edits: fc.array(fc.record({ at: fc.nat(6), out: fc.nat(8), rule: fc.nat(rules.length) }), { maxLength: 8 }),
  })
  .map(({ head, start, edits }) => {
    let chosen: readonly number[] = start;
    const textOf = (): string => head + chosen.map((n, at) => padded(rules[n] ?? plainRule(n, at))).join('');
    const texts = [textOf()];
    for (const { at, out, rule } of edits) {
      chosen = chosen.toSpliced(at, out > 2 ? 1 : out, rule);
      texts.push(textOf());
    }
    return texts;
  });

function plainRule(n: number, at: number): string {
  return `    - {name: r${n % 3 === 0 ? n : at}, action: drop, destination: 10.20.${n % 256}.0/24}\n`;
}

it('what is parsed of a version after others is what is parsed of it alone', () => {
  fc.assert(
    fc.property(anyVersions, (texts) => {
      const parse = makeSimilarParser(options);
      for (const text of texts) {
        const { work: _, ...alone } = parseFile(fileOf(text), options);
        expect(parse(fileOf(text)), text).toMatchObject(alone);
      }
    }),
    { numRuns: runs(1_500) },
  );
});

it('a rule that the version before had at its line is not parsed again', () => {
  const parse = makeSimilarParser(options);
  const rulesOf = (text: string): readonly WrittenRule[] => {
    const [manifest] = parse(fileOf(text)).manifests;
    return manifest?.kind === 'RuleSet' ? manifest.rules : [];
  };
  const many = Array.from({ length: 100 }, (_, n) => plainRule(3 * n, n));
  const before = rulesOf(headWith('') + many.join(''));
  const after = rulesOf(headWith('') + many.with(50, plainRule(1, 50)).join(''));
  expect(after.flatMap((rule, n) => (rule === before[n] ? [] : [n]))).toEqual([0, 50]);
});

it('a rule that depends on another is parsed with it', () => {
  const parse = makeSimilarParser(options);
  const texts = ['*a', '*a # closed'].map((last) => {
    const items = ['&a 10.1.0.0/16', '&a 10.2.0.0/16', '10.3.0.0/16', last];
    return (
      headWith('') + items.map((to, n) => `    - {name: r${n}, action: drop, destination: ${to}\n      }\n`).join('')
    );
  });
  for (const text of texts) expect(parse(fileOf(text))).toEqual(parseFile(fileOf(text), options));
});
