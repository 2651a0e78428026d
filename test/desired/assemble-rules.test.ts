import fc from 'fast-check';
import { expect, it } from 'vitest';
import { assemble, assembleRules } from '../../src/desired/desired.ts';
import { parseFiles } from '../../src/desired/parse-files.ts';
import type { FileManifests } from '../../src/manifest/manifest.ts';
import { readManifests } from '../../src/manifest/read-manifests.ts';
import { ok } from '../../src/model/result.ts';
import { Secret } from '../../src/model/secret.ts';
import { runs } from '../property/runs.ts';
import { document, sourceFile, testContext, usersNamed } from './helpers.ts';

const context = testContext();
const parsedFiles = new Map<string, FileManifests>();

/** A file of one set, parsed once. */
function fileOf(name: string, rules: readonly string[]): FileManifests {
  const items = rules.map((rule, n) => {
    const [action, destination, expires] = rule.split(' ');
    const end = expires === undefined ? '' : `, expires: ${expires}`;
    return `    - {name: r${n}, action: ${action}, destination: ${destination}${end}}\n`;
  });
  const list = items.length === 0 ? ' []\n' : `\n${items.join('')}`;
  const text = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: ${name}}\nspec:\n  rules:${list}`;
  const parsed = parsedFiles.get(text) ?? readManifests(sourceFile(`${name}.yaml`, text), context);
  parsedFiles.set(text, parsed);
  return parsed;
}

/** Rules of which some collide, beside many that do not, so that a change is a small part of all. */
const ended = 'drop 10.1.0.0/16 2020-01-01';
const colliding = ['accept 10.1.0.0/16', 'drop 10.1.0.0/16', 'drop 10.1.2.0/24', 'accept 10.9.0.0/16', ended];
/** The ended rule comes back without an end, and meets what it had not met. */
const ofOneThatHadEnded: [string[], string[]][] = [
  [['drop 10.1.2.0/24'], [ended]],
  [['drop 10.1.2.0/24'], ['drop 10.1.0.0/16']],
];
const anyFile = fc.uniqueArray(fc.constantFrom(...colliding), { maxLength: 2 });
const others = Array.from({ length: 40 }, (_, n) => `drop 172.16.${n}.0/24`);

it('what is as it was in a version without a fault is not checked again, and no fault is missed', () => {
  const seen = { faulty: 0, fine: 0 };
  fc.assert(
    fc.property(fc.array(fc.tuple(anyFile, anyFile), { minLength: 2, maxLength: 8 }), (versions) => {
      for (const [a, b] of versions) {
        const parsed = { files: [], manifests: [fileOf('a', a), fileOf('b', b), fileOf('others', others)] };
        const anew = { ...context, profile: { ...context.profile } };
        const rules = assembleRules(parsed, anew);
        expect(assembleRules(parsed, context)).toEqual(rules);
        expect(assemble(parsed, null, context)).toEqual(assemble({ ...parsed }, null, anew));
        seen[rules.ok ? 'fine' : 'faulty']++;
      }
    }),
    { numRuns: runs(1000), examples: [[ofOneThatHadEnded]] },
  );
  expect(Math.min(seen.faulty, seen.fine)).toBeGreaterThan(20);
});

it('the same files again are the same state, unless a time, a secret, a user or a setting makes it another one', () => {
  const set = (rule: string): string => document('RuleSet', 'lab', `{rules: [{name: one, action: accept, ${rule}}]}`);
  const secret = '{env: CLIENT_SECRET}';
  const provider = `{id: sso, label: S, client_id: c, client_secret: ${secret}, discovery_document_uri: "https://idp.example/x", auto_create_users: false}`;
  const [alice, bob] = ['a', 'b'].map((digit) => `11111111-1111-4111-8111-11111111111${digit}`) as [string, string];
  const day = 86_400_000;
  const other = {
    now: context.now + 2 * day,
    users: usersNamed({ 'ann@example.com': bob }),
    scope: { ...context.scope, users: new Set([null]) },
    resolveSecret: () => ok(Secret.of('another')),
  };
  const texts = {
    plain: set('destination: 10.0.0.1'),
    timed: set(`destination: 10.0.0.1, expires: ${new Date(context.now + day).toISOString().slice(0, 10)}`),
    personal: set('destination: 10.0.0.1, user: ann@example.com'),
    secret:
      set('destination: 10.0.0.1') +
      `---\n${document('Configuration', 'c', `{openid_connect_providers: [${provider}]}`)}`,
  };
  for (const [name, text] of Object.entries(texts)) {
    const users = usersNamed({ 'ann@example.com': alice });
    const files = [sourceFile('lab.yaml', text)];
    const parsed = parseFiles(files, context);
    const first = assemble(parsed, users, context);
    expect(first.problems.filter(({ severity }) => severity === 'error')).toEqual([]);
    expect(assemble(parsed, users, { ...context, now: context.now + 1 }) === first).toBe(
      name === 'plain' || name === 'personal',
    );
    for (const [key, value] of Object.entries(other)) {
      const { users: known, ...changed } = { ...context, users, [key]: value };
      expect(assemble(parsed, known, changed)).toEqual(assemble(parseFiles(files, context), known, changed));
      assemble(parsed, users, context);
    }
  }
});
