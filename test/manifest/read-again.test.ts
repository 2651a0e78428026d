import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type ReadRequest, readAgain, readManifests } from '../../src/manifest/read-manifests.ts';
import { findProfile } from '../../src/model/profile.ts';
import { runs } from '../property/runs.ts';

const requestOf = (text: string, work?: number): ReadRequest => {
  const bytes = new TextEncoder().encode(text);
  return {
    path: 'a.yaml',
    bytes,
    profile: findProfile('firezone-0.7'),
    values: null,
    documents: 100,
    ...(work && { work }),
  };
};

const head = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: lab}\nspec:\n  rules:\n';

/** Lines of rules in one line, in several, with what another line may mean, with errors, and what is no rule. */
const anyLine = fc.oneof(
  { weight: 30, arbitrary: fc.nat(9).map((n) => `    - {name: r${n}, action: drop, destination: 10.0.${n}.0/24}`) },
  { weight: 20, arbitrary: fc.nat(9).map((n) => `    - {name: s${n}, action: accept, destination: 10.1.0.${n}}`) },
  fc.constantFrom(
    '    - name: long\n      action: drop\n      destinations:\n        - {network: office}\n        - 10.2.0.0/16',
    '    - {name: list, action: drop, destinations: [10.3.0.0/16, {network: office}]}',
    '    - {name: host, action: drop, destination: 10.4.0.1/16}',
    '    - {name: faulty, action: drop, destination: 10.5}',
    '    - {name: noted, action: drop, destination: 10.6.0.0/16} # reconcile-ignore: host-bits known',
    '    - {name: inherits, action: accept}',
    '    - {name: inherits2, action: drop, port_range: [80, 443], port_type: tcp}',
    '    - name: owned\n      action: drop\n      destination: 10.9.0.0/16\n      owner: |+\n        us',
    '    - name: noted\n      action: drop\n      destination: 10.9.1.0/24\n      owner: |\n        us',
    '          # a comment further in',
    '      - {name: deeper, action: drop, destination: 10.7.0.0/16}',
    '    # a comment',
    '  defaults: {action: accept}',
    '---',
    '    - {name: x, action: drop, destination: 10.8.0.0/16, port_range: 1, port_type: tcp}',
  ),
);
const anyRules = fc.uniqueArray(anyLine, { maxLength: 8 });
const anyHead = fc.constantFrom(head, head.replace('spec:', 'spec:\n  defaults: {destination: 10.10.0.0/16}'));
const edits = fc.array(fc.tuple(fc.nat(7), anyLine), { minLength: 1, maxLength: 2 });
/** Most that a file may cost: some cost more after an edit. */
const anyLimit = fc.constantFrom(undefined, 100, 200, 300);

it('a file that is read again holds what it holds when it is read anew', () => {
  let again = 0;
  fc.assert(
    fc.property(anyHead, anyRules, edits, anyLimit, (start, lines, changes, work) => {
      const edited = [...lines];
      for (const [at, line] of changes) if (at < edited.length) edited[at] = line;
      const [then, now] = [lines, edited].map((rules) => requestOf(`${start}${rules.join('\n')}\n`, work));
      if (then === undefined || now === undefined) throw new Error('two requests');
      const read = readAgain(now, then.bytes, readManifests(then));
      if (read === null) return;
      again++;
      expect(read).toEqual(readManifests(now));
    }),
    { numRuns: runs(3000) },
  );
  expect(again).toBeGreaterThan(0);
});
