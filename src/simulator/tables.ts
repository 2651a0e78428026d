import { randomUUID } from 'node:crypto';
import { makeClock, type SimulatorClock } from './clock.ts';
import { ConfigurationStore } from './configuration/store.ts';
import { DataFile } from './data-file.ts';
import type { SimulatorOptions } from './options.ts';
import { RuleStore } from './rules/store.ts';
import { TokenStore } from './tokens.ts';
import { defaultAdmin, UserStore } from './users.ts';

/** Everything that the simulated server remembers. */
export interface Tables {
  readonly clock: SimulatorClock;
  readonly newId: () => string;
  readonly users: UserStore;
  readonly rules: RuleStore;
  readonly configuration: ConfigurationStore;
  readonly tokens: TokenStore;
  readonly close: () => void;
}

/** Makes the tables, as the data file has them if there is one; the given token is the first administrator's. */
export function openTables(options: SimulatorOptions): Tables {
  const newId = options.newId ?? randomUUID;
  const clock = makeClock(options.clock ?? (() => performance.timeOrigin + performance.now()));
  const users = new UserStore(clock, options.users ?? []);
  const rules = new RuleStore({ clock, newId, constraints: options.overlapConstraints ?? true });
  const configuration = new ConfigurationStore(clock, newId());
  const dataFile =
    options.dataFile === undefined ? undefined : new DataFile(options.dataFile, { rules, users, configuration });
  const tokens = options.tokens ?? new TokenStore();
  tokens.register(options.token, users.all().find((user) => user.role === 'admin')?.id ?? defaultAdmin.id);
  return { clock, newId, users, rules, configuration, tokens, close: () => dataFile?.close() };
}
