import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CreateNodeOptions, Document, Lexer, Parser, type ToStringOptions } from 'yaml';
import { kinds } from '../../src/manifest/manifest.ts';
import { readManifests } from '../../src/manifest/read-manifests.ts';
import { SchemaViolations } from '../../src/manifest/schema-violations.ts';
import { profileNamed } from '../../src/model/profile.ts';
import { runs } from '../property/runs.ts';

function problemsOf(text: string, documents = 1_000) {
  const bytes = new TextEncoder().encode(text);
  return readManifests({ path: 'a.yaml', bytes, profile: profileNamed('firezone-0.7'), values: null, documents })
    .problems;
}

function found(text: string): readonly string[] {
  return problemsOf(text).map(({ code, place }) => `${place?.line}:${place?.column} ${code}`);
}

const set = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:';
const rule = 'rules: [{name: a, action: drop, destinations: [';
const many = 800_000;

describe('a document full of what no manifest has', () => {
  it.each([
    ['lists where addresses stand', `${set} {${rule}${'[],'.repeat(many)}]}]}\n`, '4:55 wrong-type'],
    ['empty rules', `${set} {rules: [${'{},'.repeat(many)}]}\n`, '4:16 missing-field'],
    ['empty texts', `${set} {rules: [${'"",'.repeat(many)}]}\n`, '4:16 wrong-type'],
    ['names instead of addresses', `${set} {${rule}${'x,'.repeat(many)}]}]}\n`, '4:55 address-hostname'],
    ['lists on lines of their own', `${set}\n  rules:\n${'    - []\n'.repeat(many)}`, '6:7 wrong-type'],
    ['items without content', `${set}\n  rules:\n${'    -\n'.repeat(many)}`, '6:6 wrong-type'],
    [
      'lists in lists',
      `${set} {rules: [${`${'['.repeat(60)}${']'.repeat(60)},`.repeat(10_000)}]}\n`,
      '4:16 wrong-type',
    ],
    ['tags', `${set} {rules: [${'!x a,'.repeat(many)}]}\n`, '4:16 unknown-tag'],
    ['lists for a kind', `apiVersion: firezone/v0\nkind: [${'[],'.repeat(many)}]\n`, '2:7 unknown-kind'],
    ['users without a UUID', `${set.replace('RuleSet', 'Users')} {${'a: b, '.repeat(many)}}\n`, '4:14 duplicate-key'],
    ['colons', `${set} {rules: [{name: a, b${': '.repeat(many)}}]}\n`, '4:19978 too-many-problems'],
  ])('is not read to its end, and the first are named: %s', (_, text, first) => {
    const problems = problemsOf(text);
    expect(found(text)[0]).toBe(first);
    expect(problems.at(-1)?.code).toBe('too-many-problems');
    expect(problems.length).toBeLessThan(15_000);
    const last = problems.at(-1)?.place;
    expect(Math.max(last?.line ?? 0, (last?.column ?? 0) / 10)).toBeLessThan(15_000);
  });

  it('names no field as missing that may come later', () => {
    const keys = Array.from({ length: many }, (_, i) => `k${i}: []`).join(', ');
    expect(found(`apiVersion: firezone/v0\nkind: RuleSet\nspec: {${keys}}\n`).join()).not.toContain('missing-field');
    expect(found(`spec: {${keys}}\nkind: Rule\napiVersion: firezone/v0\n`)).toEqual([
      '1:1 not-a-manifest',
      '1:26392 too-many-problems',
    ]);
  });

  it('ends at the first nesting that is too deep', () => {
    expect(found(`${set}\n  rules: ${'['.repeat(many)}\n`)).toEqual(['5:73 too-deep']);
    expect(found(`${set}\n  rules:\n    ${'- '.repeat(many)}\n`)).toEqual(['6:131 too-deep']);
  });
});

describe('a file of a million empty documents', () => {
  it.each(['---\n', '...\n'])('%j is not read to its end', (mark) => {
    expect(found(mark.repeat(1_000_000))).toEqual([expect.stringMatching(/^1001:[14] too-many-documents$/)]);
  });
});

describe('a file of comments that switch off nothing', () => {
  it('has as many problems as people read', () => {
    expect(problemsOf('# reconcile-ignore: x\n'.repeat(400_000)).length).toBeLessThan(1_100);
  });
});

/** The violations in a text when it is looked at after every lexeme. */
function countViolations(text: string): number {
  const parser = new Parser();
  const violations = new SchemaViolations();
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    for (const _ of parser.next(lexeme)) return count;
    count = violations.look(parser.stack);
  }
  return count;
}

const folder = new URL('../../examples/', import.meta.url);
const examples = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.yaml') && !path.includes('values-'))
  .map((path) => [path, readFileSync(new URL(path, folder), 'utf8')] as const);

describe('what fits', () => {
  it.each(examples)('is every document of %s', (_, text) => {
    for (const document of text.split(/^---$/m)) expect(countViolations(document)).toBe(0);
  });

  it('is what is written with comments, aliases, values and commas at the end', () => {
    const text = `${set}
  # a
  defaults: {action: drop, users: [&b bob, *b, group: g,],}
  rules:
    # b
    - # c
      name: a
      # d

      destinations: [10.0.0.1, # e
        network: n, "\${x}",
      ]
      port_range: [1, 2-3, "\${p}"]
      port_type: !!str tcp
      # f
    # g
    - {"name":"b","destination":10.0.0.2}
  # h
`;
    expect(countViolations(text)).toBe(0);
  });

  it('is all that is not refused later', () => {
    fc.assert(
      fc.property(manifest, style, (content, options) => {
        const text = new Document(content).toString(options);
        if (countViolations(text) > 0) expect(found(text), text).not.toEqual([]);
      }),
      { numRuns: runs(300) },
    );
  });
});

const style: fc.Arbitrary<ToStringOptions & CreateNodeOptions> = fc.record({
  collectionStyle: fc.constantFrom('flow' as const, 'block' as const),
  defaultKeyType: fc.constantFrom('PLAIN' as const, 'QUOTE_DOUBLE' as const),
  indentSeq: fc.boolean(),
});

const scalar = fc.constantFrom(
  'accept',
  '10.0.0.0/8',
  '::1',
  443,
  '80-90',
  'tcp',
  'alice',
  null,
  true,
  1e21,
  '',
  'x y',
);
const name = fc.constantFrom('a', 'b', 'spec', 'rules', 'destinations', 'cidrs', 'cases', 'users', 'group', 'network');
const fields = fc.constantFrom(
  ...['name', 'action', 'destination', 'destinations', 'port_range', 'port_type', 'user', 'user_id', 'users', 'group'],
  ...[
    'rules',
    'defaults',
    'cidrs',
    'members',
    'cases',
    'expect',
    'bases',
    'logo',
    'openid_connect_providers',
    'labels',
  ],
);
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fields, tie('value'), { maxKeys: 5 }),
  ),
}));
/** Right in most of its parts. */
const ruleOfSet = fc.record(
  {
    name: fc.constantFrom('a', 'b', 'c'),
    action: fc.constantFrom('accept', 'drop'),
    destination: fc.oneof(fc.constantFrom('10.0.0.1', '::/0'), fc.record({ network: name })),
    port_type: fc.constantFrom('tcp', 'udp', null),
    port_range: fc.oneof(fc.constantFrom(443, '80-90', null), fc.array(fc.constantFrom(1, '2-3'), { minLength: 1 })),
    users: fc.array(fc.oneof(name, fc.record({ group: name }))),
  },
  { requiredKeys: ['name', 'action', 'destination'] },
);
const manifest = fc.record(
  {
    apiVersion: fc.constant('firezone/v0'),
    kind: fc.oneof(fc.constant('RuleSet'), fc.constantFrom(...kinds)),
    metadata: fc.record({ name, labels: fc.dictionary(name, scalar) }, { requiredKeys: ['name'] }),
    spec: fc.oneof(
      value,
      fc.record({ rules: fc.array(fc.oneof({ weight: 9, arbitrary: ruleOfSet }, { weight: 1, arbitrary: value })) }),
    ),
  },
  { requiredKeys: ['apiVersion', 'kind', 'metadata', 'spec'] },
);
