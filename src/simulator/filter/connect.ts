import { NftTable } from '../nft.ts';
import type { SimulatorOptions } from '../options.ts';
import type { RuleRow } from '../rules/rule.ts';
import type { Tables } from '../tables.ts';
import { decideVerdict, type PacketFilterView } from './filter.ts';
import { RatedFilter } from './rated.ts';

/** Changes a second, more than nft makes: then it sets the pace itself. */
const fastestNft = 1_000;

/**
 * Connects a packet filter, which hears of inserts and deletes and of no update (observed: recordings/packet_filter_patch).
 * `exit` ends the server at once, as crashes that follow too fast do (observed: recordings/packet_filter_crash_loop).
 */
export function connectFilter(
  { filterRate, filterTime, nft }: SimulatorOptions,
  tables: Tables,
  exit: (reason: string) => void,
): { readonly view: PacketFilterView; readonly close: () => void } {
  if (filterRate === undefined && nft === undefined) return { view: followAtOnce(tables), close: () => {} };
  const kernel = nft === undefined ? {} : { kernel: new NftTable(nft) };
  return new RatedFilter({ rate: filterRate ?? fastestNft, ...filterTime, ...kernel, exit }, tables);
}

/** A packet filter that follows at once and never fails; what an update changed in between is not seen. */
function followAtOnce({ rules, events }: Tables): PacketFilterView {
  const elements = new Map<string, RuleRow>();
  for (const row of rules.rows()) elements.set(row.id, row);
  events.on('inserted', (row) => elements.set(row.id, row));
  events.on('deleted', (row) => elements.delete(row.id));
  return {
    verdict: (packet) => decideVerdict(elements.values(), packet),
    elements: () => [...elements.values()],
    state: () => ({ pending: 0, rebuilding: false, crashes: 0, lost: [] }),
  };
}
