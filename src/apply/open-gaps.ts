import { decodeJsonObject } from '../model/result.ts';

/** The keys of rules that a killed run still owed: what its journal's last pass deleted for a gap and did not create. */
export function findOpenGaps(journal: string): ReadonlySet<string> {
  const owed = new Set<string>();
  for (const line of journal.split('\n')) {
    const entry = decodeJsonObject(line);
    if (entry === null) continue;
    if (entry['event'] === 'pass-started' || entry['event'] === 'pass-ended') owed.clear();
    const { owes, method, rule, outcome } = entry;
    if (Array.isArray(owes)) for (const key of owes) if (typeof key === 'string') owed.add(key);
    const created = method === 'POST' && (outcome === 'done' || outcome === 'skipped');
    if (created && typeof rule === 'string') owed.delete(rule);
  }
  return owed;
}
