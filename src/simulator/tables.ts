import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { makeClock } from './clock.ts';
import { createConfiguration } from './configuration/provider.ts';
import type { Configuration, StoredUser, TableEvents } from './events.ts';
import type { SimulatorOptions } from './options.ts';
import { makeRow, type StoredRule } from './rules/rule.ts';
import { createRules } from './rules/store.ts';
import { TokenStore } from './tokens.ts';
import { createUsers, defaultAdmin } from './users.ts';

/** Everything that the simulated server remembers. */
export type Tables = ReturnType<typeof openTables>;

/** Makes the tables, as the data file has them if there is one; the given token is the first administrator's. */
export function openTables(options: SimulatorOptions) {
  const newId = options.newId ?? randomUUID;
  const clock = makeClock(options.clock ?? (() => performance.timeOrigin + performance.now()));
  const events: TableEvents = new EventEmitter();
  const users = createUsers(clock, events, options.users ?? []);
  const rules = createRules(clock, events, newId, options.overlapConstraints ?? true);
  const configuration = createConfiguration(options, clock, events, newId());
  const stores = { rules, users, configuration, events };
  const close: () => void = options.dataFile === undefined ? () => {} : keepInFile(options.dataFile, stores);
  const tokens = options.tokens ?? new TokenStore();
  tokens.register(options.token, users.all().find((user) => user.role === 'admin')?.id ?? defaultAdmin.id);
  const portRules = options.portRules ?? true;
  return { clock, newId, ...stores, tokens, portRules, close };
}

/** One line of the file: a row, or the id of one that went. */
type Line =
  | { readonly rule: StoredRule }
  | { readonly deleted_rule: string }
  | { readonly user: StoredUser }
  | { readonly deleted_user: string }
  | { readonly configuration: Configuration };

type DataFileStores = Pick<Tables, 'rules' | 'users' | 'configuration' | 'events'>;

/** How many lines may be out of date before the file is written anew. */
const slack = 1_000;

/**
 * Keeps the tables in a file: a line for each change, now and then anew. A last line that was cut is left out; other damage throws.
 * Returns how to close it.
 */
function keepInFile(path: string, { rules, users, configuration, events }: DataFileStores): () => void {
  let descriptor = -1;
  /** Ids of users who went: one of those to begin with would be back with the next start. */
  const gone = new Set<string>();
  let lines = 0;
  /** Lines when the file was written anew. */
  let kept = 0;
  const close = (): void => {
    if (descriptor >= 0) closeSync(descriptor);
    descriptor = -1;
  };
  const writeAnew = (): void => {
    close();
    const beside = `${path}.new`;
    const all: Line[] = [{ configuration: configuration.row() }];
    for (const id of gone) all.push({ deleted_user: id });
    for (const user of users.all()) all.push({ user });
    for (const { shown } of rules.rows()) all.push({ rule: shown });
    writeFileSync(beside, all.map((line) => `${JSON.stringify(line)}\n`).join(''), { mode: 0o600, flush: true });
    renameSync(beside, path);
    descriptor = openSync(path, 'a', 0o600);
    lines = kept = all.length;
  };
  const append = (line: Line): void => {
    if (descriptor < 0) return;
    appendFileSync(descriptor, `${JSON.stringify(line)}\n`);
    lines++;
    if (lines > 2 * kept + slack) writeAnew();
  };
  readLines(path, (line) => {
    if ('rule' in line) rules.load(makeRow(line.rule));
    else if ('deleted_rule' in line) rules.drop(line.deleted_rule);
    else if ('user' in line) users.put(line.user);
    else if ('configuration' in line) configuration.load(line.configuration);
    else {
      gone.add(line.deleted_user);
      users.delete(line.deleted_user);
    }
  });
  writeAnew();
  events
    .on('inserted', ({ shown }) => append({ rule: shown }))
    .on('updated', ({ shown }) => append({ rule: shown }))
    .on('deleted', (row) => append({ deleted_rule: row.id }))
    .on('userStored', (user) => append({ user }))
    .on('userDeleted', (id) => {
      gone.add(id);
      append({ deleted_user: id });
    })
    .on('configured', (row) => append({ configuration: row }));
  return close;
}

function readLines(path: string, load: (line: Line) => void): void {
  if (!existsSync(path)) return;
  const text = readFileSync(path, 'utf8');
  // What follows the last line break was cut off while it was written.
  for (const [index, line] of text.split('\n').slice(0, -1).entries()) {
    try {
      load(JSON.parse(line) as Line);
    } catch {
      throw new Error(`${path}:${index + 1}: not a line of a simulator's data file`);
    }
  }
}
