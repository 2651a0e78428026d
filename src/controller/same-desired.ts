import type { Secret } from '../model/secret.ts';
import type { DesiredState } from '../model/state.ts';

/**
 * Whether the desired state is what was last brought into effect, by its digest then and its state where that is known, secrets
 * included. The same revision asks for something else once values, the scope or a secret's file are others.
 */
export function isInEffect(desired: DesiredState, digest: string | null, state: DesiredState | null): boolean {
  if (digest !== null && digest !== desired.digest) return false;
  if (state === null) return true;
  const before = secretsOf(state);
  return secretsOf(desired).every((secret, index) => before[index]?.compare(secret) !== 'changed');
}

function secretsOf({ configuration }: DesiredState): readonly Secret[] {
  const { openid_connect_providers: oidc = [], saml_identity_providers: saml = [] } = configuration?.fields ?? {};
  return [...oidc.map((one) => one.client_secret), ...saml.map((one) => one.metadata)];
}
