import { createHmac, createSecretKey, hkdfSync, KeyObject, timingSafeEqual } from 'node:crypto';

/** How two secrets compare; `unknown` when either has no value in this process. */
export type SecretComparison = 'same' | 'changed' | 'unknown';

/** Derived from the API token (HKDF), held in memory only; keys the fingerprints that outputs show. */
export type FingerprintKey = Uint8Array & { readonly __brand: 'FingerprintKey' };

/** The key that fingerprints secrets where this API token is at hand. */
export function deriveFingerprintKey(token: string): FingerprintKey {
  return new Uint8Array(hkdfSync('sha256', token, '', 'reconcile secret fingerprints', 32)) as FingerprintKey;
}

/** HMAC-SHA256 of a text, hex, under a key derived from the API token: only who has the token can make or check it. */
export function sealText(token: string, text: string): string {
  const key = new Uint8Array(hkdfSync('sha256', token, '', 'reconcile saved plans', 32));
  return createHmac('sha256', key).update(text).digest('hex');
}

/** How a file begins that is encrypted, or stands for another in Git LFS. */
export const encrypted =
  /^(?:version https:\/\/git-lfs\.|\0GITCRYPT\0|Salted__|U2FsdGVkX1|\$ANSIBLE_VAULT;|age-encryption\.org|-----BEGIN (?:AGE E|PGP M))/;
export const stillEncrypted = 'This file is encrypted, or a pointer of Git LFS: unlock or fetch it in a step before.';

const hidden = '(secret)';

/** A value that cannot be printed. One without a value, whose reference is not known here, compares as `unknown` and causes no write. */
export class Secret {
  readonly #value: string | undefined;
  readonly #source: string | undefined;

  private constructor(value: string | undefined, source?: string) {
    this.#value = value;
    this.#source = source;
  }

  static of(value: string, source?: string): Secret {
    return new Secret(value, source);
  }

  static unknown(source?: string): Secret {
    return new Secret(undefined, source);
  }

  static fromKey(key: object | null): Secret {
    return new Secret(key instanceof KeyObject ? key.export().toString('utf16le') : undefined);
  }

  /** As a `KeyObject`, which another thread can get and nothing prints; null: unknown. Its type is not named, for the library's users. */
  toKey(): object | null {
    return this.#value === undefined ? null : createSecretKey(this.#value, 'utf16le');
  }

  get known(): boolean {
    return this.#value !== undefined;
  }

  /** The reference of a manifest, `{env: RECONCILE_SECRET_G}`; undefined where none is known. */
  get source(): string | undefined {
    return this.#source;
  }

  /** Compares in constant time for equal lengths; by their references where a value is missing. */
  compare(other: Secret): SecretComparison {
    if (this.#value === undefined || other.#value === undefined) {
      if (this.source === undefined || other.source === undefined) return 'unknown';
      return this.source !== other.source ? 'changed' : this.known === other.known ? 'same' : 'unknown';
    }
    const mine = Buffer.from(this.#value);
    const theirs = Buffer.from(other.#value);
    return mine.length === theirs.length && timingSafeEqual(mine, theirs) ? 'same' : 'changed';
  }

  /** Twelve hex digits of HMAC-SHA256 under the key; null when the value is unknown. */
  fingerprint(key: FingerprintKey): string | null {
    if (this.#value === undefined) return null;
    return createHmac('sha256', key).update(this.#value).digest('hex').slice(0, 12);
  }

  /** The first group of a pattern in the value, for what is public in it, such as the `entityID` of SAML metadata. */
  extract(pattern: RegExp): string | null {
    return pattern.exec(this.#value ?? '')?.[1] ?? null;
  }

  toString(): string {
    return hidden;
  }

  toJSON(): string {
    return hidden;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return hidden;
  }

  /** The only way out as text, called by `reveal` alone. */
  static reveal(secret: Secret): string | undefined {
    return secret.#value;
  }
}

/** The secret's text, for a request body or a check of its shape, never for an output; undefined when it is unknown. */
export function reveal(secret: Secret): string | undefined {
  return Secret.reveal(secret);
}
