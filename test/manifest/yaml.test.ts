import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defaultLimits } from '../../src/desired/context.ts';
import { readManifests } from '../../src/manifest/read-manifests.ts';
import { findProfile } from '../../src/model/profile.ts';
import { document } from '../desired/helpers.ts';
import { runs } from '../property/runs.ts';

function read(text: string | Uint8Array, documents = 1000) {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  const limits = { ...defaultLimits, documents };
  return readManifests({ path: 'a.yaml', bytes }, { profile: findProfile('firezone-0.7'), values: null, limits });
}

function found(text: string | Uint8Array, documents?: number): readonly string[] {
  return read(text, documents).problems.map(({ code, place }) => `${place?.line}:${place?.column} ${code}`);
}

const good = document('Rule', 'web', '{action: accept, destination: 10.0.0.1}');

describe('row 9: YAML has one meaning', () => {
  it.each([
    ['duplicate keys', `${good}kind: Rule\n`, '5:1 duplicate-key'],
    ['unknown tags', good.replace('accept', '!secret accept'), '4:16 unknown-tag'],
    ['YAML 1.1 types', good.replace('accept', '!!binary accept'), '4:16 unknown-tag'],
    ['%YAML 1.1', `%YAML 1.1\n---\n${good}`, '2:4 yaml-version'],
    ['__proto__', good.replace('{action', '{__proto__: {x: 1}, action'), '4:8 forbidden-key'],
    ['unsafe integers', good.replace('10.0.0.1', '12345678901234567890'), '4:37 unsafe-integer'],
    ['keys that are no texts', `? [a]\n: 1\n${good}`, '1:3 invalid-yaml'],
    ['merge keys, which are YAML 1.1', good.replace('{action', '{<<: {}, action'), '4:8 unknown-field'],
    ['an alias without its anchor', good.replace('accept', '*nowhere'), '4:16 invalid-yaml'],
    ['an alias of itself', good.replace('{action: accept', '&a {action: *a'), '4:19 invalid-yaml'],
    ['bad indentation', 'apiVersion: firezone/v0\n kind: Rule\n', '2:2 invalid-yaml'],
    ['an open quote', good.replace('accept', '"accept'), '4:16 invalid-yaml'],
    ['a tab as indentation', good.replace('spec: ', 'spec:\n\t'), '5:1 invalid-yaml'],
    ['a field without value', 'apiVersion:\n', '1:1 empty-field'],
    ['a list', '- a\n', '1:1 not-a-manifest'],
    ['another version', good.replace('v0', 'v1'), '1:13 unknown-version'],
    ['another kind', good.replace('Rule', 'Ruel'), '2:7 unknown-kind'],
    ['UTF-16', new Uint8Array([0xff, 0xfe, 0x61, 0]), '1:1 not-utf8'],
  ])('%s are a problem', (_, text, expected) => {
    expect(found(text)[0]).toBe(expected);
    expect(read(text).manifests).toEqual([]);
  });

  it('names the right place below lines that are no YAML', () => {
    expect(found('   a b.\n   c d: e\n== f\nkind: Rule\n')).toContain('4:5 invalid-yaml');
  });

  it('names the line that is no UTF-8', () => {
    const bytes = new Uint8Array([...new TextEncoder().encode(`${good}# \uFFFD\n# `), 0xc3, 0x28]);
    expect(found(bytes)).toEqual(['6:1 not-utf8']);
  });

  it.each(['- a: 1\n'.repeat(100_000), `[${'a,'.repeat(100_000)}]`])('does not read a long list to its end', (list) => {
    const later = `${good}---\n${list}a: b: c`;
    expect(found(later)).toEqual(['6:1 not-a-manifest']);
  });

  it('reads words of YAML 1.1 as the words they are', () => {
    expect(found(document('Users', 'people', '{no: a1520c4b-adc3-4574-932a-94461cf85c07}'))).toEqual([]);
  });

  it('follows an honest alias', () => {
    const text = document('RuleSet', 's', '{rules: [&a {name: a, action: drop, destination: 10.0.0.1}], defaults: {}}');
    expect(
      found(text.replace('defaults: {}', 'defaults: {users: [*b]}').replace('action', 'user: &b bob, action')),
    ).toEqual([]);
  });

  it('goes on after a broken document, so that all problems are seen at once', () => {
    expect(found(`${good.replace('accept', 'acept')}---\n${good.replace('10.0.0.1', '010.0.0.1')}`)).toEqual([
      '4:16 invalid-value',
      '9:37 address-octal',
    ]);
  });

  it('shows a faulty value beside a faulty shape of the same document', () => {
    const both = document('Rule', 'web', '{action: acept, destination: 10.1, port_tpye: tcp, port_range: 65535}');
    expect(found(both)).toEqual(['4:16 invalid-value', '4:42 unknown-field', '4:36 address-short', '4:70 port-bounds']);
  });

  it.each([
    ['Users', '{alice: 12}', "Write the user's UUID."],
    ['Users', '{alice: bob}', "Write the user's UUID."],
    ['Users', `{"bob smith": a1520c4b-adc3-4574-932a-94461cf85c07}`, 'Use a-z, A-Z, 0-9 and `. _ @ + -` inside.'],
    ['Rule', '{action: drop, destination: [10.0.0.1]}', 'a `kind: RuleSet` with `destinations: […]`'],
    ['Rule', '{action: drop, destination: {network: n}}', '`{network: NAME}` stands in a `kind: RuleSet`'],
    ['Group', '{members: [group: other]}', 'Groups do not nest.'],
    ['RuleSet', '{rules: [{<<: {}, name: a, destination: 10.0.0.1}]}', 'Write the fields out'],
    ['Rule', '{action: drop, destination: {{ net }}}', '--values FILE'],
  ])('says what to do: a %s with %s', (kind, spec, hint) => {
    const [first] = read(document(kind, 'x', spec)).problems;
    expect(first?.hint).toContain(hint);
  });

  it('says only once that an alias has no anchor', () => {
    expect(found(document('Rule', 'x', '*nowhere'))).toEqual(['4:7 invalid-yaml']);
  });

  it('survives any shape of any document', () => {
    const kind = fc.constantFrom('Rule', 'RuleSet', 'Configuration');
    const key = fc.constantFrom(
      ...[
        'rules',
        'defaults',
        'name',
        'action',
        'destination',
        'destinations',
        'port_range',
        'port_type',
        'user',
        'users',
      ],
      ...['openid_connect_providers', 'saml_identity_providers', 'default_client_dns', 'logo', 'client_secret', 'id'],
    );
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, true, 1, 'x', '10.1', 'saml'),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(key, tie('tree'), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(kind, tree, (name, spec) => {
        const text = `apiVersion: firezone/v0\nkind: ${name}\nmetadata: {name: a}\nspec: ${JSON.stringify(spec)}\n`;
        expect(read(text)).toHaveProperty('problems');
      }),
    );
  });
});

describe('row 8: YAML has a bounded cost', () => {
  it('refuses an alias bomb without unfolding it', () => {
    const levels = Array.from(
      { length: 30 },
      (_, i) => `  a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(', ')}]`,
    );
    expect(found(`spec:\n  a0: &a0 [x, x]\n${levels.join('\n')}\n`)).toContain('8:52 too-expensive');
  });

  it.each(['[', '{', '- ', 'a: ['])('refuses %j five thousand times', (text) => {
    expect(read(text.repeat(5000)).problems.every(({ severity }) => severity === 'error')).toBe(true);
    expect(read(text.repeat(5000)).problems.length).toBeGreaterThan(0);
    expect(read(text.repeat(5000)).problems.length).toBeLessThan(60);
  });

  it.each([
    ['list of mappings', `a:\n${' - b:\n'.repeat(100_000)}`, '1:1'],
    ['mapping', Array.from({ length: 100_000 }, (_, i) => `k${i}: 1\n`).join(''), '1:1'],
    ['list in braces', `{apiVersion: firezone/v0, kind: Rule, a: [${'1,'.repeat(100_000)}]}`, '1:39'],
    ['mapping of open quotes', 'a: "b\n'.repeat(100_000), '1:1'],
    ['mapping without keys', ': x\n'.repeat(100_000), '1:1'],
    ['mapping that repeats a field', 'kind: Rule\n'.repeat(100_000), '5:1'],
  ])('does not read a long %s to its end when no manifest can begin so', (_, text, place) => {
    expect(found(text)).toEqual([`${place} not-a-manifest`]);
  });

  it('quotes a foreign field of a long document only when it resembles a known one', () => {
    const summaries = (first: string) =>
      read(`${first}\n${'kind: Rule\n'.repeat(2_000)}`).problems.map((one) => one.summary);
    expect(summaries('sepc: 1')[0]).toContain('no field `sepc`');
    expect(summaries('CANARY9f3b: 1')[0]).toContain('no such field');
    expect(JSON.stringify(read(`# a secret\nCANARY9f3b: 1\n${'kind: Rule\n'.repeat(2_000)}`).problems)).not.toContain(
      'CANARY',
    );
    expect(summaries('kind: Rule')[0]).toContain('each field once');
  });

  it('reads a long manifest whose fields stand in any order, quoted or beside comments', () => {
    const rules = Array.from(
      { length: 2_000 },
      (_, i) => `    - {name: r${i}, action: drop, destination: 10.0.${i >> 8}.${i & 255}}\n`,
    );
    const text = `# a\n"spec": # b\n  # c\n  rules:\n${rules.join('')}# d\n\n# e\nmetadata: {name: s}\n# f\nkind: RuleSet\napiVersion: firezone/v0\n# g\n`;
    expect(found(text)).toEqual([]);
    const json = {
      kind: 'RuleSet',
      spec: {
        rules: [...Array(2_000)].map((_, i) => ({
          name: `r${i}`,
          action: 'drop',
          destination: `10.0.${i >> 8}.${i & 255}`,
        })),
      },
      metadata: { name: 's' },
      apiVersion: 'firezone/v0',
    };
    expect(found(JSON.stringify(json))).toEqual([]);
    expect(found(JSON.stringify(json, null, 2))).toEqual([]);
  });

  it('ends a document that is far too long, and a file of nothing but problems or directives (long)', () => {
    const long = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  rules: []\n${'# a\n'.repeat(2_100_000)}`;
    expect(found(long)).toEqual([expect.stringMatching(/ too-expensive$/)]);
    const problems = found('a: 1\n---\n'.repeat(5_000), 10_000);
    expect(problems).toHaveLength(1_001);
    expect(problems.at(-1)).toContain('too-many-problems');
    expect(found(`${'%FOO x\n'.repeat(1_000)}---\n${good}`)).toEqual(['201:1 too-expensive']);
  });

  it.each(['spec: {', 'metadata: {name: s, '])(
    'says of %s with 100,000 unknown fields what the first are, in linear time (long)',
    (start) => {
      const keys = Array.from({ length: 100_000 }, (_, i) => `k${i}: 1`).join(', ');
      const problems = found(`apiVersion: firezone/v0\nkind: Rule\n${start}${keys}}\n`);
      expect(problems.filter((one) => one.endsWith('unknown-field'))).toHaveLength(50);
      expect(problems.length).toBeLessThan(60);
    },
    20_000,
  );

  it('finds what thousands of comments switch off in linear time', () => {
    const comments = '# reconcile-ignore: host-bits all of it is meant\n'.repeat(100_000);
    const { suppressions, problems } = read(`${comments}${good}`);
    expect(problems).toEqual([]);
    expect(suppressions).toHaveLength(100_000);
    expect(suppressions.every(({ line }) => line === 100_001)).toBe(true);
  });

  it('counts the documents of a file', () => {
    expect(found(`${good}---\n`.repeat(1001))).toContain('5001:1 too-many-documents');
  });

  it('checks 20,000 keys of one mapping for repeats in linear time', () => {
    const users = Array.from({ length: 20_000 }, (_, i) => `  u${i}: a1520c4b-adc3-4574-932a-94461cf85c07`).join('\n');
    const text = `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: u}\nspec:\n${users}\n  u7: a\n`;
    expect(found(text)).toEqual(['20005:3 duplicate-key']);
  });
});

describe('rows 12 and 14: no message shows a secret', () => {
  const canary = 'CANARY9f3b';
  const configuration = `apiVersion: firezone/v0
kind: Configuration
metadata: {name: main}
spec:
  openid_connect_providers:
    - id: google
      label: Google
      client_id: id
      client_secret: ${canary}
      discovery_document_uri: https://idp.example/.well-known/openid-configuration
      auto_create_users: false
  saml_identity_providers:
    - id: okta
      label: Okta
      metadata: |
        <xml>${canary}</xml>
      auto_create_users: false
`;
  const encodings = [
    canary,
    encodeURIComponent(canary),
    Buffer.from(canary).toString('base64'),
    JSON.stringify(canary),
  ];

  function show(text: string): string {
    return JSON.stringify(read(text).problems);
  }

  it.each([
    ['a bad indentation beside it', `      client_secret: ${canary}`, `     client_secret: ${canary}`],
    ['an unknown tag', canary, `!${canary} x`],
    ['an unknown tag before it', canary, `!x ${canary}`],
    ['a misspelt field', 'client_secret:', 'client_secert:'],
    ['a wrong type', `client_secret: ${canary}`, `client_secret: [${canary}]`],
    ['a mapping', `client_secret: ${canary}`, `client_secret: {${canary}: x}`],
    ['a wrong reference', `client_secret: ${canary}`, `client_secret: {evn: ${canary}}`],
    ['a colon inside', canary, `${canary}: x`],
    ['an open quote', canary, `"${canary}`],
    ['a bad escape', canary, `"\\q${canary}"`],
    ['an alias', canary, `*${canary}`],
    ['a secret twice', 'client_id: id', `client_secret: ${canary}`],
    ['a secret as a key', `client_secret: ${canary}`, `client_secret:\n        ${canary}: 1`],
    ['a misspelt kind', 'Configuration', 'Configuraton'],
    ['a misspelt list', 'openid_connect_providers', 'openid_connect_provider'],
    ['a flow line', 'metadata: {name: main}', `metadata: {nme: main, labels: {client_secret: ${canary}}}`],
    ['another version', 'firezone/v0', 'firezone/v9'],
  ])('with %s', (_, from, to) => {
    const text = configuration.replace(from, to);
    const shown = show(text);
    expect(read(text).problems.length).toBeGreaterThan(0);
    for (const encoded of encodings) expect(shown).not.toContain(encoded);
  });

  it('wherever the text is damaged', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: configuration.length }),
        fc.nat({ max: 3 }),
        fc.constantFrom('', ' ', ':', '"', "'", '\n', '{', '[', '&', '*', '!', '#', '|', '%', '@', '\t', '-'),
        (position, remove, insert) => {
          const text = configuration.slice(0, position) + insert + configuration.slice(position + remove);
          // Damage inside the canary makes it another word: then nothing is left to look for.
          for (const encoded of encodings) expect(show(text)).not.toContain(encoded);
        },
      ),
      { numRuns: runs(2000) },
    );
  });
});

describe('torn and damaged files', () => {
  it('never throw, whatever the bytes are', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), fc.nat({ max: good.length }), (noise, position) => {
        read(good.slice(0, position) + noise + good.slice(position));
      }),
      { numRuns: runs(1000) },
    );
  });
});
