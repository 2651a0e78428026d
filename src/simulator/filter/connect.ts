import type { SimulatorOptions } from '../options.ts';
import type { Tables } from '../tables.ts';
import type { FilteredServer, PacketFilter } from './filter.ts';
import { createImmediateFilter } from './immediate.ts';
import { createRatedFilter } from './rated.ts';

/** Builds the packet filter; it hears of inserts and deletes, of rules and of users, and of no update. */
export function connectFilter(options: SimulatorOptions, tables: Tables, exit: FilteredServer['exit']): PacketFilter {
  const { rules, users } = tables;
  const filter = filterOf(options, { rows: () => rules.rows(), userIds: () => users.all().map(({ id }) => id), exit });
  rules.listen({
    changing: () => filter.settle?.(),
    inserted: filter.inserted,
    updated: () => {},
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

function filterOf(options: SimulatorOptions, server: FilteredServer): PacketFilter {
  if (options.packetFilter !== undefined) return options.packetFilter(server);
  return options.filterRate === undefined
    ? createImmediateFilter(server.rows())
    : createRatedFilter({ rate: options.filterRate, ...options.filterTime }, server);
}
