import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SortedKeys } from '../../../src/simulator/rules/sorted-keys.ts';

test('the keys with a prefix come out in order, over many chunks, after keys have gone', () => {
  const key = fc.array(fc.constantFrom('0', '1'), { minLength: 1, maxLength: 14 }).map((bits) => bits.join(''));
  fc.assert(
    fc.property(fc.uniqueArray(key, { minLength: 600, maxLength: 2_000 }), key, (keys, prefix) => {
      const sorted = new SortedKeys();
      for (const item of keys) sorted.add(item);
      const kept = keys.filter((_, index) => index % 3 > 0);
      for (const [index, item] of keys.entries()) if (index % 3 === 0) sorted.delete(item);
      const expected = kept.filter((item) => item.startsWith(prefix)).sort();
      expect([...sorted.startingWith(prefix)]).toEqual(expected);
    }),
    { numRuns: 30 },
  );
});
