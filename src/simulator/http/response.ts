/** An answer before it is written. */
export interface HttpAnswer {
  readonly status: number;
  /** JSON. */
  readonly body?: string | Buffer;
  readonly location?: string;
  /** Names its type without a body. */
  readonly typed?: true;
  /** Has no headers but its length; `closes`: and ends the connection. */
  readonly bare?: 'stays' | 'closes';
}

export const json = (status: number, body: unknown): HttpAnswer => ({ status, body: JSON.stringify(body) });

export const crashAnswer: HttpAnswer = { status: 500, bare: 'stays' };
export const notFound = { status: 404, body: '{"error":"not_found"}' } as const;
export const unauthorized: HttpAnswer = { status: 401, body: '{"error":"Unauthorized"}' };

/** Messages by field, as the 422 body shows them. */
export type FieldErrors = Readonly<Record<string, unknown>>;

/** The 422 with field messages; fields are listed alphabetically, as everything the server prints. */
export function answerInvalid(errors: FieldErrors): HttpAnswer {
  return json(422, { errors: sortKeys(errors) });
}

export function sortKeys<T>(record: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}
