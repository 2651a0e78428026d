import { findSecretHost, type SecretBinding } from '../../model/configuration.ts';
import { makeWarning, type Problem } from '../../model/problem.ts';
import type { DesiredState } from '../../model/state.ts';
import type { ConfigurationDecision } from '../decide-configuration.ts';
import type { PlanInput } from '../input.ts';
import type { Plan, Refusal } from '../plan.ts';

/**
 * Who can edit manifests could send any of the operator's secrets to a host of their own: a provider with `client_secret: {env: …}`
 * and a discovery document elsewhere. So each secret that is new to a provider and host must be bound to them.
 *
 * | secret of the reference                                      | needs a binding |
 * |--------------------------------------------------------------|-----------------|
 * | the live provider with this id and host holds this value     | no              |
 * | the last apply's record has this name, id and host            | no              |
 * | the providers are not sent                                   | no              |
 * | anything else                                                | yes             |
 */
function findUnbound(input: PlanInput, configuration: ConfigurationDecision | null) {
  if (configuration === null) return [];
  const { desired, live } = configuration.change;
  return desired.references.flatMap((reference) => {
    const { provider, host } = reference;
    if (isAmong(input.options.secretBindings, reference)) return [];
    const wanted = desired.fields.openid_connect_providers?.find(({ id }) => id === provider)?.client_secret;
    const held = live.fields.openid_connect_providers.find(
      ({ id, discovery_document_uri: uri }) => id === provider && findSecretHost(uri) === host,
    );
    if (wanted === undefined || held?.client_secret.compare(wanted) === 'same') return [];
    // Whether this plan would send it; false: its value is not known here.
    const isSent = configuration.sent.includes('openid_connect_providers') && wanted.known;
    // Without the value nothing is sent from here; that it would be is said where provider or host are new.
    return isSent || held === undefined ? [{ ...reference, isSent }] : [];
  });
}

/** References whose secrets were sent, now or before (`former`). Providers are sent all or none; what was not sent binds nothing. */
export function listSentReferences(state: DesiredState | null, plan: Plan | null, former: readonly SecretBinding[]) {
  const isPlanned = plan?.changes.some(({ kind }) => kind === 'Configuration') === true;
  const { references = [], fields } = state?.configuration ?? {};
  const isKnown = fields?.openid_connect_providers?.every(({ client_secret: secret }) => secret.known) === true;
  return references
    .filter((one) => (isPlanned && isKnown) || isAmong(former, one))
    .map(({ name, provider, host }) => ({ name, provider, host }));
}

function isAmong(bindings: readonly SecretBinding[], { name, provider, host }: SecretBinding): boolean {
  return bindings.some((one) => one.name === name && one.provider === provider && one.host === host);
}

/** A refusal for each secret that the plan would send where nothing binds it to. */
export function refuseSecrets(input: PlanInput, configuration: ConfigurationDecision | null): readonly Refusal[] {
  const sent = findUnbound(input, configuration).filter(({ isSent }) => isSent);
  return sent.map((one) => ({
    code: 'unbound-secret',
    summary: describeUnbound(one),
    hint: bindingHint(one),
    related: [{ place: one.place, note: 'the reference' }],
    binding: { name: one.name, provider: one.provider, host: one.host },
  }));
}

/** A warning for each such secret whose value is not known here: where it is, the apply needs a binding. */
export function warnOfUnbound(input: PlanInput, configuration: ConfigurationDecision | null): readonly Problem[] {
  const unknown = findUnbound(input, configuration).filter(({ isSent }) => !isSent);
  return unknown.map((one) => makeWarning('unbound-secret', describeUnbound(one), bindingHint(one), one.place));
}

function describeUnbound({ name, provider, host }: SecretBinding): string {
  return `The secret \`${name}\` would be sent to ${host}, for the provider \`${provider}\`: nothing says that it belongs there.`;
}

function bindingHint({ name, provider, host }: SecretBinding): string {
  const setting = `secrets: {bind: [{name: ${name}, provider: ${provider}, host: "${host}"}]}`;
  return `If it does, add \`--bind-secret ${name}=${provider}@${host}\`, or to the settings: \`${setting}\`.`;
}
