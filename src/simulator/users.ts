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

export class UserStore {
  readonly #clock: SimulatorClock;
  readonly #byId = new Map<string, StoredUser>();
  readonly #events: TableEvents;

  constructor(clock: SimulatorClock, events: TableEvents, seeds: readonly UserSeed[]) {
    this.#clock = clock;
    this.#events = events;
    if (!seeds.some((seed) => seed.name === defaultAdmin.name)) this.add(defaultAdmin);
    for (const seed of seeds) this.add(seed.name === defaultAdmin.name ? { ...seed, role: 'admin' } : seed);
  }

  add({ name, email = `${name}@example.test`, role = 'unprivileged', ...seed }: UserSeed): StoredUser {
    const inserted_at = this.#clock.now();
    const disabled_at = seed.disabled === true ? this.#clock.now() : null;
    const updated_at = disabled_at === null ? inserted_at : this.#clock.now();
    const id = seed.id.toLowerCase();
    const times = { inserted_at, last_signed_in_at: null, last_signed_in_method: null };
    const user: StoredUser = { disabled_at, email, id, ...times, role, updated_at };
    this.put(user);
    return user;
  }

  put(user: StoredUser): void {
    const known = this.#byId.has(user.id);
    this.#byId.set(user.id, user);
    this.#events.emit('userStored', user, known);
  }

  delete(id: string): void {
    this.#events.emit('changing');
    this.#byId.delete(id);
    this.#events.emit('userDeleted', id);
  }

  all(): readonly StoredUser[] {
    return [...this.#byId.values()];
  }

  get(id: string): StoredUser | undefined {
    return this.#byId.get(id);
  }

  /** E-mail addresses are compared without case. */
  byEmail(email: string): StoredUser | undefined {
    const wanted = email.toLowerCase();
    return this.all().find((user) => user.email.toLowerCase() === wanted);
  }
}
