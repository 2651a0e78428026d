import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { type FingerprintKey, reveal, Secret } from '../../src/model/secret.ts';

const key = new Uint8Array(32).fill(7) as FingerprintKey;

describe('a secret', () => {
  const secret = Secret.of('canary-value');

  it('cannot be printed by any usual way', () => {
    const printed = [`${secret}`, JSON.stringify({ secret }), inspect(secret, { showHidden: true, depth: 9 })];
    for (const text of printed) expect(text).not.toContain('canary');
    expect(Object.keys(secret)).toEqual([]);
  });

  it('is revealed only by the function that says so', () => {
    expect(reveal(secret)).toBe('canary-value');
    expect(reveal(Secret.unknown())).toBeUndefined();
  });

  it.each(['canary-value', '', 'ä\ud800\u0000'])('passes to another thread as a key: %j', (value) => {
    const passed = structuredClone(Secret.of(value).toKey());
    expect(inspect(passed, { showHidden: true, depth: 9 })).not.toContain('canary');
    expect(reveal(Secret.fromKey(passed))).toBe(value);
    expect(Secret.unknown().toKey()).toBeNull();
  });

  it.each([
    ['same', Secret.of('canary-value')],
    ['changed', Secret.of('canary-valuf')],
    ['changed', Secret.of('longer canary-value')],
    ['unknown', Secret.unknown()],
  ])('compares as %s', (expected, other) => {
    expect([secret.compare(other), other.compare(secret)]).toEqual([expected, expected]);
  });

  it('has a fingerprint that depends on the key and on the value', () => {
    const other = new Uint8Array(32).fill(8) as FingerprintKey;
    expect(secret.fingerprint(key)).toMatch(/^[0-9a-f]{12}$/);
    expect(secret.fingerprint(key)).toBe(Secret.of('canary-value').fingerprint(key));
    expect(secret.fingerprint(key)).not.toBe(secret.fingerprint(other));
    expect(Secret.unknown().fingerprint(key)).toBeNull();
  });
});
