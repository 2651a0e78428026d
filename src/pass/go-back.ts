import { createHash } from 'node:crypto';
import { type ExportedFile, exportRules, makeUnique, removeCopies, slugify } from '../desired/export.ts';
import { exportConfiguration } from '../desired/export-configuration.ts';
import { apiVersion } from '../manifest/manifest.ts';
import { Flow, writeDocuments, writeYaml } from '../manifest/write.ts';
import {
  type ConfigurationField,
  findSecretHost,
  type LiveConfiguration,
  type SecretBinding,
} from '../model/configuration.ts';
import type { Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { collides, formatRuleKey, type LiveRule, type Rule, toWire } from '../model/rule.ts';
import type { Secret } from '../model/secret.ts';
import type { LiveState } from '../model/state.ts';
import { compareField } from '../plan/diff-configuration.ts';
import type { SourceFile } from '../ports.ts';
import type { ApplyRecord } from './history.ts';

/** The manifests of the state to go back to, the only rules that may be deleted for it, and what stays as it is. */
export interface GoingBack {
  readonly files: readonly SourceFile[];
  readonly prune: ReadonlySet<string>;
  readonly stays: readonly Problem[];
  /** The secrets that the files refer to, by variable or file, as far as the record knows them, and where they were before. */
  readonly secrets: ReadonlyMap<string, Secret>;
  readonly bindings: readonly SecretBinding[];
  /** Fields that stay for want of a secret. */
  readonly waiting: readonly ConfigurationField[];
}

/** On which terms an apply is taken back. */
export interface BackTerms {
  /** The time at which rules have expired, ms since 1970. */
  readonly now: number;
  /** Fields that need a secret which the record does not hold stay; absent: the secret is asked for by reference. */
  readonly withoutSecrets?: true;
  /** The rules that were live before the apply, by `formatRuleKey`: any other that it did not create was made by others since. */
  readonly known?: ReadonlySet<string>;
}

/**
 * The live state with what this apply changed taken back: what it created goes, what it deleted comes back, and fields that still
 * hold what it wrote get their former value. What others changed since stays, and is named; what has expired by `now` does not
 * come back. `live`: what is in scope.
 */
export function goBack(record: ApplyRecord, live: LiveState, profile: Profile, terms: BackTerms): GoingBack {
  const { now, known } = terms;
  const liveKeys = new Set(live.rules.map(({ rule }) => formatRuleKey(rule)));
  const created = new Set(record.created.map(({ rule }) => formatRuleKey(rule)));
  const kept = live.rules.filter(({ rule }) => !created.has(formatRuleKey(rule)));
  const stays: Problem[] = record.created
    .filter(({ rule }) => !liveKeys.has(formatRuleKey(rule)))
    .map(({ rule }) => changedSince(`${nameOf(rule, record)} was created by that apply, and is not live any more`));
  const back = record.deleted.filter(({ rule }) => {
    const key = formatRuleKey(rule);
    const until = record.expires.get(key) ?? Number.POSITIVE_INFINITY;
    const blocker = profile.refusesCollisions ? kept.find((other) => collides(other.rule, rule)) : undefined;
    if (liveKeys.has(key) && !created.has(key))
      stays.push(changedSince(`${nameOf(rule, record)} is live again already`));
    else if (until <= now)
      stays.push(changedSince(`${nameOf(rule, record)} expired at ${new Date(until).toISOString()}`));
    else if (blocker !== undefined)
      stays.push(
        changedSince(`${nameOf(rule, record)} cannot come back beside ${formatRuleKey(blocker.rule)}, made since`),
      );
    else return true;
    return false;
  });
  const mayCollide = !profile.refusesCollisions;
  for (const { rule } of kept)
    if (known?.has(formatRuleKey(rule)) === false)
      stays.push(changedSince(`the rule ${formatRuleKey(rule)} was made by others since`));
  const configuration = configurationBefore(record, live.configuration, { profile, stays, terms });
  const rules = exportRules(removeCopies(kept), { emails: new Map(), mayCollide });
  return {
    files: [...rules, ...formerRules(back, record), ...configuration.files].flatMap(readManifest),
    prune: created,
    stays,
    secrets: configuration.secrets,
    bindings: bindingsOf(record, configuration.secrets),
    waiting: configuration.waiting,
  };
}

/** A file as a source gives it; metadata is no manifest, and is looked up among the secrets. */
function readManifest({ path, text }: ExportedFile): readonly SourceFile[] {
  const bytes = new TextEncoder().encode(text);
  return path.endsWith('.yaml') ? [{ path, bytes, hash: createHash('sha256').update(bytes).digest('hex') }] : [];
}

function nameOf(rule: Rule, { names }: ApplyRecord): string {
  const key = formatRuleKey(rule);
  const name = names.get(key);
  return name === undefined ? `the rule ${key}` : `the rule ${name} (${key})`;
}

function changedSince(what: string): Problem {
  return { code: 'changed-since', severity: 'note', summary: `Not undone: ${what}.` };
}

function formerRules(rules: readonly LiveRule[], { names, expires }: ApplyRecord): readonly ExportedFile[] {
  if (rules.length === 0) return [];
  const taken = new Set<string>();
  const documents = rules.map(({ rule }) => {
    const { action, destination, port_range, port_type, user_id } = toWire(rule);
    const ports = port_range === null ? {} : { port_type, port_range };
    const name = makeUnique(slugify(names.get(formatRuleKey(rule)) ?? `former-${destination}`), taken);
    const until = expires.get(formatRuleKey(rule));
    const ends = until === undefined ? {} : { expires: new Date(until).toISOString() };
    const spec = { action, destination, ...ports, ...(user_id === null ? {} : { user_id }), ...ends };
    return writeYaml({ apiVersion, kind: 'Rule', metadata: new Flow({ name }), spec });
  });
  return [{ path: 'former-rules.yaml', text: writeDocuments(documents) }];
}

type FormerConfiguration = Pick<GoingBack, 'secrets' | 'waiting'> & { readonly files: readonly ExportedFile[] };

function configurationBefore(
  { fields, before, after }: ApplyRecord,
  live: LiveConfiguration | null,
  { profile, stays, terms }: { readonly profile: Profile; readonly stays: Problem[]; readonly terms: BackTerms },
): FormerConfiguration {
  if (before === null || after === null || live === null) return { files: [], secrets: new Map(), waiting: [] };
  const lacksMetadata = before.fields.saml_identity_providers.some(({ metadata }) => !metadata.known);
  const lacksSecret = before.fields.openid_connect_providers.some(({ client_secret: secret }) => !secret.known);
  const waiting: ConfigurationField[] = [];
  const wanted = fields.filter((field) => {
    // The record holds no secrets, so that providers that differ in nothing else are `hidden`, and others `blocked`.
    const changed = ['differs', 'blocked'].includes(compareField(field, after.fields[field], live.fields[field]));
    const lost = field === 'saml_identity_providers' && lacksMetadata;
    const lacking = lost || (field === 'openid_connect_providers' && lacksSecret);
    if (changed) stays.push(changedSince(`\`${field}\` was changed again`));
    else if (lacking && terms.withoutSecrets) {
      waiting.push(field);
      return false;
    } else if (lost)
      stays.push(changedSince(`\`${field}\` needs SAML metadata, which no record holds: put it back from Git`));
    return !changed && !lost;
  });
  if (wanted.length === 0) return { files: [], secrets: new Map(), waiting };
  const { files, secretByName } = exportConfiguration(before.fields, profile, wanted);
  return { files, secrets: new Map([...secretByName].filter(([, secret]) => secret.known)), waiting };
}

/**
 * Secrets that are known from before may go where they were. Whoever wrote a provider's id chose the name of its secret: one that
 * is asked for by its name is bound to nothing.
 */
function bindingsOf({ before }: ApplyRecord, secrets: GoingBack['secrets']): readonly SecretBinding[] {
  return (before?.fields.openid_connect_providers ?? []).flatMap((provider) => {
    const host = findSecretHost(provider.discovery_document_uri);
    const name = [...secrets].find(([, secret]) => secret === provider.client_secret)?.[0];
    return host === null || name === undefined ? [] : [{ name, provider: provider.id, host }];
  });
}
