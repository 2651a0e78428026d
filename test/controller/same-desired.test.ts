import { describe, expect, it } from 'vitest';
import { isInEffect } from '../../src/controller/pass-runner.ts';
import { Secret } from '../../src/model/secret.ts';
import type { DesiredState } from '../../src/model/state.ts';

function state(digest: string, ...secrets: readonly Secret[]): DesiredState {
  const oidc = secrets.map((client_secret) => ({ client_secret }));
  return { digest, configuration: { fields: { openid_connect_providers: oidc } } } as unknown as DesiredState;
}

describe('what is desired', () => {
  it.each([
    ['the same text and secrets', state('a', Secret.of('x')), state('a', Secret.of('x')), true],
    ['another text', state('a', Secret.of('x')), state('b', Secret.of('x')), false],
    ['another secret', state('a', Secret.of('x')), state('a', Secret.of('y')), false],
    [
      'the second of two secrets',
      state('a', Secret.of('x'), Secret.of('y')),
      state('a', Secret.of('x'), Secret.of('z')),
      false,
    ],
    ['a secret that is not here', state('a', Secret.of('x')), state('a', Secret.unknown()), true],
  ])('is in effect or not: %s', (_, before, now, same) => {
    expect(isInEffect(now, before.digest, before)).toBe(same);
  });

  it('is told by its digest alone after a restart, and taken for the same without a record', () => {
    expect(isInEffect(state('a'), 'b', null)).toBe(false);
    expect(isInEffect(state('a', Secret.of('x')), 'a', null)).toBe(true);
    expect(isInEffect(state('a'), null, null)).toBe(true);
  });
});
