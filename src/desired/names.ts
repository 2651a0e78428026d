import type { GroupManifest, Manifest, NetworkManifest, UserReference, UsersManifest } from '../manifest/manifest.ts';
import { didYouMean } from '../manifest/suggest.ts';
import { keepFirst } from '../model/group-by.ts';
import type { KnownUsers } from '../model/known-users.ts';
import { joinSome } from '../model/printable.ts';
import { makeError, type Place, type Problem, relateTo } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { fail, ok, type Result } from '../model/result.ts';

/** A user after resolution. `label` is the name in expanded rules: the alias, the e-mail address, or the UUID. */
export interface ResolvedUser {
  readonly id: string;
  readonly label: string;
  readonly place: Place;
}

/** What the users, groups and networks of the manifests stand for, and everything noticed while looking them up. */
export class Names {
  readonly networks = new Map<string, NetworkManifest>();
  readonly problems: Problem[] = [];
  /** E-mail addresses met, lower case, each with its first place. */
  readonly emails = new Map<string, Place>();
  /** Name by id, of users that a manifest names. */
  readonly userNames = new Map<string, string>();
  /** Ids of the members by group. */
  readonly groups: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #groups = new Map<string, GroupManifest>();
  /** Ids by name, of those in `kind: Users`. */
  readonly userIds = new Map<string, string>();
  /** The access that names are looked up for has ended: its user may be gone from the server. */
  isOver = false;
  readonly #profile: Profile;
  readonly #known: KnownUsers | null;

  /** Without `known` e-mail addresses stay unresolved. */
  constructor(manifests: readonly Manifest[], profile: Profile, known: KnownUsers | null) {
    this.#profile = profile;
    this.#known = known;
    for (const manifest of manifests) {
      if (manifest.kind === 'Group') this.#groups.set(manifest.name, manifest);
      if (manifest.kind === 'Network') this.networks.set(manifest.name, manifest);
    }
    this.#addAliases(manifests.flatMap((manifest) => (manifest.kind === 'Users' ? manifest.users : [])));
    const groups = [...this.#groups.values()];
    // Members are reported where the group lists them, not again at every rule that names the group.
    for (const { members } of groups) for (const member of members) this.user(member);
    const membersOf = (group: GroupManifest) => new Set(this.#members(group, group.place).map(({ id }) => id));
    this.groups = new Map(groups.map((group) => [group.name, membersOf(group)]));
  }

  /** The users that references stand for, groups replaced by their members; unknown ones are problems. */
  users(references: readonly UserReference[]): readonly ResolvedUser[] {
    return references.flatMap((reference) => {
      if (reference.by !== 'group') return this.user(reference) ?? [];
      const group = this.#groups.get(reference.name);
      if (group !== undefined) return this.#members(group, reference.place);
      const otherwise = 'Add a `kind: Group` manifest of that name.';
      const hint = adviseOnName(reference.name) ?? didYouMean(reference.name, this.#groups.keys(), otherwise);
      this.problems.push(makeError('unknown-group', `There is no group \`${reference.name}\`.`, hint, reference.place));
      return [];
    });
  }

  /** The one user that a reference stands for; null, and a problem, when it is unknown or a group. */
  user(reference: UserReference): ResolvedUser | null {
    const found = this.#lookUp(reference);
    if (found.ok) return found.value;
    this.problems.push(found.error);
    return null;
  }

  #addAliases(users: UsersManifest['users']): void {
    const distinct = keepFirst(
      users,
      ({ name }) => name,
      ({ name, place }, first) => {
        const summary = `The user \`${name}\` is defined twice.`;
        this.problems.push(relateTo(makeError('duplicate-name', summary, 'Keep one of the two.', place), first.place));
      },
    );
    for (const { name, id } of distinct) {
      this.userIds.set(name, id);
      if (!this.userNames.has(id)) this.userNames.set(id, name);
    }
  }

  #members({ members }: GroupManifest, place: Place): readonly ResolvedUser[] {
    const found = members.map((member) => this.#lookUp({ ...member, place }));
    return found.flatMap((one) => (one.ok ? one.value : []));
  }

  #lookUp(reference: UserReference): Result<ResolvedUser, Problem> {
    const { place } = reference;
    if (reference.by === 'id') {
      return ok({ id: reference.id, label: this.userNames.get(reference.id) ?? reference.id, place });
    }
    const { name } = reference;
    const alias = this.userIds.get(name);
    if (alias !== undefined) return ok({ id: alias, label: name, place });
    if (reference.by !== 'email') return fail(this.#unknownUser(name, place));
    if (!this.emails.has(name)) this.emails.set(name, place);
    const found = this.#findId(name, place);
    if (!found.ok) return found;
    if (!this.userNames.has(found.value)) this.userNames.set(found.value, name);
    return ok({ id: found.value, label: name, place });
  }

  /** Offline an address stands for itself: the checks go on, and nothing can be planned until it is resolved. */
  #findId(email: string, place: Place): Result<string, Problem> {
    if (!this.#profile.listsUsers) {
      const why = `with profile ${this.#profile.name} the server is not asked for its users`;
      const hint = "Add the address to a `kind: Users` manifest, with the user's UUID.";
      return fail(makeError('email-not-supported', `\`${email}\` cannot be looked up: ${why}.`, hint, place));
    }
    if (this.#known === null) return ok(email);
    const id = this.#known.idOf(email);
    if (id !== undefined || this.isOver) return ok(id ?? email);
    const hint = didYouMean(email, this.#known.emails, 'Check the spelling, or create the user first.');
    return fail(makeError('unknown-user', `The server has no user with the address \`${email}\`.`, hint, place));
  }

  #unknownUser(name: string, place: Place): Problem {
    const otherwise = 'Add the name to a `kind: Users` manifest, or write an e-mail address or a UUID.';
    const hint = this.#groups.has(name)
      ? `\`${name}\` is a group: write \`group: ${name}\` in a rule; a group lists its users itself.`
      : (adviseOnName(name) ?? didYouMean(name, this.userIds.keys(), otherwise));
    return makeError('unknown-user', `There is no user \`${name}\`.`, hint, place);
  }
}

const isReserved = (name: string): boolean => ['any', 'everyone', 'nobody'].includes(name);
const adviseOnName = (name: string) => (isReserved(name) ? 'For everyone, leave `user` and `group` out.' : null);

/** Users and groups by a name that outputs and policy tests use for more than one person. */
export function findReservedNames(manifests: readonly Manifest[]): readonly Problem[] {
  const named = manifests.flatMap((one): readonly Pick<GroupManifest, 'name' | 'place'>[] =>
    one.kind === 'Users' ? one.users : one.kind === 'Group' ? [one] : [],
  );
  const reserved = named.filter(({ name }) => isReserved(name));
  return reserved.map(({ name, place }) => {
    const summary = `\`${name}\` has a meaning of its own where users are named, and cannot be the name of a user or a group.`;
    return makeError('reserved-name', summary, 'Choose another one.', place);
  });
}

/** One note about all e-mail addresses that were not looked up, at the first of them. */
export function noteUnresolved(emails: Names['emails']): readonly Problem[] {
  const [place] = emails.values();
  const quoted = [...emails.keys()].map((one) => `\`${one}\``);
  const summary = `Not looked up, since the server was not asked: ${joinSome(quoted, 3)}.`;
  const hint = 'A plan looks them up, and applies `scope` and `require` to these users; everything else was checked.';
  return place === undefined ? [] : [{ code: 'unresolved-email', severity: 'note', summary, hint, place }];
}
