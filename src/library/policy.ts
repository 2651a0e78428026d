import { createHash } from 'node:crypto';
import { type Desired, type DesiredContext, defaultLimits, type SecretReference } from '../desired/context.ts';
import { assemble } from '../desired/desired.ts';
import { type ParsedFiles, parseFiles } from '../desired/parse-files.ts';
import { digestFiles } from '../model/digest-files.ts';
import type { KnownUsers } from '../model/known-users.ts';
import { compareText, type Problem } from '../model/problem.ts';
import { findProfile, type ProfileName, type RuleUpdates } from '../model/profile.ts';
import { fail, ok } from '../model/result.ts';
import { Secret } from '../model/secret.ts';
import { type DesiredState, findNetworkFault, readScope, type WrittenScope } from '../model/state.ts';
import type { PlanOptions } from '../plan/input.ts';
import type { SourceContent } from '../ports.ts';

/** One manifest file: `path` is shown in messages, `text` is YAML and may hold several documents. */
export type ManifestFile = Readonly<Record<'path' | 'text', string>>;

/** Manifests, and all that their meaning depends on; each member but `manifests` has the command's default. */
export interface PolicyRequest {
  readonly manifests: readonly ManifestFile[];
  /** Default `firezone-0.7`. */
  readonly profile?: ProfileName;
  readonly ruleUpdates?: RuleUpdates;
  /** The folder of the environment (`environments/production`), as `--overlay` names it. */
  readonly overlay?: string;
  /** The time, in ms since 1970, for which rules with `expires` or `notBefore` are in force; default: now. */
  readonly at?: number;
  /** Values for `${name}` in manifests. */
  readonly values?: Readonly<Record<string, string>>;
  /** The part of the server that these manifests are responsible for, as `scope` in the settings says it. */
  readonly scope?: WrittenScope;
  /** The secret that a reference stands for; undefined: not known here. Without it no secret is known. */
  readonly resolveSecret?: (reference: SecretReference) => string | undefined;
}

/** What a plan depends on beside the policy and the live state. */
export interface PlanningRequest {
  /** The manifests last applied, as `--base` names them. */
  readonly base?: readonly ManifestFile[];
  /** Limits and permissions of the guards; what is left out has the command's default. */
  readonly options?: Partial<Omit<PlanOptions, 'protect' | 'fingerprintKey' | 'goesBack'>>;
  /** Digests of plans that were reviewed: no guard refuses these. */
  readonly approvals?: readonly string[];
}

/**
 * The manifests parsed, and what they mean without a server: `offline`, where e-mail addresses are not resolved. Throws a `TypeError`
 * for a scope that cannot be read.
 */
export function readPolicy(request: PolicyRequest) {
  const profile = findProfile(request.profile ?? 'firezone-0.7', request.ruleUpdates);
  for (const [index, text] of (request.scope?.networks ?? []).entries()) {
    const fault = findNetworkFault(text);
    if (fault !== null) throw new TypeError(`scope.networks.${index}: ${fault}`);
  }
  const values = request.values === undefined ? null : new Map(Object.entries(request.values));
  const context: DesiredContext = {
    profile,
    scope: readScope(request.scope ?? {}),
    now: request.at ?? Date.now(),
    overlay: request.overlay ?? null,
    resolveSecret(reference) {
      const text = request.resolveSecret?.(reference);
      if (text === undefined) return ok(Secret.unknown());
      return typeof text === 'string' ? ok(Secret.of(text)) : fail('resolveSecret gave something that is not a text');
    },
  };
  const parse = (files: SourceContent['files']): ParsedFiles =>
    parseFiles(files, { profile, values, limits: defaultLimits });
  const content = toContent(request.manifests);
  const parsed = parse(content.files);
  const build = (users: KnownUsers | null): Desired => assemble(parsed, users, context);
  return { content, context, offline: build(null), build, parse };
}

/** What is said of manifests given as `base` that hold errors; empty where there is a state of them, or none were given. */
export function judgeBase(base: DesiredState | null | undefined): readonly Problem[] {
  const summary = 'The manifests given as `base` hold errors: no change is attributed.';
  return base === null ? [{ code: 'base-invalid', severity: 'warning', summary }] : [];
}

/** The revision is that of a directory with these files. */
export function toContent(manifests: readonly ManifestFile[]): SourceContent {
  const files = manifests
    .map(({ path, text }) => {
      const bytes = new TextEncoder().encode(text);
      return { path, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
    })
    .sort((a, b) => compareText(a.path, b.path));
  return { revision: digestFiles(files), files };
}
