import fc from 'fast-check';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { alice, bob, startWorld, type World } from '../cli/harness.ts';
import { runs } from './runs.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
});
afterEach(() => world.close());

const anyRule = fc.record({
  action: fc.constantFrom('accept', 'drop'),
  destination: fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '10.1.2.0/24', '10.1.2.3', '0.0.0.0/0', 'fd00::/8'),
  ports: fc.constantFrom('', '', ', port_type: tcp, port_range: 443', ', port_type: tcp, port_range: 80-500'),
  user: fc.constantFrom('', '', ', user: alice', ', user: bob'),
});

/** Rules that one server can hold together: one for each destination, user and kind of port. */
const anyPolicy = fc.uniqueArray(anyRule, {
  maxLength: 6,
  selector: ({ destination, user, ports }) => `${destination}${user}${ports === '' ? '' : 'tcp'}`,
});

const people = `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec: {alice: ${alice}, bob: ${bob}}\n---\n`;

function policyText(rules: readonly { action: string; destination: string; ports: string; user: string }[]): string {
  const items = rules.map(
    ({ action, destination, ports, user }, n) =>
      `    - {name: r${n}, action: ${action}, destination: "${destination}"${ports}${user}}\n`,
  );
  const set = `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: lab}\nspec:\n  rules:\n${items.join('')}`;
  return rules.length === 0 ? people : people + set;
}

it.each([
  ['', 5],
  [' (long)', runs(300)],
])(
  'what diff says from one policy to another is what a plan says to a server that holds the first%s',
  async (_, numRuns) => {
    const anything = ['--allow-empty', '--max-deletes', '100%', '--max-changes', '100%'];
    await fc.assert(
      fc.asyncProperty(anyPolicy, anyPolicy, async (before, after) => {
        world.write('a/policy.yaml', policyText(before));
        world.write('b/policy.yaml', policyText(after));
        const applied = await world.cli(['apply', 'a', ...anything, '--max-exposure', 'any']);
        fc.pre(applied.code === 0);
        const planned = (await world.cli(['plan', 'b', ...anything, '--output', 'json'])).json();
        const told = (await world.cli(['diff', 'a', 'b', '--output', 'json'])).json();
        expect(told.effect).toEqual(planned.effect);
      }),
      { numRuns },
    );
  },
);
