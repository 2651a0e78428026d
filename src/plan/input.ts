import type { Network } from '../model/address.ts';
import type { SecretBinding } from '../model/configuration.ts';
import type { PortRange } from '../model/port-range.ts';
import type { Profile } from '../model/profile.ts';
import type { FingerprintKey } from '../model/secret.ts';
import type { DesiredState, LiveState, Protocol, Scope } from '../model/state.ts';

/** A limit on live rules that vanish or change: a count, or a share of those in scope (0..1). */
export type DeleteLimit = { readonly count: number } | { readonly share: number };

/** Traffic that no plan may open or cut off, from the operator's settings. */
export interface Protected {
  readonly destination: Network;
  readonly protocol: Protocol | null;
  readonly ports: PortRange | null;
  /** A user's UUID; null: nobody's devices; undefined: nobody and every user named in a rule. */
  readonly user?: string | null;
}

export interface PlanOptions {
  /** Default `{share: 0.3}`, which counts once 10 or more live rules are in scope. */
  readonly maxDeletes: DeleteLimit;
  /** Default `{share: 0.5}`: live rules that are deleted or get another content; a share counts from 10 on too. */
  readonly maxChanges: DeleteLimit;
  readonly allowEmpty: boolean;
  readonly allowLockout: boolean;
  /** Which live rules in scope that nothing desires are deleted; a set names them by `formatRuleKey`. */
  readonly prune: 'all' | 'none' | ReadonlySet<string>;
  readonly replaceModified: boolean;
  /** `none`: a plan that opens traffic on the way is refused. */
  readonly maxExposure: 'none' | 'any';
  readonly failOn: readonly ('opens' | 'closes' | 'any' | 'drift' | 'not-enforced')[];
  readonly protect: readonly Protected[];
  /** Where the operator's secrets may be sent. */
  readonly secretBindings: readonly SecretBinding[];
  /** The plan takes back what nobody confirmed: only scope and ownership hold it. */
  readonly goesBack?: true;
  /** Keys the fingerprints of secrets in field changes; null shows none. */
  readonly fingerprintKey: FingerprintKey | null;
}

/** Everything a plan depends on; a plan is a function of this alone. */
export interface PlanInput {
  readonly desired: DesiredState;
  readonly live: LiveState;
  /** The state last applied, when known: names carry their live rules over edits, and changes get an origin. */
  readonly base: DesiredState | null;
  /** Whether the base is known to have been applied completely (a record of it, not a Git ref): what is missing then drifted. */
  readonly baseApplied?: boolean;
  /** Rules that are known to have been applied, and when they end (ms since 1970), by `formatRuleKey`; at least those that end. */
  readonly appliedRules?: ReadonlyMap<string, { readonly expires?: number | undefined }>;
  readonly profile: Profile;
  readonly scope: Scope;
  readonly options: PlanOptions;
  /** Ids of live rules to be replaced because the kernel's packet filter does not hold them (docs/how-to/enforcement.md). */
  readonly notEnforced?: ReadonlySet<string>;
  /** What a look at the kernel found, as a sentence, where it does not hold exactly the live rules and this plan does not mend that. */
  readonly kernelDiffers?: string;
}

/** The defaults of the command line. */
export const defaultPlanOptions: PlanOptions = {
  maxDeletes: { share: 0.3 },
  maxChanges: { share: 0.5 },
  allowEmpty: false,
  allowLockout: false,
  prune: 'all',
  replaceModified: false,
  maxExposure: 'any',
  failOn: [],
  protect: [],
  secretBindings: [],
  fingerprintKey: null,
};
