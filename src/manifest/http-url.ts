/** What is wrong with a field that should be a URL. */
export function describeBadUrl(field: string): {
  readonly code: 'invalid-url';
  readonly summary: string;
  readonly hint: string;
} {
  return {
    code: 'invalid-url',
    summary: `\`${field}\` is not an absolute http or https URL.`,
    hint: 'Write it whole, such as `https://vpn.example.com/path`, without spaces or user; a host of other letters as `xn--…`.',
  };
}

/** Whether it is an http(s) URL whose host every reader takes for the same: no user, backslash, escape or letter beyond ASCII. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\/(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]+)?(?:[/?#]\S*)?$/i.test(text) && URL.canParse(text);
}
