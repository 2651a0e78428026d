import type { DestinationReference, GroupManifest, Manifest, UserReference, Written } from '../manifest/manifest.ts';
import { mostProblems } from '../manifest/read-tokens.ts';
import { createHints } from '../manifest/suggest.ts';
import { applySuppressions } from '../manifest/suppressions.ts';
import { compareNetworks, contains, type Network } from '../model/address.ts';
import { keepFirst } from '../model/group-by.ts';
import { findMovedNames, type KnownUsers } from '../model/known-users.ts';
import { formatCount, joinSome } from '../model/printable.ts';
import { makeError, makeNote, makeWarning, type Place, type Problem, relateTo } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { fail, ok, type Result } from '../model/result.ts';
import type { DesiredState } from '../model/state.ts';
import type { Desired } from './context.ts';

/** A user after resolution. `label` is the name in expanded rules: the alias, the e-mail address, or the UUID. */
export interface ResolvedUser {
  readonly id: string;
  readonly label: string;
  readonly place: Place;
}

/** Most members of groups and networks that rules may name; many more than rules come of them where lists are empty or overlap. */
export const mostMembers = 2_000_000;

type Named = Pick<GroupManifest, 'name' | 'place'>;
type UnknownList = 'unknown-group' | 'unknown-network';

/** What the users, groups and networks of the manifests stand for, and everything noticed while looking them up. */
export class Names {
  readonly problems: Problem[] = [];
  /** E-mail addresses met, lower case, each with its first place. */
  readonly emails = new Map<string, Place>();
  /** Name by id, of users that a manifest names. */
  readonly userNames = new Map<string, string>();
  /** Ids of the members by group. */
  readonly groups: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #groups = new Map<string, GroupManifest['members']>();
  readonly #members = new Map<string, readonly ResolvedUser[]>();
  readonly #networks = new Map<string, readonly Written<Network>[]>();
  readonly #notes = new Map<string, number>();
  readonly #hint = createHints();
  /** Members of groups and networks that rules have named so far. */
  named = 0;
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
    for (const one of manifests) {
      if (one.kind === 'Group') this.#groups.set(one.name, one.members);
      if (one.kind === 'Network') this.#networks.set(one.name, this.#withoutNested(one.networks));
    }
    this.#addAliases(manifests);
    // Members are reported where the group lists them, not again at every rule that names the group.
    for (const members of this.#groups.values()) for (const member of members) this.user(member);
    for (const [name, members] of this.#groups) {
      const found = members.map((member) => this.#lookUp(member));
      this.#members.set(name, this.#distinct(found.flatMap((one) => (one.ok ? one.value : []))));
    }
    this.groups = new Map([...this.#members].map(([name, members]) => [name, new Set(members.map(({ id }) => id))]));
  }

  /** A note; those beyond the most that a file may have are only mentioned. */
  note(place: Place, make: () => Problem): void {
    const before = this.#notes.get(place.file) ?? 0;
    this.#notes.set(place.file, before + 1);
    if (before < mostProblems) this.problems.push(make());
    if (before !== mostProblems) return;
    const summary = `More than ${formatCount(mostProblems)} notes about what is written twice; the others are not shown.`;
    this.problems.push(makeNote('too-many-problems', summary, 'Mend the first ones.', place));
  }

  /** The users that references stand for, each once, groups replaced by their members; unknown ones are problems. */
  users(references: readonly UserReference[]): readonly ResolvedUser[] {
    const found = references.flatMap((one) =>
      one.by === 'group' ? this.#membersOf('unknown-group', one, this.#members) : (this.user(one) ?? []),
    );
    return references.length < 2 ? found : this.#distinct(found);
  }

  /** The networks that references stand for, none inside another one; unknown ones are problems. */
  networks(references: readonly DestinationReference[]): readonly Written<Network>[] {
    const found = references.flatMap(({ place, ...one }): readonly Written<Network>[] =>
      'network' in one
        ? [{ value: one.network, place }]
        : this.#membersOf('unknown-network', { name: one.networkName, place }, this.#networks),
    );
    return references.length < 2 ? found : this.#withoutNested(found);
  }

  /** The one user that a reference stands for; null, and a problem, when it is unknown or a group. */
  user(reference: UserReference): ResolvedUser | null {
    const found = this.#lookUp(reference);
    if (found.ok) return found.value;
    this.problems.push(found.error);
    return null;
  }

  #addAliases(manifests: readonly Manifest[]): void {
    const distinct = keepFirst(
      manifests.flatMap((one) => (one.kind === 'Users' ? one.users : [])),
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

  /** The members of a group or network where a rule names it; nothing once they are too many in all. */
  #membersOf<T>(code: UnknownList, { name, place }: Named, lists: ReadonlyMap<string, readonly T[]>) {
    const members = lists.get(name) ?? [];
    if (!lists.has(name)) {
      const kind = code === 'unknown-group' ? 'Group' : 'Network';
      const otherwise = `Add a \`kind: ${kind}\` manifest of that name.`;
      const hint = (kind === 'Group' ? adviseOnName(name) : null) ?? this.#hint(name, lists.keys(), otherwise);
      this.problems.push(makeError(code, `There is no ${kind.toLowerCase()} \`${name}\`.`, hint, place));
    }
    this.named += members.length;
    return this.named > mostMembers ? [] : members.map((member) => ({ ...member, place }));
  }

  #distinct(users: readonly ResolvedUser[]): readonly ResolvedUser[] {
    return keepFirst(
      users,
      ({ id }) => id,
      ({ label, place }, first) =>
        this.note(place, () => {
          const summary = `The user \`${label}\` is reached twice here.`;
          const note = makeNote('user-twice', summary, 'Nothing is lost; one rule does.', place);
          return relateTo(note, first.place, 'first reached by this one');
        }),
    );
  }

  /** Leaves out each network that lies inside another one; the server would refuse the two side by side. */
  #withoutNested(networks: readonly Written<Network>[]): readonly Written<Network>[] {
    const sorted = [...networks].sort((a, b) => compareNetworks(a.value, b.value));
    const kept: Written<Network>[] = [];
    for (const network of sorted) {
      const outer = kept.at(-1);
      if (outer === undefined || !contains(outer.value, network.value)) kept.push(network);
      else this.note(network.place, () => nestedIn(network, outer));
    }
    return kept;
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
    const hint = this.#hint(email, this.#known.emails, 'Check the spelling, or create the user first.');
    return fail(makeError('unknown-user', `The server has no user with the address \`${email}\`.`, hint, place));
  }

  #unknownUser(name: string, place: Place): Problem {
    const otherwise = 'Add the name to a `kind: Users` manifest, or write an e-mail address or a UUID.';
    const hint = this.#groups.has(name)
      ? `\`${name}\` is a group: write \`group: ${name}\` in a rule; a group lists its users itself.`
      : (adviseOnName(name) ?? this.#hint(name, this.userIds.keys(), otherwise));
    return makeError('unknown-user', `There is no user \`${name}\`.`, hint, place);
  }
}

function nestedIn({ value: { text: inner }, place }: Written<Network>, outer: Written<Network>): Problem {
  const wider = outer.value.text;
  const summary =
    wider === inner
      ? `\`${inner}\` is reached twice here.`
      : `\`${inner}\` lies inside \`${wider}\`, which is here too; one rule does for both.`;
  const hint = 'Nothing is lost; leave it out, or narrow the wider one.';
  return relateTo(makeNote('nested-destination', summary, hint, place), outer.place, 'covered by this one');
}

const isReserved = (name: string): boolean => ['any', 'everyone', 'nobody'].includes(name);
const adviseOnName = (name: string) => (isReserved(name) ? 'For everyone, leave `user` and `group` out.' : null);

/** Users and groups by a name that outputs and policy tests use for more than one person. */
export function findReservedNames(manifests: readonly Manifest[]): readonly Problem[] {
  const named = manifests.flatMap((one): readonly Named[] =>
    one.kind === 'Users' ? one.users : one.kind === 'Group' ? [one] : [],
  );
  const reserved = named.filter(({ name }) => isReserved(name));
  return reserved.map(({ name, place }) => {
    const summary = `\`${name}\` has a meaning of its own where users are named, and cannot be the name of a user or a group.`;
    return makeError('reserved-name', summary, 'Choose another one.', place);
  });
}

/** A warning at each name that stands for another user than in the base, and at groups that lost all their members. */
export function warnOfMovedNames(base: DesiredState | null, after: Partial<Desired>): readonly Problem[] {
  const { state, manifests = [], suppressions = [] } = after;
  if (!base || !state) return [];
  const moved = findMovedNames(base, state);
  const hint = 'Rules for that name now count for other people. Where that is not meant, take the change back.';
  const warn = (text: string, place: Place): Problem => makeWarning('moved-name', text, hint, place);
  const found = manifests.flatMap((one): readonly Problem[] => {
    if (one.kind === 'Users') {
      const others = one.users.map((user) => ({ ...user, was: base.userIds?.get(user.name) }));
      const told = others.filter(({ name }) => moved.has(name));
      return told.map(({ name, id, was, place }) =>
        warn(`\`${name}\` has the UUID ${id} here, ${was} in the base.`, place),
      );
    }
    const [is, was] = [state, base].map(({ groups }) => groups?.get(one.name));
    if (one.kind !== 'Group' || !was || was.size < 2 || [...was].some((id) => is?.has(id))) return [];
    return [warn(`The group \`${one.name}\` has none of the members that it has in the base.`, one.place)];
  });
  return applySuppressions(found, suppressions);
}

/** One note about all e-mail addresses that were not looked up, at the first of them. */
export function noteUnresolved(emails: Names['emails']): readonly Problem[] {
  const [place] = emails.values();
  const quoted = [...emails.keys()].map((one) => `\`${one}\``);
  const summary = `Not looked up, since the server was not asked: ${joinSome(quoted, 3)}.`;
  const hint = 'A plan looks them up, and applies `scope` and `require` to these users; everything else was checked.';
  return place === undefined ? [] : [{ code: 'unresolved-email', severity: 'note', summary, hint, place }];
}
