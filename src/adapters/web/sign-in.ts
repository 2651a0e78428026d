import { randomBytes } from 'node:crypto';
import type { Clock } from '../../ports.ts';
import { type Bucket, createBucket, isSameSecret } from './secret.ts';

const sessionMs = 12 * 3_600_000;
const mostSessions = 100;
const mostAddresses = 1000;

/** Sessions of people who signed in with the token; a new token ends those of the old one. */
export class Sessions {
  readonly #clock: Clock;
  readonly #open = new Map<string, { readonly token: string; readonly until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The new session's id, which only the browser learns. */
  begin(token: string): string {
    const id = randomBytes(32).toString('base64url');
    this.#open.set(id, { token, until: this.#clock.now() + sessionMs });
    for (const oldest of [...this.#open.keys()].slice(0, -mostSessions)) this.#open.delete(oldest);
    return id;
  }

  isOpen(id: string, token: string): boolean {
    const session = this.#open.get(id);
    return session !== undefined && session.until > this.#clock.now() && isSameSecret(session.token, token);
  }

  end(id: string): void {
    this.#open.delete(id);
  }
}

/** One network of IPv6 (its first 64 bits) counts as one address. */
function networkOf(address: string): string {
  if (address.includes('.')) return address;
  const [left = [], right = []] = address.split('::').map((half) => half.split(':'));
  // `::` stands for zeros, so that each address of `2001:db8::/64` would otherwise count by itself.
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}

/** Slows down who guesses the token: ten tries at once, then one every ten seconds, for each address that they come from. */
export class Guesses {
  readonly #clock: Clock;
  readonly #left = new Map<string, Bucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether what comes from there is still looked at. */
  mayTry(address: string): boolean {
    return this.#left.get(networkOf(address))?.left() ?? true;
  }

  failed(from: string): void {
    const address = networkOf(from);
    const bucket = this.#left.get(address) ?? createBucket(this.#clock, { burst: 10, perSecond: 0.1 });
    bucket.take();
    this.#left.delete(address);
    this.#left.set(address, bucket);
    for (const oldest of [...this.#left.keys()].slice(0, -mostAddresses)) this.#left.delete(oldest);
  }
}
