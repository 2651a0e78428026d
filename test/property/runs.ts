/**
 * How often a property is tried: `ci` times in CI (`PROPERTY_RUNS=ci`), otherwise a twentieth of that, at least 20; a number in
 * `PROPERTY_RUNS` sets it for all. A failure prints its seed and path; pass both to `fc.assert` to see it again.
 */
export function runs(ci: number): number {
  const asked = process.env['PROPERTY_RUNS'];
  if (asked === 'ci') return ci;
  if (asked !== undefined && /^[1-9][0-9]*$/.test(asked)) return Number(asked);
  return Math.min(ci, Math.max(20, Math.ceil(ci / 20)));
}
