import { fail, ok, type Result } from '../../model/result.ts';
import { reveal, Secret } from '../../model/secret.ts';

/** A request body on its way out, and the means to keep its secrets out of what comes back. */
export interface SecretBody {
  readonly text: string;
  /** The same JSON value with every secret of this body replaced in its texts: a server's error may quote what was sent. */
  scrub(answer: unknown): unknown;
}

/** A request body as JSON: the one place where a `Secret` becomes bytes. Fails when a secret has no value in this process. */
export function toBytes(body: Readonly<Record<string, unknown>>): Result<SecretBody, string> {
  const secrets = new Set<string>();
  let missing = false;
  const text = JSON.stringify(body, function (this: Record<string, unknown>, key: string, value: unknown): unknown {
    const original = this[key]; // `value` has been through Secret.toJSON already
    if (!(original instanceof Secret)) return value;
    const revealed = reveal(original);
    if (revealed === undefined) missing = true;
    else if (revealed !== '') secrets.add(revealed);
    return revealed;
  });
  if (missing) return fail('a secret that the request needs has no value here');
  return ok({ text, scrub: (answer) => removeSecrets(answer, secrets) });
}

/** A JSON value with each secret replaced in its texts and keys, however it is spelt there. */
export function removeSecrets(value: unknown, secrets: ReadonlySet<string>): unknown {
  return scrub(value, spellingsOf(secrets));
}

/** Each secret as it is and as it may be quoted: JSON-escaped, URL-encoded, base64, hex; the longest first. */
function spellingsOf(secrets: ReadonlySet<string>): readonly string[] {
  const spellings = new Set<string>();
  for (const secret of secrets) {
    spellings.add(secret);
    spellings.add(JSON.stringify(secret).slice(1, -1));
    spellings.add(encodeURIComponent(secret));
    const bytes = Buffer.from(secret);
    spellings.add(bytes.toString('base64')).add(bytes.toString('base64url'));
    spellings.add(bytes.toString('hex')).add(bytes.toString('hex').toUpperCase());
  }
  return [...spellings].sort((a, b) => b.length - a.length);
}

function scrub(value: unknown, spellings: readonly string[]): unknown {
  if (typeof value === 'string') return spellings.reduce((text, one) => text.replaceAll(one, '(secret)'), value);
  if (Array.isArray(value)) return value.map((item: unknown) => scrub(item, spellings));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [String(scrub(key, spellings)), scrub(inner, spellings)]),
  );
}
