/** Whether a secret may be sent to this address: https, or http to this machine, and no user information. */
export function isSafeAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  const local = ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
  return url.username === '' && (url.protocol === 'https:' || (url.protocol === 'http:' && local));
}
