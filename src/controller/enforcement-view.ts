/** What is known of the kernel's packet filter (docs/how-to/enforcement.md). Times are ms since 1970, durations ms. */
export interface EnforcementView {
  readonly missing: number;
  readonly stale: number;
  readonly extra: number;
  /** Chains, jumps and verdict rules that are missing, and unknown things. */
  readonly structure: number;
  readonly elements: number;
  /** The last revision that the kernel was seen to hold, and when it last was. */
  readonly enforcedRevision: string | null;
  readonly enforcedAt: number | null;
  /** From the last write of the last apply until the kernel held it. */
  readonly lagMs: number | null;
  /** At most 20. */
  readonly findings: readonly string[];
}
