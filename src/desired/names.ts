import type { GroupManifest, Manifest, NetworkManifest, UserReference } from '../manifest/manifest.ts';
import { didYouMean } from '../manifest/suggest.ts';
import type { KnownUsers } from '../model/known-users.ts';
import { makeError, type Place, type Problem, relateTo } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { fail, ok, type Result } from '../model/result.ts';

/** A user after resolution. `label` is the name in expanded rules: the alias, the e-mail address, or the UUID. */
export interface ResolvedUser {
  readonly id: string;
  readonly label: string;
  readonly place: Place;
}

/** What names in manifests stand for, and everything noticed while looking them up. */
export interface Names {
  readonly networks: ReadonlyMap<string, NetworkManifest>;
  readonly problems: Problem[];
  /** E-mail addresses met, lower case, each with its first place. */
  readonly emails: ReadonlyMap<string, Place>;
  /** Name by id, of users that a manifest names. */
  readonly userNames: ReadonlyMap<string, string>;
  /** Ids of the members by group. */
  readonly groups: ReadonlyMap<string, ReadonlySet<string>>;
  /** The users that references stand for, groups replaced by their members; unknown ones are problems. */
  users(references: readonly UserReference[]): readonly ResolvedUser[];
  /** The one user that a reference stands for; null, and a problem, when it is unknown or a group. */
  user(reference: UserReference): ResolvedUser | null;
}

/** Collects the users, groups and networks of the manifests; without `known` e-mail addresses stay unresolved. */
export function collectNames(manifests: readonly Manifest[], profile: Profile, known: KnownUsers | null): Names {
  const problems: Problem[] = [];
  const aliases = collectAliases(manifests, problems);
  const groups = new Map<string, GroupManifest>();
  const networks = new Map<string, NetworkManifest>();
  for (const manifest of manifests) {
    if (manifest.kind === 'Group') groups.set(manifest.name, manifest);
    if (manifest.kind === 'Network') networks.set(manifest.name, manifest);
  }
  const emails = new Map<string, Place>();
  const userNames = new Map<string, string>();
  for (const [name, { id }] of aliases) if (!userNames.has(id)) userNames.set(id, name);
  const lookup: Lookup = { aliases, profile, known, emails, userNames, groups };

  const user = (reference: UserReference): ResolvedUser | null => {
    const found = lookUp(lookup, reference);
    if (found.user === null) problems.push(found.problem);
    return found.user;
  };
  // Members are reported where the group lists them, not again at every rule that names the group.
  for (const group of groups.values()) for (const member of group.members) user(member);
  const members = (group: GroupManifest, place: Place): readonly ResolvedUser[] =>
    group.members.flatMap((member) => lookUp(lookup, { ...member, place }).user ?? []);
  const users = (references: readonly UserReference[]): readonly ResolvedUser[] =>
    references.flatMap((reference) => {
      if (reference.by !== 'group') return user(reference) ?? [];
      const group = groups.get(reference.name);
      if (group !== undefined) return members(group, reference.place);
      problems.push(unknownGroup(reference.name, reference.place, groups.keys()));
      return [];
    });
  const groupMembers = new Map(
    [...groups.values()].map((group) => [group.name, new Set(members(group, group.place).map(({ id }) => id))]),
  );
  return { networks, problems, emails, userNames, groups: groupMembers, user, users };
}

interface Lookup {
  readonly aliases: ReadonlyMap<string, { readonly id: string; readonly place: Place }>;
  readonly profile: Profile;
  readonly known: KnownUsers | null;
  readonly emails: Map<string, Place>;
  readonly userNames: Map<string, string>;
  readonly groups: ReadonlyMap<string, GroupManifest>;
}

type LookedUp = { readonly user: ResolvedUser } | { readonly user: null; readonly problem: Problem };

function lookUp(lookup: Lookup, reference: UserReference): LookedUp {
  const { aliases, userNames, emails } = lookup;
  const { place } = reference;
  if (reference.by === 'id') {
    return { user: { id: reference.id, label: userNames.get(reference.id) ?? reference.id, place } };
  }
  const alias = aliases.get(reference.name);
  if (alias !== undefined) return { user: { id: alias.id, label: reference.name, place } };
  if (reference.by !== 'email') return { user: null, problem: unknownUser(reference.name, place, lookup) };
  if (!emails.has(reference.name)) emails.set(reference.name, place);
  const found = emailId(reference, lookup);
  if (!found.ok) return { user: null, problem: found.error };
  if (!userNames.has(found.value)) userNames.set(found.value, reference.name);
  return { user: { id: found.value, label: reference.name, place } };
}

function collectAliases(
  manifests: readonly Manifest[],
  problems: Problem[],
): ReadonlyMap<string, { readonly id: string; readonly place: Place }> {
  const aliases = new Map<string, { readonly id: string; readonly place: Place }>();
  for (const manifest of manifests) {
    if (manifest.kind !== 'Users') continue;
    for (const { name, id, place } of manifest.users) {
      const first = aliases.get(name);
      if (first === undefined) aliases.set(name, { id, place });
      else {
        const twice = makeError(
          'duplicate-name',
          `The user \`${name}\` is defined twice.`,
          'Keep one of the two.',
          place,
        );
        problems.push(relateTo(twice, first.place));
      }
    }
  }
  return aliases;
}

type EmailReference = Extract<UserReference, { readonly by: 'name' | 'email' | 'group' }>;

/** Offline an address stands for itself: the checks go on, and nothing can be planned until it is resolved. */
function emailId({ name, place }: EmailReference, { profile, known }: Lookup): Result<string, Problem> {
  if (!profile.listsUsers) {
    const summary = `\`${name}\` cannot be looked up: with profile ${profile.name} the server is not asked for its users.`;
    const hint = "Add the address to a `kind: Users` manifest, with the user's UUID.";
    return fail(makeError('email-not-supported', summary, hint, place));
  }
  if (known === null) return ok(name);
  const id = known.idOf(name);
  if (id !== undefined) return ok(id);
  const hint = didYouMean(name, known.emails, 'Check the spelling, or create the user first.');
  return fail(makeError('unknown-user', `The server has no user with the address \`${name}\`.`, hint, place));
}

/** Addresses that a note names. */
const mostNamed = 3;

/** One note about all e-mail addresses that were not looked up, at the first of them. */
export function noteUnresolved(emails: Names['emails']): readonly Problem[] {
  const [place] = emails.values();
  const shown = [...emails.keys()].slice(0, mostNamed).map((one) => `\`${one}\``);
  const which = shown.join(', ') + (emails.size > mostNamed ? ` and ${emails.size - mostNamed} more` : '');
  const summary = `Not looked up, since the server was not asked: ${which}.`;
  const hint = 'A plan looks up e-mail addresses; everything else was checked.';
  return place === undefined ? [] : [{ code: 'unresolved-email', severity: 'note', summary, hint, place }];
}

function unknownUser(name: string, place: Place, { aliases, groups }: Lookup): Problem {
  const otherwise = 'Add the name to a `kind: Users` manifest, or write an e-mail address or a UUID.';
  const hint = groups.has(name)
    ? `\`${name}\` is a group: write \`group: ${name}\` in a rule; a group lists its users itself.`
    : didYouMean(name, aliases.keys(), otherwise);
  return makeError('unknown-user', `There is no user \`${name}\`.`, hint, place);
}

function unknownGroup(name: string, place: Place, known: Iterable<string>): Problem {
  const hint = didYouMean(name, known, 'Add a `kind: Group` manifest of that name.');
  return makeError('unknown-group', `There is no group \`${name}\`.`, hint, place);
}
