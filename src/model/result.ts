/** A value or the reason there is none. Expected failures are values; only programming errors are thrown. */
export type Result<T, E> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: E };

export function ok<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}

export function fail<E>(error: E): { readonly ok: false; readonly error: E } {
  return { ok: false, error };
}

/** The code that the system gave an error (`ENOENT`), for messages; `otherwise` where it gave none. */
export function getErrorCode(error: unknown, otherwise = 'unknown error'): string {
  return error instanceof Error && 'code' in error && error.code !== undefined ? String(error.code) : otherwise;
}

/** For `catch`: the value in place of an error of this code; any other is thrown again. */
export function replaceError<T>(code: string, value: T): (error: unknown) => T {
  return (error) => {
    if (getErrorCode(error) === code) return value;
    throw error;
  };
}

/** What is made, or the other value where that throws: the one who asks does not need to know why. */
export function attempt<T, F>(make: () => T, otherwise: F): T | F {
  try {
    return make();
  } catch {
    return otherwise;
  }
}

/** The value of a text of JSON; undefined for any other text. */
export function decodeJson(text: string): unknown {
  return attempt<unknown, undefined>(() => JSON.parse(text), undefined);
}

/** The members of a text that is an object of JSON; null for any other text. */
export function decodeJsonObject(text: string): Record<string, unknown> | null {
  const value = decodeJson(text);
  return isObject(value) ? value : null;
}

/** Whether a value of JSON is an object, and no list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function omitUndefined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(kept) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
