/** The code of an error of Node or the system (`ENOENT`), for messages and decisions; `unknown error` where it has none. */
export function readErrorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
}
