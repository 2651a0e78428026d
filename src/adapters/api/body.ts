import { fail, ok, type Result } from '../../model/result.ts';
import { reveal, Secret } from '../../model/secret.ts';

/**
 * The JSON text of a request body: the one place where a `Secret` becomes bytes. Fails, and nothing is sent, when a
 * secret has no value in this process.
 */
export function toBytes(body: Readonly<Record<string, unknown>>): Result<string, string> {
  let missing = false;
  const text = JSON.stringify(body, function (this: Record<string, unknown>, key: string, value: unknown): unknown {
    const original = this[key]; // `value` has been through Secret.toJSON already
    if (!(original instanceof Secret)) return value;
    const revealed = reveal(original);
    if (revealed === undefined) missing = true;
    return revealed;
  });
  return missing ? fail('a secret that the request needs has no value here') : ok(text);
}
