import type { Manifest, Suppression } from '../manifest/manifest.ts';
import { defaultFileWork } from '../manifest/read-tokens.ts';
import type { Place, Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import type { Result } from '../model/result.ts';
import type { Secret } from '../model/secret.ts';
import type { DesiredState, RequiredNote, Scope } from '../model/state.ts';

export type SecretReference = { readonly env: string } | { readonly file: string };

/** What turning parsed manifests into a desired state depends on, beside the users that they name. */
export interface DesiredContext {
  readonly profile: Profile;
  readonly scope: Scope;
  /** The time (ms since 1970) for which rules with times are in force or not. */
  readonly now: number;
  /** Resolves a reference: `Secret.unknown()` when it is allowed and not available here; an error when it is not allowed. */
  readonly resolveSecret: (reference: SecretReference, place: Place) => Result<Secret, string>;
  /** How far ahead an accept rule may end, ms. */
  readonly maxExpiryMs?: number;
  /** Notes that the operator asks for. */
  readonly require?: readonly RequiredNote[];
  /** The directory, relative to the manifest root, of the environment to build (`production`); null: all files count. */
  readonly overlay?: string | null;
}

/** A desired state, when the manifests have no errors, and every problem found. */
export interface Desired {
  readonly state: DesiredState | null;
  readonly problems: readonly Problem[];
  /** E-mail addresses that manifests name, lower case; when not empty, GET /v0/users is worth a call. */
  readonly emails: readonly string[];
  /** The manifests that count, as they were written. */
  readonly manifests: readonly Manifest[];
  /** Comments that switch a warning or note off; `applySuppressions` honours them for findings made elsewhere. */
  readonly suppressions: readonly Suppression[];
}

/** Caps on what a source may cost; each is a problem when passed. */
export interface Limits extends Readonly<typeof defaultLimits> {
  /** Of a Git source: bytes that one fetch may bring, and memory that git may take. */
  readonly fetchBytes?: number;
}

/** The defaults of the command line. */
export const defaultLimits = {
  fileBytes: 10_000_000,
  totalBytes: 200_000_000,
  files: 10_000,
  depth: 32,
  documents: 200_000,
  /** Units of work that reading all manifests together may take, and those of one file: the same on every machine. */
  work: 12_000_000,
  fileWork: defaultFileWork,
  /** Memory (MB) of the threads that read large files. */
  parseMb: 384,
};
