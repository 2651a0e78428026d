import { createHash, createHmac, type Hash } from 'node:crypto';
import type { ConfigurationFields } from '../model/configuration.ts';
import { getOrMake } from '../model/group-by.ts';
import { compareText } from '../model/problem.ts';
import { formatRuleKey, isModifiedInPlace } from '../model/rule.ts';
import { type FingerprintKey, Secret } from '../model/secret.ts';
import type { DesiredState, LiveState } from '../model/state.ts';
import { hasUnknownSecret } from './diff-configuration.ts';
import { listRules, makeRequest, type Plan, type Step } from './plan.ts';

/** Ties what was reviewed to what is applied: `plan` covers the three others. Secrets count by fingerprint. */
export interface PlanDigest extends Readonly<Record<'plan' | 'live' | 'manifests' | 'steps', string>> {
  /** Of the key alone: tells a renewed token from anything else that moved. Null without a key. */
  readonly key: string | null;
  /** A managed secret is not available here: the digest says nothing about it. */
  readonly unknownSecrets: boolean;
}

/** The digest of a plan made from these states. Neither the order of lists nor timestamps matter, but when rules will begin and end. */
export function digestPlan(
  plan: Plan,
  states: { readonly desired: DesiredState; readonly live: LiveState; readonly key: FingerprintKey | null },
): PlanDigest {
  const { desired, live, key } = states;
  const { rules, upcoming = [], at } = desired;
  const fields = desired.configuration?.fields ?? {};
  const { openid_connect_providers: oidc = [], saml_identity_providers: saml = [] } = fields;
  const later = upcoming.map((one) => `${formatRuleKey(one.rule)} ${one.notBefore} ${one.expires}`).sort();
  // The content of those in force is in the digest, in their order.
  const times = at === undefined ? [] : [...rules.map(({ expires }) => String(expires)), ...later];
  const manifests = hash([desired.digest, ...times, textOf(fields, key)]);
  // A sidecar does not even read a Configuration that no manifest manages, and a plan's digest is the same there.
  const stored = desired.configuration === null ? {} : (live.configuration?.fields ?? {});
  const parts = {
    live: shorten(hashRules(live.rules).update(textOf(stored, key))),
    manifests,
    steps: hash([plan.profile, plan.ruleUpdates, ...plan.steps.map(stepText)]),
  };
  return {
    plan: hash([parts.live, parts.manifests, parts.steps]),
    ...parts,
    key: key === null ? null : createHmac('sha256', key).update('reconcile plan key').digest('hex').slice(0, 32),
    unknownSecrets: hasUnknownSecret([...oidc, ...saml]),
  };
}

const hashedRules = new WeakMap<LiveState['rules'], Hash>();

/** The hash over the lines of the rules, to be gone on with: an idle sidecar reads the same list again and again. */
function hashRules(rules: LiveState['rules']): Hash {
  // By code unit, as `compareText` sorts, and faster.
  const lines = (): readonly string[] => [...rules.map(liveText).sort(), ''];
  return getOrMake(hashedRules, rules, () => createHash('sha256').update(lines().join('\n'))).copy();
}

/** Both times matter only where they differ: then the rule was modified in place. */
function liveText(live: LiveState['rules'][number]): string {
  return `${live.id} ${formatRuleKey(live.rule)} ${live.destinationText} ${isModifiedInPlace(live) ? 'modified' : ''}`;
}

function stepText(step: Step): string {
  const { method, path } = makeRequest(step);
  const content = step.type === 'configure' ? step.fields : listRules([step]).map(({ rule }) => formatRuleKey(rule));
  return `${method} ${path} ${content.join(' ')} after ${step.after.join(' ')}`;
}

/** Fields as text with their keys in order; a secret by its fingerprint. */
function textOf(fields: Partial<ConfigurationFields>, key: FingerprintKey | null): string {
  return JSON.stringify(plain(fields, key));
}

function plain(value: unknown, key: FingerprintKey | null): unknown {
  if (value instanceof Secret && !value.known) return '(unknown)';
  if (value instanceof Secret) return key === null ? '(known)' : (value.fingerprint(key) ?? '(unknown)');
  if (Array.isArray(value)) return value.map((member) => plain(member, key));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => compareText(a, b));
  return Object.fromEntries(entries.map(([name, member]) => [name, plain(member, key)]));
}

/** 32 hex digits of SHA-256 over the lines. */
function hash(lines: readonly string[]): string {
  return shorten(createHash('sha256').update(lines.join('\n')));
}

function shorten(hash: Hash): string {
  return hash.digest('hex').slice(0, 32);
}
