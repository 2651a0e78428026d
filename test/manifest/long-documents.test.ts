import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defaultLimits } from '../../src/desired/context.ts';
import { readManifests } from '../../src/manifest/read-manifests.ts';
import { findProfile } from '../../src/model/profile.ts';
import { runs } from '../property/runs.ts';

// A long document says the same as a short one, and names the right places.

function read(text: string) {
  const bytes = new TextEncoder().encode(text);
  const limits = { ...defaultLimits, documents: 100 };
  return readManifests({ path: 'a.yaml', bytes }, { profile: findProfile('firezone-0.7'), values: null, limits });
}

const codes = (text: string): readonly string[] =>
  read(text).problems.map(({ code, place }) => `${place?.line} ${code}`);

const start = (kind: string, name = 's'): string =>
  `apiVersion: firezone/v0\nkind: ${kind}\nmetadata: {name: ${name}}\nspec:\n`;
const address = (i: number): string => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
const uuid = (i: number): string => `5f6c2f5e-6a8e-4d0c-9b7e-${String(i).padStart(12, '0')}`;

function withoutPlaces(value: unknown): string {
  return JSON.stringify(value, (key, member: unknown) =>
    key === 'place' ? undefined : typeof member === 'bigint' ? String(member) : member,
  );
}

/** One rule in some form that people write, and what it says. */
const forms: readonly ((i: number) => string)[] = [
  (i) => `    - {name: r${i}, action: drop, destination: ${address(i)}}\n`,
  (i) => `    - name: r${i}\n      action: drop\n      destination: ${address(i)}\n`,
  (i) =>
    `    # above\n    - name: r${i} # beside\n\n      destination: "${address(i)}"\n      # within\n      action: drop\n`,
  (i) => `    -\n      name: r${i}\n      action: *drop\n      destination: ${address(i)}\n\n`,
  (i) => `    - name: r${i}\n      action: >-\n        drop\n      destination: ${address(i)}\n    # at the end\n`,
];

describe('a long document', () => {
  it('says the same as in braces, whatever form its rules have, and every rule has its own place (long)', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(forms.length - 1), { minLength: 1_200, maxLength: 2_500 }),
        fc.boolean(),
        fc.boolean(),
        (drawn, crlf, aliases) => {
          const chosen = drawn.map((form) => (form === 3 && !aliases ? 2 : form));
          const rules = chosen.map((form, i) => forms[form]?.(i) ?? '').join('');
          const block = `${start('RuleSet')}  defaults: {action: ${aliases ? '&drop ' : ''}drop}\n  rules:\n${rules}`;
          const flow = `${start('RuleSet')}  defaults: {action: drop}\n  rules: [${chosen.map((_, i) => `{name: r${i}, action: drop, destination: ${address(i)}}`).join(', ')}]\n`;
          const text = crlf ? block.replaceAll('\n', '\r\n') : block;
          const found = read(text);
          expect(found.problems).toEqual([]);
          expect(withoutPlaces(found.manifests)).toBe(withoutPlaces(read(flow).manifests));
          const lines = block.split('\n');
          const [set] = found.manifests;
          for (const [i, { place }] of (set?.kind === 'RuleSet' ? set.rules : []).entries()) {
            expect(lines[place.line - 1]?.slice(place.column - 1)).toMatch(new RegExp(`^"?${address(i)}\\b`));
          }
        },
      ),
      { numRuns: runs(10) },
    );
  });

  const users = (count: number, line: (i: number) => string | null = () => null): string =>
    `${start('Users')}${Array.from({ length: count }, (_, i) => line(i) ?? `  u${i}: ${uuid(i)}\n`).join('')}`;

  it('knows all its users, and a name that comes twice, however far apart', () => {
    const { manifests, problems } = read(users(5_000));
    expect(problems).toEqual([]);
    expect(manifests[0]?.kind === 'Users' && manifests[0].users.map(({ name }) => name)).toEqual(
      Array.from({ length: 5_000 }, (_, i) => `u${i}`),
    );
    const twice = read(users(5_000, (i) => (i === 4_990 ? `  u3: ${uuid(i)}\n` : null))).problems;
    expect(twice).toMatchObject([{ code: 'duplicate-key', place: { line: 4_995 }, related: [{ place: { line: 8 } }] }]);
  });

  it.each([10, 2_000, 4_999])('names what is wrong with item %i, at its line', (wrong) => {
    expect(codes(users(5_000, (i) => (i === wrong ? `  u${i}: bob\n` : null)))).toEqual([`${wrong + 5} wrong-type`]);
    expect(codes(users(5_000, (i) => (i === wrong ? `  u${i}: !x a\n` : null)))).toEqual([`${wrong + 5} unknown-tag`]);
    expect(codes(users(5_000, (i) => (i === wrong ? `  u${i}: *none\n` : null)))).toEqual([
      `${wrong + 5} invalid-yaml`,
    ]);
    expect(codes(users(5_000, (i) => (i === wrong ? `  u${i}: a: b\n` : null)))[0]).toBe(`${wrong + 5} invalid-yaml`);
  });

  it('is one thing, and the documents around it others', () => {
    const good = users(3_000);
    const bad = users(3_000, (i) => (i === 20 ? '  u20: !x a\n' : null)).replace('name: s', 'name: t');
    const small = `${start('Group')}  members: []\n`;
    const all = [bad, good, small, bad, good.replace('name: s', 'name: z')].join('---\n');
    const { manifests, problems } = read(all);
    expect(manifests.map(({ kind, name }) => `${kind} ${name}`)).toEqual(['Users s', 'Group s', 'Users z']);
    expect(problems.map(({ code }) => code)).toEqual(['unknown-tag', 'unknown-tag']);
  });
});
