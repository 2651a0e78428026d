import { castBoolean, castString } from '../cast.ts';
import { checkMetadata } from './metadata.ts';
import { Messages, type ProviderKind, reservedIds } from './provider.ts';
import { checkUri } from './uri.ts';

/** The server's own address plus `auth/saml`; it loses its port on the way. */
const defaultBaseUrl = 'http://127.0.0.1/auth/saml';

const required = { cast: castString, required: true } as const;
const yes = { cast: castBoolean, default: true } as const;

/** SAML identity providers (observed: recordings/configuration_saml). */
export const samlProviders: ProviderKind = {
  fields: {
    auto_create_users: { cast: castBoolean, required: true },
    base_url: {
      cast: (term) => (term === null ? { value: defaultBaseUrl } : castString(term)),
      default: defaultBaseUrl,
    },
    id: required,
    label: required,
    metadata: required,
    sign_metadata: yes,
    sign_requests: yes,
    signed_assertion_in_resp: yes,
    signed_envelopes_in_resp: yes,
  },
  check: (provider) => {
    const messages = new Messages();
    const { base_url: url, id, metadata } = provider;
    if (typeof url === 'string') messages.add('base_url', checkUri(url));
    if (typeof metadata === 'string') messages.add('metadata', checkMetadata(metadata));
    if (reservedIds.has(id)) messages.add('id', 'is reserved');
    return Promise.resolve(messages.byField);
  },
};
