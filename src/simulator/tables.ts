import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { appendFileSync, closeSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { makeClock } from './clock.ts';
import { createConfiguration } from './configuration/store.ts';
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
  const dataFile = options.dataFile === undefined ? undefined : new DataFile(options.dataFile, stores);
  const tokens = options.tokens ?? new TokenStore();
  tokens.register(options.token, users.all().find((user) => user.role === 'admin')?.id ?? defaultAdmin.id);
  const portRules = options.portRules ?? true;
  return { clock, newId, ...stores, tokens, portRules, close: () => dataFile?.close() };
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

/** Keeps the tables in a file: a line for each change, now and then anew. A last line that was cut is left out; other damage throws. */
class DataFile {
  readonly #path: string;
  readonly #stores: DataFileStores;
  #descriptor = -1;
  /** Ids of users who went: one of those to begin with would be back with the next start. */
  readonly #gone = new Set<string>();
  #lines = 0;
  /** Lines when the file was written anew. */
  #kept = 0;

  constructor(path: string, stores: DataFileStores) {
    this.#path = path;
    this.#stores = stores;
    this.#read();
    this.#compact();
    stores.events
      .on('inserted', ({ shown }) => this.#append({ rule: shown }))
      .on('updated', ({ shown }) => this.#append({ rule: shown }))
      .on('deleted', (row) => this.#append({ deleted_rule: row.id }))
      .on('userStored', (user) => this.#append({ user }))
      .on('userDeleted', (id) => {
        this.#gone.add(id);
        this.#append({ deleted_user: id });
      })
      .on('configured', (configuration) => this.#append({ configuration }));
  }

  close(): void {
    if (this.#descriptor >= 0) closeSync(this.#descriptor);
    this.#descriptor = -1;
  }

  #append(line: Line): void {
    if (this.#descriptor < 0) return;
    appendFileSync(this.#descriptor, `${JSON.stringify(line)}\n`);
    this.#lines++;
    if (this.#lines > 2 * this.#kept + slack) this.#compact();
  }

  #compact(): void {
    this.close();
    const beside = `${this.#path}.new`;
    const lines: Line[] = [{ configuration: this.#stores.configuration.row() }];
    for (const id of this.#gone) lines.push({ deleted_user: id });
    for (const user of this.#stores.users.all()) lines.push({ user });
    for (const { shown } of this.#stores.rules.rows()) lines.push({ rule: shown });
    writeFileSync(beside, lines.map((line) => `${JSON.stringify(line)}\n`).join(''), { mode: 0o600, flush: true });
    renameSync(beside, this.#path);
    this.#descriptor = openSync(this.#path, 'a', 0o600);
    this.#lines = this.#kept = lines.length;
  }

  #read(): void {
    let text: string;
    try {
      text = readFileSync(this.#path, 'utf8');
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
      throw error;
    }
    const lines = text.split('\n');
    // What follows the last line break was cut off while it was written.
    for (const [index, line] of lines.slice(0, -1).entries()) {
      try {
        this.#load(JSON.parse(line) as Line);
      } catch {
        throw new Error(`${this.#path}:${index + 1}: not a line of a simulator's data file`);
      }
    }
  }

  #load(line: Line): void {
    const { rules, users, configuration } = this.#stores;
    if ('rule' in line) rules.load(makeRow(line.rule));
    else if ('deleted_rule' in line) rules.drop(line.deleted_rule);
    else if ('user' in line) users.put(line.user);
    else if ('deleted_user' in line) {
      this.#gone.add(line.deleted_user);
      users.delete(line.deleted_user);
    } else configuration.load(line.configuration);
  }
}
