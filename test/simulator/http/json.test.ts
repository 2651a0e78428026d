import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Float, isMap, type JsonTerm, parseJson, ServerCrash } from '../../../src/simulator/http/json.ts';
import { runs } from '../../property/runs.ts';

function plain(term: JsonTerm): unknown {
  if (term instanceof Float) return term.value;
  if (isMap(term)) return Object.fromEntries([...term].map(([key, value]) => [key, plain(value)]));
  return Array.isArray(term) ? (term as JsonTerm[]).map(plain) : typeof term === 'bigint' ? Number(term) : term;
}

describe('parseJson', () => {
  test('reads what JSON.stringify writes, as JSON.parse does', () => {
    const value = fc.jsonValue().filter((item) => !JSON.stringify(item).includes('__proto__'));
    fc.assert(
      fc.property(value, (item) => {
        const text = JSON.stringify(item);
        expect(plain(parseJson(text))).toEqual(JSON.parse(text));
      }),
      { numRuns: runs(1_000) },
    );
  });

  test('refuses what JSON.parse refuses', () => {
    const text = fc.string({ unit: fc.constantFrom(...'{}[]",:0123.eE+-truefalsn \\u'.split('')), maxLength: 12 });
    const accepts = (parse: () => unknown): boolean => {
      try {
        parse();
        return true;
      } catch (error) {
        if (error instanceof ServerCrash || error instanceof SyntaxError) return false;
        throw error;
      }
    };
    fc.assert(
      fc.property(text, (item) => {
        expect(accepts(() => parseJson(item))).toBe(accepts(() => JSON.parse(item)));
      }),
      { numRuns: runs(5_000) },
    );
  });

  test('the first of duplicate keys wins, floats stay floats, large integers keep their digits', () => {
    expect(parseJson('{"a":1,"a":2}')).toEqual(new Map([['a', 1]]));
    expect(parseJson('[1.0,1,12345678901234567890]')).toEqual([new Float(1), 1, 12345678901234567890n]);
    expect(() => parseJson('"\\ud800"')).toThrow(ServerCrash);
  });
});
