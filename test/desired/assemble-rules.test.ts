import fc from 'fast-check';
import { expect, it } from 'vitest';
import { assembleRules, type WrittenRules } from '../../src/desired/assemble-rules.ts';
import { parseFile } from '../../src/desired/parse-files.ts';
import type { FileManifests } from '../../src/manifest/manifest.ts';
import { runs } from '../property/runs.ts';
import { sourceFile, testContext } from './helpers.ts';

const context = testContext();
const parsedFiles = new Map<string, FileManifests>();

/** A file of one set, parsed once. */
function fileOf(name: string, rules: readonly string[]): FileManifests {
  const items = rules.map((rule, n) => {
    const [action, destination] = rule.split(' ');
    return `    - {name: r${n}, action: ${action}, destination: ${destination}}\n`;
  });
  const list = items.length === 0 ? ' []\n' : `\n${items.join('')}`;
  const text = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: ${name}}\nspec:\n  rules:${list}`;
  const parsed = parsedFiles.get(text) ?? parseFile(sourceFile(`${name}.yaml`, text), context);
  parsedFiles.set(text, parsed);
  return parsed;
}

/** Rules of which some collide, beside many that do not, so that a change is a small part of all. */
const colliding = ['accept 10.1.0.0/16', 'drop 10.1.0.0/16', 'drop 10.1.2.0/24', 'accept 10.9.0.0/16'];
const anyFile = fc.uniqueArray(fc.constantFrom(...colliding), { maxLength: 2 });
const others = Array.from({ length: 40 }, (_, n) => `drop 172.16.${n}.0/24`);

it('what is as it was in a version without a fault is not checked again, and no fault is missed', () => {
  const seen = { faulty: 0, fine: 0 };
  fc.assert(
    fc.property(fc.array(fc.tuple(anyFile, anyFile), { minLength: 2, maxLength: 8 }), (versions) => {
      let before: WrittenRules | null = null;
      for (const [a, b] of versions) {
        const parsed = { files: [], manifests: [fileOf('a', a), fileOf('b', b), fileOf('others', others)] };
        const rules = assembleRules(parsed, context, before);
        const { fault } = assembleRules(parsed, context, null);
        expect(rules.fault?.code).toBe(fault?.code);
        if (fault === null) before = rules;
        seen[fault === null ? 'fine' : 'faulty']++;
      }
    }),
    { numRuns: runs(1000) },
  );
  expect(Math.min(seen.faulty, seen.fine)).toBeGreaterThan(20);
});
