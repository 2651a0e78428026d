import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createOverlapIndex } from '../../../src/simulator/rules/overlap.ts';
import type { RuleRow } from '../../../src/simulator/rules/rule.ts';
import { runs } from '../../property/runs.ts';

type Candidate = Pick<RuleRow, 'action' | 'network' | 'ports' | 'userId'>;

/** Few bits, few ports, few users: so that most pairs meet. */
const candidate: fc.Arbitrary<Candidate> = fc.record({
  action: fc.constantFrom('accept', 'drop'),
  network: fc.record({
    family: fc.constantFrom(4, 6),
    bits: fc.array(fc.constantFrom('0', '1', '0000000'), { maxLength: 5 }).map((bits) => bits.join('')),
  }),
  ports: fc.option(
    fc.record({
      type: fc.constantFrom('tcp', 'udp'),
      range: fc
        .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 0, max: 4 }))
        .map(([low, more]) => ({ low, high: low + more })),
    }),
  ),
  userId: fc.constantFrom(null, 'alice'),
});

/** The constraint as the database states it. */
function collide(left: Candidate, right: Candidate): boolean {
  const nested = left.network.bits.startsWith(right.network.bits) || right.network.bits.startsWith(left.network.bits);
  const sameClass =
    left.action === right.action && left.userId === right.userId && left.network.family === right.network.family;
  if (!nested || !sameClass || (left.ports === null) !== (right.ports === null)) return false;
  if (left.ports === null || right.ports === null) return true;
  const [a, b] = [left.ports.range, right.ports.range];
  return left.ports.type === right.ports.type && a.low <= b.high && b.low <= a.high;
}

test('the index refuses exactly the rules that collide with one that is there, whatever came and went before', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(candidate, fc.nat()), { maxLength: 60 }), (steps) => {
      const index = createOverlapIndex();
      const held: Candidate[] = [];
      for (const [rule, number] of steps) {
        const expected = held.some((other) => collide(rule, other));
        expect(index.conflicts(rule)).toBe(expected);
        if (!expected) {
          index.add(rule);
          held.push(rule);
        }
        if (number % 3 === 0 && held.length > 0) {
          const [gone] = held.splice(number % held.length, 1);
          if (gone !== undefined) index.delete(gone);
        }
      }
    }),
    { numRuns: runs(500) },
  );
});
