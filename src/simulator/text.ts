const whiteSpace = '[\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const endsPattern = new RegExp(`^${whiteSpace}+|${whiteSpace}+$`, 'g');

/** Trims Unicode white space as the server does; unlike `String.prototype.trim` it keeps a byte order mark. */
export function trim(text: string): string {
  return text.replace(endsPattern, '');
}
