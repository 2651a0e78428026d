import type { FileManifests, Suppression } from '../manifest/manifest.ts';
import type { Place, Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import type { Result } from '../model/result.ts';
import type { Secret } from '../model/secret.ts';
import type { DesiredState, Scope } from '../model/state.ts';
import type { SourceFile } from '../ports.ts';

/** A reference to a secret in a manifest. */
export type SecretReference = { readonly env: string } | { readonly file: string };

/** Caps on what a source may cost; each is a problem when passed. */
export interface Limits {
  readonly fileBytes: number;
  readonly totalBytes: number;
  readonly files: number;
  readonly depth: number;
  readonly documents: number;
  /** Time (ms) that parsing one file may take, and memory (MB) that parsing may take, where it is done apart. */
  readonly parseMs?: number;
  readonly parseMb?: number;
}

/** What turning manifests into a desired state depends on, beside the files themselves. */
export interface DesiredContext {
  readonly profile: Profile;
  readonly scope: Scope;
  readonly limits: Limits;
  /** Values for `${name}`; null leaves scalars as they are. */
  readonly values: ReadonlyMap<string, string> | null;
  /**
   * Resolves a reference. `Secret.unknown()` when the secret is allowed but not available here; an error (a sentence
   * without the value) when the reference is not allowed. Builds on the allow-lists of the operator's settings.
   */
  readonly resolveSecret: (reference: SecretReference, place: Place) => Result<Secret, string>;
  /** User ids by lower-case e-mail address, from the API; null when offline (then e-mails stay unresolved, with a note). */
  readonly usersByEmail: ReadonlyMap<string, string> | null;
  /** The directory, relative to the manifest root, of the environment to build (`production`); null: all files count. */
  readonly overlay?: string | null;
  /** Keeps parsed files, so that a long-lived process never parses unchanged ones again. */
  readonly cache?: ManifestCache;
  /** Parses large files apart, under bounds of time and memory, into the cache; without it all is parsed in place. */
  readonly parseAhead?: ParseAhead;
}

/** Puts files into the context's cache before `buildDesired` needs them. Never throws for what files hold. */
export type ParseAhead = (files: readonly SourceFile[], context: DesiredContext) => Promise<void>;

/** Files parsed before, by `manifestCacheKey`. */
export interface ManifestCache {
  /** Those of the last build, and those parsed ahead for the next one. */
  readonly files: Map<string, FileManifests>;
  /** Those of the build before, where it used others: the manifests last applied take turns with the present ones. */
  readonly before: Map<string, FileManifests>;
}

/** A desired state, when the manifests have no errors, and every problem found. */
export interface Desired {
  readonly state: DesiredState | null;
  readonly problems: readonly Problem[];
  /** E-mail addresses that manifests name, lower case; when not empty, GET /v0/users is worth a call. */
  readonly emails: readonly string[];
  /** Ids of the server's users, where it was asked. */
  readonly serverUsers?: ReadonlySet<string>;
  /** Comments that switch a warning or note off; `applySuppressions` honours them for findings made elsewhere. */
  readonly suppressions: readonly Suppression[];
}

/** The defaults of the command line. */
export const defaultLimits: Limits = {
  fileBytes: 10_000_000,
  totalBytes: 200_000_000,
  files: 10_000,
  depth: 32,
  documents: 200_000,
};
