// biome-ignore-all lint/suspicious/noTemplateCurlyInString: `${name}` stands for a value.
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatByLibrary, formatFile } from '../../src/manifest/format.ts';
import { formatPlain } from '../../src/manifest/format-plain.ts';
import { findProfile } from '../../src/model/profile.ts';
import { formatRuleKey } from '../../src/model/rule.ts';
import { build } from '../desired/helpers.ts';
import { runs } from '../property/runs.ts';

const profile = findProfile('firezone-0.7');

function format(text: string, file = 'a.yaml'): string {
  const { text: formatted, problems } = formatFile(file, Buffer.from(text), profile);
  expect(problems).toEqual([]);
  return formatted ?? '';
}

describe('formatting', () => {
  it('leaves a file alone that would be no YAML afterwards: a carriage return in a comment', () => {
    const text =
      '# a\n# \r b\napiVersion: firezone/v0\nkind: Rule\nmetadata: {name: s}\nspec: {action: drop, destination: 10.0.0.1}\n';
    expect(formatFile('a.yaml', Buffer.from(text), profile)).toMatchObject({
      text: null,
      problems: [{ code: 'not-formatted' }],
    });
  });

  it.each([
    [
      'an empty line above what becomes the first field',
      'spec:\n  rules:\n    - action: drop\n\n      name: a\n      destination: 10.0.0.1\nkind: RuleSet\napiVersion: firezone/v0\nmetadata: {name: s}\n',
    ],
    [
      'a comment after one that is indented',
      '# a\nspec: {action: drop, destination: 10.0.0.1}\n# b\nmetadata:\n  name: s\n  # c\n# d\napiVersion: firezone/v0\nkind: Rule\n',
    ],
    [
      'a comment at the end after one that is indented',
      'spec:\n  destination: 10.0.0.1\n  action: drop\n  # a\n\nmetadata: {name: s}\napiVersion: firezone/v0\nkind: Rule\n\n# b\n',
    ],
    [
      'a byte order mark',
      '\uFEFF# a\nspec: {action: drop, destination: 10.0.0.1}\nmetadata: {name: s}\napiVersion: firezone/v0\nkind: Rule\n',
    ],
  ])('changes nothing the second time: %s', (_, text) => {
    const formatted = format(text);
    expect(format(formatted)).toBe(formatted);
    expect(formatted).not.toMatch(/[ \uFEFF]$/m);
    expect(formatted.match(/# \w/g)?.sort()).toEqual(text.match(/# \w/g)?.sort());
  });

  it.each(['', ' # beside'])('leaves a comment above a rule of a set above it%s', (beside) => {
    const rules = ['one', 'two', 'three'].map(
      (name) => `    # ${name}\n    - name: ${name}\n      action: drop${beside}\n      destination: 10.0.0.1\n`,
    );
    const text = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  rules:\n${rules.join('')}`;
    expect(format(text)).toBe(text);
  });

  it.each(['["::0", 10.0.0.1]', '[10.0.0.1, "2001:DB8::"]', '\n        - "::0"\n        - 2001:db8:0::0'])(
    'quotes an address that ends in a colon: %j',
    (written) => {
      const text = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: guests}\nspec:\n  rules:\n    - name: printer\n      action: drop\n      destinations: ${written}\n`;
      expect(formatPlain(text) ?? formatByLibrary(text)).toBe(formatByLibrary(text));
      expect(format(text)).toMatch(/"(?:2001:db8)?::"/);
    },
  );

  it('leaves what nobody can see as escapes', () => {
    const text = `apiVersion: firezone/v0
kind: Group
metadata:
  name: a
  description: "\\u2028a\\u202eb\\ufeff\\u0085 \\"x # \\"é" # "x
  labels: {a: "b\\u200b", b: 'c"', d: "e"}
spec:
  members: [alice]
`;
    expect(format(text)).toBe(text);
  });

  it('brings spelling and order to the canonical one and keeps comments where they belong', () => {
    const text = `---
# yaml-language-server: $schema=x

# about the rule
kind: Rule   # a rule
apiVersion: firezone/v0
metadata:
    # its name
    name: web
    description: yes
spec:
      # where to
      destination:   "10.1.2.3/8"
      action: accept
      port_range: '80 - 443'   # web
      port_type: tcp
      user_id: A1520C4B-ADC3-4574-932A-94461CF85C07


---
# nothing but a comment
---
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: a}
spec:
  rules:
  - {port_range: ["0443",    12-13], destinations: [ 2001:DB8::/32 ], name: z,
     port_type: tcp, action: drop}
  # tail
`;
    const formatted = format(text);
    expect(formatted).toBe(`# yaml-language-server: $schema=x

# about the rule
apiVersion: firezone/v0
kind: Rule # a rule
metadata:
  # its name
  name: web
  description: "yes"
spec:
  action: accept
  # where to
  destination: "10.1.2.3/8"
  port_type: tcp
  port_range: 80-443 # web
  user_id: a1520c4b-adc3-4574-932a-94461cf85c07
---
# nothing but a comment
---
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: a}
spec:
  rules:
    - {name: z, action: drop, destinations: [2001:db8::/32], port_type: tcp, port_range: [443, 12-13]}
    # tail
`);
    expect(format(formatted)).toBe(formatted);
  });

  it('leaves a file with errors alone, and the order of fields where there are aliases', () => {
    expect(formatFile('a.yaml', Buffer.from('kind: Rule\n  x: 1\n'), profile).text).toBeNull();
    const anchored = `apiVersion: firezone/v0
kind: Rule
metadata: {name: &n drop}
spec: {action: *n, destination: 10.0.0.1}
`;
    expect(format(anchored)).toBe(anchored);
    const reordered =
      anchored.replace('metadata: {name: &n drop}\nspec: {action: *n,', 'spec: {action: &n drop,') +
      'metadata: {name: *n}\n';
    expect(format(reordered)).toBe(reordered);
  });

  it('works before values are put in', () => {
    const text =
      'kind: Rule\napiVersion: firezone/v0\nmetadata: {name: a}\nspec: {destination: "${net}", action: drop}\n';
    const expected =
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: a}\nspec: {action: drop, destination: "${net}"}\n';
    expect(format(text)).toBe(expected);
  });

  it('changes nothing the second time, and never the meaning', () => {
    const scalar = fc.constantFrom('10.0.0.1/32', '"10.1.2.3/8"', "'2001:DB8::1/64'", '10.0.0.0/24  # why');
    const port = fc.constantFrom('443', '"80"', '1 - 2', "'7-9'", '0443');
    const rule = fc.record({
      scalar,
      port,
      action: fc.constantFrom('drop', 'accept'),
      order: fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
      flow: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(rule, { minLength: 1, maxLength: 4 }), (rules) => {
        const documents = rules.map(({ scalar: destination, port: ports, action, order }, index) => {
          const lines = [`destination: ${destination}`, `port_range: ${ports}`, `action: ${action}`, 'port_type: udp'];
          return `kind: Rule\n# c${index}\nmetadata: {name: r${index}}\nspec:\n${order.map((i) => `   ${lines[i]}`).join('\n')}\napiVersion: firezone/v0\n`;
        });
        const text = documents.join('---\n');
        const formatted = format(text);
        expect(format(formatted)).toBe(formatted);
        const keys = (one: string) =>
          build({ 'a.yaml': one }, { profile: findProfile('generic') }).state?.rules.map(({ rule: r, name }) => [
            name,
            formatRuleKey(r),
          ]);
        expect(keys(formatted)).toEqual(keys(text));
        for (const index of rules.keys()) expect(formatted).toContain(`# c${index}`);
      }),
      { numRuns: runs(300) },
    );
  });

  it('has nothing to do in the examples', () => {
    const examples = new URL('../../examples/', import.meta.url);
    const files = readdirSync(examples, { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.yaml') && !name.includes('values-') && !name.startsWith('operator/'),
    );
    for (const file of files) {
      const text = readFileSync(new URL(file, examples), 'utf8');
      expect(format(text, file), file).toBe(text);
    }
  });
});

describe('formatting without the library', () => {
  const lines = `# head

apiVersion: firezone/v0
kind: RuleSet
metadata: {name: web, labels: {tier: 1, owner: x y}}

# what it is for
spec:
  # the defaults
  defaults: {port_type: tcp, action: accept}

  expires: "2026-12-01"
  rules:
    # one
    - destination: 010.0.0.1
      name: r1
      port_range: 80 - 90

    # two
    - name: "r2"
      port_range: [0443, 80, "8000 - 8010", 12]
      # where to
      destinations:
        - 2001:DB8::/32
        - '10.0.0.0/8'
        # a network
        - {network: staging}
      users: [A1520C4B-ADC3-4574-932A-94461CF85C07, alice, "on"]

    -   action: drop
        user_id: null
        name: nothing

        destination: ::/0
---
kind: Users
apiVersion: firezone/v0
spec:
    alice: A1520C4B-ADC3-4574-932A-94461CF85C07
metadata:
    name: people
---
kind: Network

spec:
  cidrs:
  - 10.0.0.1/32
  - ::ffff:1.2.3.4
metadata: {}
`.split('\n');
  const more = [
    '',
    '# c',
    '  # c',
    '    # c',
    '      # c',
    '---',
    '      x: True',
    '    - name: no',
    '  a: 1.50',
    '  - 1:2:3:4:5:6:7:8',
  ];
  const isPlain = (text: string): boolean => formatPlain(text) !== null;

  it('says what the library says, for any lines of a file', () => {
    let plain = 0;
    fc.assert(
      fc.property(
        fc.subarray([...lines.keys()], { minLength: lines.length - 6 }),
        fc.array(fc.tuple(fc.nat(), fc.constantFrom(...more)), { maxLength: 3 }),
        (kept, added) => {
          const chosen = kept.map((index) => lines[index] ?? '');
          for (const [at, line] of added) chosen.splice(at % (chosen.length + 1), 0, line);
          const text = chosen.join('\n');
          if (!isPlain(text)) return;
          plain++;
          expect(formatPlain(text), text).toBe(formatByLibrary(text));
        },
      ),
      { numRuns: runs(5_000) },
    );
    expect(plain).toBeGreaterThan(runs(5_000) / 250);
  });

  const values = [
    ...[
      'a',
      'a b',
      'yes',
      'No',
      'y',
      'null',
      '~',
      'Null',
      'true',
      'True',
      '1',
      '01',
      '-1',
      '+1',
      '1.0',
      '1e3',
      '1_0',
      '0x1',
      '0o7',
      '1:30',
    ],
    ...[
      '10.0.0.1',
      '010.0.0.1',
      '10.0.0.1/32',
      '10.1.0.0/8',
      '2001:DB8::',
      '::1',
      '1:2:3:4:5:6:7:8',
      'a:b',
      'a#b',
      '443',
      '0443',
      '80-90',
      '80 - 90',
    ],
    ...[
      '2026-12-01',
      'A1520C4B-ADC3-4574-932A-94461CF85C07',
      'a1520c4b-adc3-4574-932a-94461cf85c07',
      '<<',
      '/',
      'a/',
      'a.b',
      'a-',
      'x'.repeat(300),
    ],
    ...[
      '"a"',
      "'a'",
      '"443"',
      "'80 - 90'",
      '"10.0.0.1/32"',
      '"on"',
      "'A1520C4B-ADC3-4574-932A-94461CF85C07'",
      '""',
      "'\"'",
      '"\u00e9"',
      '"\u200b"',
    ],
    ...[
      '[]',
      '{}',
      '[ a , b ]',
      '{ b: 1, a: 2 }',
      '[{network: n}]',
      '[[a]]',
      '\n        - a\n        - 010.0.0.1',
      '\n        b: 1\n        a: 2',
    ],
  ];
  const fields = [
    'name',
    'action',
    'destination',
    'destinations',
    'port_range',
    'user_id',
    'users',
    'labels',
    'what',
    'yes',
  ];

  it.each(fields)('says what the library says of any value under `%s`', (field) => {
    let plain = 0;
    for (const value of values) {
      const item = `${field}: ${value}`;
      const rule = `    - z: 1\n      ${item}\n      name: r\n`;
      for (const text of [
        `kind: RuleSet\nmetadata:\n    ${item.replaceAll('        ', '      ')}\nspec:\n  rules:\n${rule}`,
        `spec: {${item}, a: b}\nkind: Rule\n`,
        `kind: Users\n\nspec:\n      ${item}\n`,
        `# a\n\n# b\nkind: RuleSet\nspec:\n  rules:\n\n    # c\n${rule}\n\n    # d\n${rule}`,
      ]) {
        if (!isPlain(text)) continue;
        plain++;
        expect(formatPlain(text), text).toBe(formatByLibrary(text));
      }
    }
    expect(plain > 0).toBe(field !== 'yes');
  });
});
