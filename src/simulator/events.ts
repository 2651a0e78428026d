import type { EventEmitter } from 'node:events';
import type { RuleRow } from './rules/rule.ts';

/** The configuration as the API shows it, keys in order. */
export type Configuration = Readonly<Record<string, unknown>>;

export type Role = 'admin' | 'unprivileged';

export interface StoredUser {
  readonly disabled_at: string | null;
  readonly email: string;
  readonly id: string;
  readonly inserted_at: string;
  readonly last_signed_in_at: null;
  readonly last_signed_in_method: null;
  readonly role: Role;
  readonly updated_at: string;
}

/** What happens to the tables, in order: for the packet filter and the data file. */
export type TableEvents = EventEmitter<{
  /** Before any rule changes, or a user goes. */
  changing: [];
  inserted: [row: RuleRow];
  updated: [row: RuleRow];
  deleted: [row: RuleRow];
  /** A user was written; `known` tells whether it replaces one. */
  userStored: [user: StoredUser, known: boolean];
  /** A user went; its rules go next. */
  userDeleted: [id: string];
  configured: [row: Configuration];
}>;
