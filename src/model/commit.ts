export interface Commit {
  readonly id: string;
  readonly parents: readonly string[];
  /** When it was committed, ms since 1970, as it says itself. */
  readonly time: number;
  readonly author: string;
  readonly subject: string;
}
