import { isMap, parseJson } from '../http/json.ts';
import { castRule, noRule, storeValues } from './change.ts';
import { makeRow, type RuleRow } from './rule.ts';

/** A rule to begin with, in the API's field names; `action` defaults to drop, as over the API. */
export interface RuleSeed {
  readonly id?: string;
  readonly action?: 'accept' | 'drop';
  readonly destination: string;
  readonly port_type?: 'tcp' | 'udp' | null;
  readonly port_range?: string | null;
  readonly user_id?: string | null;
}

/** The row that this seed is; throws an Error that shows the seed when the server would not take it. */
export function makeSeedRow(seed: RuleSeed, id: string, now: string): RuleRow {
  const sent = parseJson(JSON.stringify(seed));
  const change = isMap(sent) ? castRule(noRule, sent, true) : undefined;
  const stored = change?.ok === true ? storeValues(change.values) : undefined;
  const ports = stored?.ports;
  if (stored === undefined || ports === undefined) throw new Error(`not a rule: ${JSON.stringify(seed)}`);
  return makeRow({ ...stored, ports, id: seed.id ?? id, insertedAt: now, updatedAt: now });
}
