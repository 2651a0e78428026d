import { parseNetwork } from '../model/address.ts';
import { type ConfigurationFields, type LiveConfiguration, leavesNoSignIn } from '../model/configuration.ts';
import { makeError, makeNote, makeWarning, type Problem } from '../model/problem.ts';

/** Said where no stored rule has ports. */
export const noPortRule = makeNote(
  'port-rules-unknown',
  'no live rule has ports, so nothing shows whether this server supports port rules (Linux later than 5.6.8 does)',
  'an apply compares each answer with what was sent: where ports are dropped silently, the rule is taken back and the run fails',
);

/** Findings in the stored Configuration: what the server would not boot with, or locks people out with. */
export function diagnoseConfiguration({ fields }: LiveConfiguration): readonly Problem[] {
  return [...poisonedAddresses(fields), ...providerFindings(fields), ...noSignIn(fields), pinned];
}

/** GET shows what is stored, never what the environment puts over it (observed: recordings/configuration_env_override). */
const pinned = makeNote(
  'pinned-unknown',
  "fields pinned by the server's environment cannot be seen without writing",
  'an apply that meets one goes on without it and names it (`field-pinned`)',
);

/** Equal entries after canonicalisation: every later PATCH is refused and the server does not boot (observed: recordings/configuration_poisoned). */
function poisonedAddresses({ default_client_allowed_ips: stored }: ConfigurationFields): readonly Problem[] {
  const canonical = (stored ?? []).map((text) => {
    const parsed = parseNetwork(text);
    return parsed.ok ? `${parsed.value.network.text} ${parsed.value.hostBits ? text : ''}` : text;
  });
  const twice = canonical.filter((text, index) => canonical.indexOf(text) !== index);
  const harm = 'the server refuses every change of the Configuration and does not boot again';
  const hint = 'no API call repairs it: before the next restart, remove the second row of the table `configurations`';
  return twice.map((text) =>
    makeError('poisoned-configuration', `default_client_allowed_ips holds ${text.trim()} twice: ${harm}`, hint),
  );
}

function providerFindings(fields: ConfigurationFields): readonly Problem[] {
  const ids = [...fields.openid_connect_providers, ...fields.saml_identity_providers].map(({ id }) => id);
  const twice = [...new Set(ids.filter((id, index) => ids.indexOf(id) !== index))];
  const duplicates = twice.map((id) => {
    const summary = `two providers have the id ${id}: the server accepts it, and people reach only one of them`;
    return makeWarning('duplicate-provider', summary, 'give each provider an id of its own');
  });
  const count = fields.openid_connect_providers.length;
  if (count === 0) return duplicates;
  const summary = `the server does not boot while a discovery document of its ${count} OpenID Connect providers cannot be fetched`;
  const hint = 'check them with `reconcile doctor --check-discovery`, from a place with the server’s network';
  return [...duplicates, makeNote('boot-hazard', summary, hint)];
}

function noSignIn(fields: ConfigurationFields): readonly Problem[] {
  if (!leavesNoSignIn(fields)) return [];
  const summary = 'local sign-in is off and there is no provider: nobody can sign in';
  return [makeError('no-sign-in', summary, 'set local_auth_enabled: true, or add a provider')];
}
