/** The message for a text that is no absolute http(s) URI, or undefined. */
export function uriProblem(text: string): string | undefined {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text);
  const wrong = invalidPart(text, scheme?.[0].length ?? 0);
  if (wrong !== undefined) return `is invalid. Error at ${scheme === null ? wrong : ':'}`;
  const host =
    /^(?:[^:/?#]+:)?\/\/([^/?#]*)/
      .exec(text)?.[1]
      ?.replace(/^.*@/, '')
      .replace(/:[0-9]*$/, '') ?? '';
  if (host === '') return 'does not contain a scheme or a host';
  if (scheme === null) return 'does not contain a scheme';
  return /^https?:/.test(text) ? undefined : 'only http, https schemes are supported';
}

/** The first character that may not stand where it stands. */
function invalidPart(text: string, from: number): string | undefined {
  const character = /[^A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=%]/.exec(text)?.[0];
  if (character !== undefined) return character;
  const authority = /^\/\/([^/?#]*)/.exec(text.slice(from))?.[1] ?? '';
  return /:[0-9]*[^0-9\].:@][^@]*$/.exec(authority.replace(/^\[[^\]]*\]/, '')) === null ? undefined : ':';
}
