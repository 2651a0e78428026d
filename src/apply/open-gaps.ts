import { isObject } from '../live/live-rules.ts';

/**
 * Which rules a run that was killed still owed: what the deletes in the journal's last pass said must be created to close
 * their gaps, less what was created. Returns their keys (`formatRuleKey`). A torn last line, as a kill leaves it, is passed over.
 */
export function findOpenGaps(journal: string): ReadonlySet<string> {
  const owed = new Set<string>();
  for (const line of journal.split('\n')) {
    const entry = parse(line);
    if (entry === null) continue;
    if (entry['event'] === 'pass-started' || entry['event'] === 'pass-ended') owed.clear();
    const { owes, method, rule, outcome } = entry;
    if (Array.isArray(owes)) for (const key of owes) if (typeof key === 'string') owed.add(key);
    const created = method === 'POST' && (outcome === 'done' || outcome === 'skipped');
    if (created && typeof rule === 'string') owed.delete(rule);
  }
  return owed;
}

function parse(line: string): Readonly<Record<string, unknown>> | null {
  if (line === '') return null;
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
