/** What is wrong with a field that should be a URL. */
export function describeBadUrl(field: string): {
  readonly code: 'invalid-url';
  readonly summary: string;
  readonly hint: string;
} {
  return {
    code: 'invalid-url',
    summary: `\`${field}\` is not an absolute http or https URL.`,
    hint: 'Write it whole, such as `https://vpn.example.com/path`, without spaces.',
  };
}

/** Whether a text is an http or https URL. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\/[^\s/]\S*$/i.test(text) && URL.canParse(text);
}
