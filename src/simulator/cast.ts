import { Float, type JsonTerm } from './http/json.ts';

/** What casting a sent value gives: the value, or "it is no such value". `undefined` means not sent. */
export type Cast<T> = { readonly value: T } | { readonly message: string };

export const invalidMessage = { message: 'is invalid' } as const;
export const blank = "can't be blank";

/** Casts true, false and their four spellings as text. */
export function castBoolean(term: JsonTerm): Cast<boolean | null> {
  if (term === null || typeof term === 'boolean') return { value: term };
  if (term === 'true' || term === '1') return { value: true };
  if (term === 'false' || term === '0') return { value: false };
  return invalidMessage;
}

/** Casts integers and integers as text; 1.0 is none. */
export function castInteger(term: JsonTerm): Cast<number | bigint | null> {
  if (term === null || typeof term === 'number' || typeof term === 'bigint') return { value: term };
  if (typeof term !== 'string' || !/^[+-]?[0-9]+$/.test(term)) return invalidMessage;
  const value = BigInt(term.replace('+', ''));
  return { value: Number.isSafeInteger(Number(value)) ? Number(value) : value };
}

export function castString(term: JsonTerm): Cast<string | null> {
  return term === null || typeof term === 'string' ? { value: term } : invalidMessage;
}

/** Casts an array of texts; empty texts in it are dropped, null stays. */
export function castStrings(term: JsonTerm): Cast<readonly (string | null)[] | null> {
  if (term === null) return { value: null };
  if (!Array.isArray(term) || term instanceof Float) return invalidMessage;
  const items = term as readonly JsonTerm[];
  if (!items.every((item) => item === null || typeof item === 'string')) return invalidMessage;
  return { value: items.filter((item) => item !== '') };
}

const whiteSpace = '[\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const endsPattern = new RegExp(`^${whiteSpace}+|${whiteSpace}+$`, 'g');

/** Trims Unicode white space as the server does; unlike `String.prototype.trim` it keeps a byte order mark. */
export function trim(text: string): string {
  return text.replace(endsPattern, '');
}
