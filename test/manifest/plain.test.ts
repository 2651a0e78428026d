import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Node } from '../../src/manifest/node.ts';
import { parseFile } from '../../src/manifest/parse.ts';
import { readPlain } from '../../src/manifest/read-plain.ts';
import { runs } from '../property/runs.ts';

// Text in the plain form is read without the YAML library: whatever is read so must be what the library reads.

function isPlain(text: string): boolean {
  const work = { spent: 0, most: 1_000_000 };
  return readPlain({ text, fields: undefined, documents: 100, work }) !== null;
}

function read(text: string) {
  const roots: Node[] = [];
  const onDocument = (root: Node): void => void roots.push(root);
  return { problems: parseFile({ path: 'a.yaml', text, values: null, documents: 100, onDocument }), roots };
}

/** The same, read by the library: a comment with a tab is not in the plain form. */
const readByLibrary = (text: string) => read(`${text}\n#\t\n`);

const files: readonly string[] = [
  `# all
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: web, description: Web access for all, labels: {team: a-b, tier: 1}} # who
spec:
  expires: 2026-12-01
  defaults:
    action: accept
    port_type: tcp

  rules:
    # one
    - name: r1
      destination: 10.0.0.0/8 # ten
      port_range: 80 - 90
    - name: "r2"
      # a network
      destinations: [10.1.0.0/16, {network: staging}, '2001:db8::/32']
      users: [alice, {group: contractors}]
      port_range: [80, 443, 8000-8010]
    -   name: r3
        destination: ::/0
        user: alice@example.com
        ticket: NET-1:2#3
        port_range: null
    - {name: r4, destination: 10.2.0.1, action: drop, user_id: null}
`,
  `---
kind: Users
apiVersion: 'firezone/v0'
metadata:
  name: people
spec:
  alice: 5f6c2f5e-6a8e-4d0c-9b7e-000000000001
  bob@example.com: 5f6c2f5e-6a8e-4d0c-9b7e-000000000002
  1.0: 5F6C2F5E-6a8e-4d0c-9b7e-000000000003
  true: 0x10
---
# nothing

---
apiVersion: firezone/v0
kind: Network
metadata:
    name: staging
spec:
    cidrs:
    - 10.0.0.0/8
    - 2001:db8::1
    -     010.0.0.1
    - - 1
      - a: 1
        b:
        - 2
        - 1e3
    - 0o17
    - No
---
apiVersion: firezone/v0
kind: PolicyTest
metadata: {name: t}
spec: {cases: [{destination: 10.0.0.1, expect: accept, always: true, protocol: "tcp", port: 443}]}
`,
];

describe('the plain form', () => {
  it.each(files)('is what the library reads (%#)', (text) => {
    expect(isPlain(text)).toBe(true);
    expect(read(text)).toEqual(readByLibrary(text));
    const crlf = text.replaceAll('\n', '\r\n');
    expect(isPlain(crlf)).toBe(true);
    expect(read(crlf)).toEqual(readByLibrary(crlf));
  });

  const pieces = [
    ...`¦ ¦  ¦\n¦\n ¦\n  ¦\n    ¦\n- ¦\n  - ¦: ¦:¦- ¦-¦# ¦ #¦#¦"¦'¦{¦}¦[¦]¦, ¦,¦---¦---\n`.split('¦'),
    ...`...¦a: ¦a¦1¦.5¦-1¦1e3¦0x1F¦~¦null¦true¦x y¦a: b¦\n      b: c¦?¦&a ¦*a¦!t ¦|¦>¦%¦@¦=¦<<: ¦\r\n¦::¦[a, b]¦{a: b}¦[]¦{}¦"x"¦'y'¦"a\\n"¦'it''s'¦\u00a0¦\u00fc¦12345678901234567890¦__proto__: 1\n`.split(
      '¦',
    ),
  ];
  const damage = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 3 }), fc.constantFrom(...pieces)), {
    minLength: 1,
    maxLength: 3,
  });

  it('is what the library reads, wherever a text is changed', () => {
    let plain = 0;
    fc.assert(
      fc.property(fc.constantFrom(...files), damage, (file, changes) => {
        const text = changes.reduce((before, [at, remove, insert]) => {
          const position = at % before.length;
          return before.slice(0, position) + insert + before.slice(position + remove);
        }, file);
        if (!isPlain(text)) return;
        plain++;
        expect(read(text)).toEqual(readByLibrary(text));
      }),
      { numRuns: runs(20_000) },
    );
    expect(plain).toBeGreaterThan(runs(20_000) / 40);
  });

  const values =
    `a ¦ a b ¦ a  b ¦ a:b ¦ a: b ¦ a: ¦ :a ¦ ::1 ¦ ::/0 ¦ : ¦ - ¦ - a ¦ -a ¦ -- ¦ --- ¦ a#b ¦ a #b ¦ #a ¦ # ¦ "a" ¦ "" ¦ " a " ¦ "a\\n" ¦
    "a ¦ "a"b ¦ "a" b ¦ "a": b ¦ 'a' ¦ '' ¦ 'a''b' ¦ 'a ¦ 'it's' ¦ "a #b" ¦ "a: b" ¦ 1 ¦ -1 ¦ +1 ¦ 010 ¦ 0o17 ¦ 0x1f ¦ 1.5 ¦ 1e3 ¦ .5 ¦
    .inf ¦ .nan ¦ 1_000 ¦ 12345678901234567 ¦ 0b1 ¦ 1:30 ¦ ~ ¦ null ¦ Null ¦ NULL ¦ nULL ¦ true ¦ True ¦ yes ¦ no ¦ on ¦ n ¦ f ¦ 2026-12-01 ¦
    10.0.0.0/8 ¦ fe80:: ¦ 2001:db8::/32 ¦ [] ¦ [a] ¦ [a, b] ¦ [a,b] ¦ [a b, c] ¦ [a, ] ¦ [,] ¦ [[a]] ¦ [{a: b}] ¦ [a: b] ¦ [a ¦ a] ¦
    [a]b ¦ [ a , b ] ¦ ["a", 1] ¦ {} ¦ {a: b} ¦ {a: b, c: d} ¦ {a: b, a: c} ¦ {a:b} ¦ {a} ¦ {a: } ¦ {"a": b} ¦ {a: {b: c}} ¦ {a: [b]} ¦
    { a: b } ¦ {a: b ¦ {{a}} ¦ *a ¦ &a ¦ &a b ¦ !t ¦ !!str a ¦ | ¦ > ¦ >- ¦ %a ¦ @a ¦ \` ¦ ? ¦ ? a ¦ , a ¦ a, b ¦ a]b ¦ a}b ¦ (a) ¦ << ¦ = ¦
    a\\b ¦ a\u00a0b ¦ \u00a0 ¦ \u00fcber ¦ a\u2028b ¦ a\u0085b ¦ a\u007fb ¦ a\tb ¦ a\0 ¦ __proto__`
      .split('¦')
      .map((value) => value.replaceAll(/^ |^\n +| $/g, ''))
      .concat('x'.repeat(900), 'x'.repeat(1100));
  const places: readonly ((value: string) => string)[] = [
    (value) => `a: ${value}`,
    (value) => `a:   ${value}   # b\n`,
    (value) => `a: ${value}\n# c\n  # d\n\nb: 1\n`,
    (value) => `a: ${value}\n  b\n`,
    (value) => `a:\n  ${value}\n`,
    (value) => `a:\n  - ${value}\n  - b: ${value}\n    c: ${value}\n`,
    (value) => `a:\n- - ${value}\n  - ${value}\n- ${value}\n   b\n`,
    (value) => `a: [b, ${value}, ${value}]\n`,
    (value) => `a: {b: ${value}, c: ${value}}\n`,
    (value) => `${value}: b\n`,
    (value) => `a:\n  ${value}: b\n  c: d\n`,
    (value) => `a: {${value}: b}\n`,
    (value) => `a: ${value}\n---\nb: ${value}\n--- \n`,
    (value) => `${value}\n---\na: b\n`,
    (value) => `a: b\n${value}\n`,
    (value) => `a: b ${value}\n`,
    (value) => `a:\n    b: ${value}\n  c: d\n`,
  ];

  it.each(values)('is what the library reads, with %j in any place', (value) => {
    for (const place of places) {
      const text = place(value);
      if (isPlain(text)) expect(read(text), text).toEqual(readByLibrary(text));
    }
  });

  it('is what the library reads, whatever the pieces are put together to', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { maxLength: 12 }), (chosen) => {
        const text = `a:${chosen.join('')}`;
        if (isPlain(text)) expect(read(text)).toEqual(readByLibrary(text));
      }),
      { numRuns: runs(20_000) },
    );
  });
});
