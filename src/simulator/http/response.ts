/** An answer before it is written; `crash` is the bare 500, `refuse` the bare answer that also closes the connection. */
export type HttpAnswer =
  | { readonly kind: 'json'; readonly status: number; readonly body: string | Buffer; readonly location?: string }
  | { readonly kind: 'empty'; readonly status: 204; readonly typed: boolean }
  | { readonly kind: 'crash' }
  | { readonly kind: 'refuse'; readonly status: 400 | 414 | 431 | 501 };

export const json = (status: number, body: unknown): HttpAnswer => ({
  kind: 'json',
  status,
  body: JSON.stringify(body),
});

export const crashAnswer: HttpAnswer = { kind: 'crash' };
export const notFound: HttpAnswer = { kind: 'json', status: 404, body: '{"error":"not_found"}' };
export const unauthorized: HttpAnswer = { kind: 'json', status: 401, body: '{"error":"Unauthorized"}' };

/** Messages by field, as the 422 body shows them. */
export type FieldErrors = Readonly<Record<string, unknown>>;

/** The 422 with field messages; fields are listed alphabetically, as everything the server prints. */
export function answerInvalid(errors: FieldErrors): HttpAnswer {
  const sorted = Object.fromEntries(Object.entries(errors).sort(([a], [b]) => (a < b ? -1 : 1)));
  return json(422, { errors: sorted });
}
