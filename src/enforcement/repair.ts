import type { EnforcementReport, FindingKind } from './report.ts';

/** Kinds of findings that replacing a rule mends, the most harmful first. */
const mendable: readonly FindingKind[] = ['table-missing', 'user-chain-missing', 'missing', 'stale'];

/**
 * The rule to replace next, as a set of live ids: one at most. Deleting a rule that the kernel does not hold as it is makes
 * the server build its whole filter anew from its database, which mends every other difference too (observed:
 * recordings/packet_filter_boot), and four such deletes within 5 s stop the server: so one, and then look again. Only rules
 * that a manifest asks for are replaced; a missing rule first, whose absence meanwhile changes nothing.
 */
export function repairTargets(report: EnforcementReport): ReadonlySet<string> {
  for (const kind of mendable) {
    const ids = report.findings
      // Replacing a rule does not wake a table.
      .filter((finding) => finding.kind === kind && finding.dormant !== true)
      .flatMap(({ rules }) => rules.filter(({ name }) => name !== null).map(({ id }) => id))
      .sort();
    if (ids[0] !== undefined) return new Set([ids[0]]);
  }
  return new Set();
}
