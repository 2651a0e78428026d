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
