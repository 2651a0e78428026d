const warnDays = [14, 7, 3, 1] as const;
const dayMs = 86_400_000;

/** When a JWT expires (ms since 1970), read without checking its signature; null for anything else. */
export function tokenExpiry(token: string): number | null {
  const [, payload] = token.split('.');
  if (payload === undefined) return null;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
    if (typeof claims !== 'object' || claims === null || !('exp' in claims)) return null;
    return typeof claims.exp === 'number' && Number.isFinite(claims.exp) ? claims.exp * 1000 : null;
  } catch {
    return null;
  }
}

/** The warning that is due: the smallest number of days (14, 7, 3, 1, 0) within which the token expires; null before that. */
export function expiryWarning(expiresAt: number | null, wallTime: number): number | null {
  if (expiresAt === null) return null;
  const left = expiresAt - wallTime;
  if (left <= 0) return 0;
  return warnDays.filter((days) => left <= days * dayMs).at(-1) ?? null;
}
