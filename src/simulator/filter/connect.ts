import { NftTable } from '../nft.ts';
import type { SimulatorOptions } from '../options.ts';
import type { RuleRow } from '../rules/rule.ts';
import type { Tables } from '../tables.ts';
import type { FilteredServer, PacketFilter } from './filter.ts';
import { RatedFilter } from './rated.ts';
import { decideVerdict } from './verdict.ts';

/** Builds the packet filter; it hears of inserts and deletes, of rules and of users, and of no update. */
export function connectFilter(options: SimulatorOptions, tables: Tables, exit: FilteredServer['exit']): PacketFilter {
  const { rules, users } = tables;
  const filter = filterOf(options, { rows: () => rules.rows(), userIds: () => users.all().map(({ id }) => id), exit });
  rules.listen({
    changing: () => filter.settle?.(),
    inserted: filter.inserted,
    deleted: filter.deleted,
  });
  users.listen({
    stored: (user, known) => {
      if (!known) filter.userAdded?.(user.id);
    },
    deleting: filter.userDeleted,
  });
  return filter;
}

/** Changes a second, more than nft makes: then it sets the pace itself. */
const fastestNft = 1_000;

function filterOf(options: SimulatorOptions, server: FilteredServer): PacketFilter {
  const { filterRate, filterTime, nft } = options;
  if (filterRate === undefined && nft === undefined) return createImmediateFilter(server.rows());
  const kernel = nft === undefined ? {} : { kernel: new NftTable(nft) };
  return new RatedFilter({ rate: filterRate ?? fastestNft, ...filterTime, ...kernel }, server);
}

/** A packet filter that follows at once and never fails; what an update changed in between is not seen. */
function createImmediateFilter(rows: Iterable<RuleRow>): PacketFilter {
  const elements = new Map<string, RuleRow>();
  for (const row of rows) elements.set(row.id, row);
  return {
    inserted: (row) => {
      elements.set(row.id, row);
    },
    deleted: (row) => {
      elements.delete(row.id);
    },
    userDeleted: () => {},
    view: {
      verdict: (packet) => decideVerdict(elements.values(), packet),
      elements: () => [...elements.values()],
      state: () => ({ pending: 0, rebuilding: false, crashes: 0, lost: [] }),
    },
    close: () => {},
  };
}
