/** The message for a text that is no absolute http(s) URI, or undefined (observed: recordings/configuration_saml). */
export function checkUri(text: string): string | undefined {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[0] ?? '';
  const wrong = invalidCharacter(text.slice(scheme.length), scheme === '');
  // What fails as an absolute URI is read again as a relative one, which fails at the colon.
  if (wrong !== undefined) return `is invalid. Error at ${scheme === '' ? wrong : ':'}`;
  const host =
    /^\/\/([^/?#]*)/
      .exec(text.slice(scheme.length))?.[1]
      ?.replace(/^.*@/, '')
      .replace(/:[0-9]*$/, '') ?? '';
  if (host === '') return 'does not contain a scheme or a host';
  if (scheme === '') return 'does not contain a scheme';
  return /^https?:$/.test(scheme) ? undefined : 'only http, https schemes are supported';
}

/** The first character of what follows a scheme that may not stand where it stands. */
function invalidCharacter(text: string, relative: boolean): string | undefined {
  const rest = text.replace(/^(\/\/(?:[^/?#@]*@)?)\[[0-9a-fA-F:.]*\]/, '$1');
  const character = /[^A-Za-z0-9\-._~:/?#@!$&'()*+,;=%]|(?<=#.*)#/.exec(rest)?.[0];
  if (character !== undefined) return character;
  const authority = /^\/\/([^/?#]*)/.exec(rest)?.[1];
  if (authority === undefined) return relative && !text.startsWith('/') && /^[^/?#]*:/.test(text) ? ':' : undefined;
  return /:(?![0-9]*$)/.test(authority.replace(/^.*@/, '')) ? ':' : undefined;
}
