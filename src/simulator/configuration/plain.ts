import { Float, isMap, type Term } from '../http/json.ts';

/** A term as the plain JavaScript value that prints as the same JSON. */
export function plain(term: Term): unknown {
  if (term instanceof Float) return term.value;
  if (typeof term === 'bigint') return Number(term);
  if (isMap(term)) return Object.fromEntries([...term].map(([key, value]) => [key, plain(value)]));
  return Array.isArray(term) ? term.map(plain) : term;
}
