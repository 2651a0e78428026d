import type { DesiredState } from './state.ts';

/** What is known of the server's users: a server lists them, a snapshot holds hashes of their addresses. */
export interface KnownUsers {
  readonly ids: ReadonlySet<string>;
  /** The id of the user with this address, in lower case. */
  idOf(email: string): string | undefined;
  /** Addresses to suggest for a misspelt one; none where only hashes are known. */
  readonly emails: readonly string[];
}

/** The users of a list with their addresses in lower case. */
export function makeKnownUsers(users: readonly { readonly email: string; readonly id: string }[]): KnownUsers {
  const byEmail = new Map(users.map(({ email, id }) => [email, id]));
  return { ids: new Set(byEmail.values()), idOf: (email) => byEmail.get(email), emails: [...byEmail.keys()] };
}

/** Names by id, the newer ones over the older: what one user was called and another is now names only that other. */
export function mergeNames(older: Iterable<readonly [string, string]>, newer: ReadonlyMap<string, string>) {
  const taken = new Set(newer.values());
  return new Map([...[...older].filter(([, name]) => !taken.has(name)), ...newer]);
}

/** What people and groups are called where manifests became others: as by now, with a word beside names that moved. */
export function nameAcross(before: DesiredState | null, after: DesiredState | null) {
  const { userNames = new Map<string, string>(), groups = new Map<string, ReadonlySet<string>>() } = after ?? {};
  if (before === null || after === null) return { userNames, groups };
  const moved = findMovedNames(before, after);
  const users = [...before.userNames, ...userNames].map(([id, called]) => {
    const [was = 'another user', is = id] = [before.userNames.get(id), userNames.get(id)];
    return [id, moved.has(was) || moved.has(is) ? `${is} (${was} in the base)` : called] as const;
  });
  const nameOf = (group: string): string => (moved.has(`group ${group}`) ? `${group} (its new members)` : group);
  return { userNames: new Map(users), groups: new Map([...groups].map(([group, all]) => [nameOf(group), all])) };
}

/** Names that stand for another user than before, and `group NAME` of groups that have other members. */
export function findMovedNames(before: DesiredState, after: DesiredState): ReadonlySet<string> {
  const list = ({ userIds = new Map(), groups = new Map() }: DesiredState): ReadonlyMap<string, string> =>
    new Map([...userIds, ...[...groups].map(([name, all]) => [`group ${name}`, [...all].sort().join()] as const)]);
  const present = list(after);
  return new Set([...list(before)].flatMap(([name, is]) => ((present.get(name) ?? is) === is ? [] : name)));
}

/** What users are called: the name of each that is shown, and all that they go by. */
export type UsersByName = Pick<DesiredState, 'userNames' | 'userIds'>;

/** The id of a user by UUID, or by a name or e-mail address among these; null for one who is not known. */
export function findUserId(text: string, { userNames, userIds }: UsersByName): string | null {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return text.toLowerCase();
  const wanted = text.includes('@') ? text.toLowerCase() : text;
  return userIds?.get(wanted) ?? [...userNames].find(([, name]) => name === wanted)?.[0] ?? null;
}
