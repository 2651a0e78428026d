import { attempt } from '../model/result.ts';
/** What a server says, without these secrets; undefined where it holds one in a form, or in parts, that cannot be taken out. */
export function hideSecrets(said: unknown, secrets: readonly string[]): unknown {
  // A server can store more than can be looked for.
  if (secrets.length > 1000 || secrets.reduce((sum, { length }) => sum + length, 0) > 1_000_000) return;
  const hide = (json: string, one: string): string => json.replaceAll(JSON.stringify(one).slice(1, -1), '\uE000');
  // Undefined too for what is nested too deep, or nothing but a secret where JSON has a word of its own.
  return attempt(() => {
    const json = spellingsOf(secrets).reduce(hide, JSON.stringify(said)).replaceAll('\uE000', '(secret)');
    const told = [json, json.replace(/[{,]"(?:[^"\\]|\\.)*":/g, '')].map(squeeze);
    const isLeft = secrets.flatMap(tracesOf).some((trace) => told.some((text) => text.includes(trace)));
    return isLeft ? undefined : JSON.parse(json);
  }, undefined);
}

/** The token last looked for: to spell it takes longer than to read an answer. */
let last: { readonly token: string; readonly spellings: readonly string[] } = { token: '', spellings: [] };

/** Whether an answer holds the token; a short one may be a word. */
export function quotesToken(text: string, token: string): boolean {
  if (last.token !== token) last = { token, spellings: spellingsOf([token]) };
  return token.length > 20 && last.spellings.some((one) => text.includes(one));
}

/** Each secret as it is and as it may be quoted: JSON-escaped, URL-encoded, base64, hex; the longest first. */
function spellingsOf(secrets: readonly string[]): readonly string[] {
  const spellings = secrets.flatMap((secret) => {
    const [bytes, json] = [Buffer.from(secret), JSON.stringify(secret).slice(1, -1)];
    const [hex, base64] = [bytes.toString('hex'), bytes.toString('base64')];
    return [secret, json, encodeURIComponent(secret), base64, bytes.toString('base64url'), hex, hex.toUpperCase()];
  });
  return [...new Set(spellings)].filter((one) => one !== '').sort((a, b) => b.length - a.length);
}

/** What `squeeze` leaves of a secret, in hex and in base64 wherever that begins; no short ones, which stand in other words. */
function tracesOf(secret: string): readonly string[] {
  const [bytes, hex] = [Buffer.from(secret).toString('latin1'), Buffer.from(secret).toString('hex')];
  const base64 = ['', 'x', 'xx'].map((before, cut) => btoa(before + bytes).slice(cut && cut + 1, -3));
  return [secret, hex, ...base64].map(squeeze).filter(({ length }) => length >= 10);
}

/** Letters and digits alone: no escape, encoding, case or line break makes a difference. */
function squeeze(text: string): string {
  const codes = /(?:%(?:25)*|\\{1,8}(?:u00|x)|&(?:amp;)*#x0*)([0-9a-f]{2})|&(?:amp;)*#0*([0-9]{2,3});/gi;
  return text
    .replace(codes, (_, hex?: string, code?: string) => String.fromCharCode(Number(code ?? `0x${hex}`)))
    .replace(/&(?:amp;)*[a-z]+;|\\[bfnrt]|[^0-9a-zA-Z]/g, '')
    .toLowerCase();
}
