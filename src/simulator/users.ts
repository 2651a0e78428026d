import type { SimulatorClock } from './clock.ts';
import type { Role, StoredUser, TableEvents } from './events.ts';

/** A user to begin with; the e-mail address defaults to NAME@example.test. */
export interface UserSeed {
  readonly name: string;
  readonly id: string;
  readonly email?: string;
  readonly role?: Role;
  readonly disabled?: boolean;
}

/** The administrator who owns the token, unless a user named `admin` is given. */
export const defaultAdmin: UserSeed = { name: 'admin', id: '9f054b2e-fff6-48e3-bd69-fc6886c493c8', role: 'admin' };

export type UserStore = ReturnType<typeof createUsers>;

/** The users table, with an administrator and these users to begin with. */
export function createUsers(clock: SimulatorClock, events: TableEvents, seeds: readonly UserSeed[]) {
  const byId = new Map<string, StoredUser>();
  const all = (): readonly StoredUser[] => [...byId.values()];
  const put = (user: StoredUser): void => {
    const known = byId.has(user.id);
    byId.set(user.id, user);
    events.emit('userStored', user, known);
  };
  const add = ({ name, email = `${name}@example.test`, role = 'unprivileged', ...seed }: UserSeed): StoredUser => {
    const inserted_at = clock.now();
    const disabled_at = seed.disabled === true ? clock.now() : null;
    const updated_at = disabled_at === null ? inserted_at : clock.now();
    const id = seed.id.toLowerCase();
    const times = { inserted_at, last_signed_in_at: null, last_signed_in_method: null };
    const user: StoredUser = { disabled_at, email, id, ...times, role, updated_at };
    put(user);
    return user;
  };
  if (!seeds.some((seed) => seed.name === defaultAdmin.name)) add(defaultAdmin);
  for (const seed of seeds) add(seed.name === defaultAdmin.name ? { ...seed, role: 'admin' } : seed);
  return {
    all,
    put,
    add,
    get: (id: string): StoredUser | undefined => byId.get(id),
    delete(id: string): void {
      events.emit('changing');
      byId.delete(id);
      events.emit('userDeleted', id);
    },
    /** E-mail addresses are compared without case. */
    byEmail(email: string): StoredUser | undefined {
      return all().find((user) => user.email.toLowerCase() === email.toLowerCase());
    },
  };
}
