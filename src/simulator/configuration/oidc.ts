import { castBoolean, castString } from '../cast.ts';
import type { Discovery } from './discovery.ts';
import type { Field } from './fields.ts';
import { addError, checkUri, makeProvidersField, reservedIds } from './provider.ts';

const required = { cast: castString, required: true } as const;

/** OpenID Connect providers (observed: recordings/configuration_oidc). */
export function makeOpenidField(discovery: Discovery): Field {
  return makeProvidersField({
    fields: {
      auto_create_users: { cast: castBoolean, required: true },
      client_id: required,
      client_secret: required,
      discovery_document_uri: required,
      id: required,
      label: required,
      redirect_uri: { cast: castString },
      response_type: { ...required, default: 'code' },
      scope: { ...required, default: 'openid email profile' },
    },
    check: async (provider) => {
      const errors: Record<string, string[]> = {};
      const { id, discovery_document_uri: uri, redirect_uri: redirect, response_type: type, scope } = provider;
      if (reservedIds.has(id)) addError(errors, 'id', 'is reserved');
      if (typeof uri === 'string') {
        const reason = await discovery(uri);
        if (reason !== undefined) addError(errors, 'discovery_document_uri', `is invalid. Reason: ${reason}`);
      }
      if (typeof redirect === 'string') addError(errors, 'redirect_uri', checkUri(redirect));
      if (typeof type === 'string' && type !== 'code') addError(errors, 'response_type', 'is invalid');
      for (const word of ['openid', 'email']) {
        if (typeof scope === 'string' && !scope.includes(word)) addError(errors, 'scope', `must include ${word} scope`);
      }
      return errors;
    },
  });
}
