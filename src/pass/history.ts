import type { ApplyEnd, ApplyReport } from '../apply/outcome.ts';
import { type ExportedFile, exportRules, makeUnique, removeCopies, slugify } from '../desired/export.ts';
import { exportConfiguration } from '../desired/export-configuration.ts';
import { decodeLiveConfiguration } from '../live/live-configuration.ts';
import { decodeLiveRules } from '../live/live-rules.ts';
import { decodeSnapshot, encodeSnapshot } from '../live/snapshot.ts';
import { apiVersion } from '../manifest/manifest.ts';
import { Flow, writeDocuments, writeYaml } from '../manifest/write.ts';
import { type ConfigurationField, configurationFields, type LiveConfiguration } from '../model/configuration.ts';
import type { Problem } from '../model/problem.ts';
import type { Profile } from '../model/profile.ts';
import { fail, isObject, ok, type Result } from '../model/result.ts';
import { collides, formatRuleKey, type LiveRule, type Rule, toWire } from '../model/rule.ts';
import type { LiveState } from '../model/state.ts';
import { compareField } from '../plan/diff-configuration.ts';
import type { Plan, Step } from '../plan/plan.ts';

/** Who made an apply, to which server, from what. */
export interface ApplyOrigin {
  readonly at: string;
  readonly by: string;
  readonly server: string | null;
  readonly revision: string | null;
  readonly digest: string | null;
}

/** What one apply changed, and how it was before; without any secret. `end` is `started` where the run was killed. */
export interface ApplyRecord extends ApplyOrigin {
  readonly end: ApplyEnd | 'started';
  /** Rules that the apply deleted, as they were, and those that it created. */
  readonly deleted: readonly LiveRule[];
  readonly created: readonly LiveRule[];
  /** Names in the manifests, by `formatRuleKey`. */
  readonly names: ReadonlyMap<string, string>;
  /** When rules end, by `formatRuleKey`, in ms since 1970, as far as it is known: what has ended is not put back. */
  readonly expires: ReadonlyMap<string, number>;
  /** Fields of the Configuration that it wrote. */
  readonly fields: readonly ConfigurationField[];
  readonly before: LiveConfiguration | null;
  readonly after: LiveConfiguration | null;
}

interface DoneStep {
  readonly step: Step;
  readonly liveId?: string;
}

/** Rules that the last apply put into effect, by `formatRuleKey`: a plan without a base cannot tell what it deletes. */
export type FormerRules = ReadonlyMap<string, { readonly name: string; readonly expires?: number }>;

/** The record of a plan that is about to be applied (without `apply`), or of what was carried out of it. */
export function makeApplyRecord(
  origin: ApplyOrigin,
  plan: Plan,
  apply: ApplyReport | null,
  former: FormerRules = new Map(),
): ApplyRecord {
  // What nobody knows counts: going back looks at what is live.
  const done: readonly DoneStep[] =
    apply === null
      ? plan.steps.map((step) => ({ step }))
      : apply.outcomes.filter(({ outcome }) => outcome === 'done' || outcome === 'unknown');
  const rules = changedRules(done);
  const configured = done.flatMap(({ step }) => (step.type === 'configure' ? [step] : []));
  const change = plan.changes.find(({ kind }) => kind === 'Configuration');
  const before = change?.kind === 'Configuration' && configured.length > 0 ? change.live : null;
  const desired = change?.kind === 'Configuration' ? change.desired.fields : {};
  return {
    ...origin,
    end: apply?.end ?? 'started',
    ...rules,
    ...describeRules([...rules.deleted, ...rules.created], plan, former),
    fields: before === null ? [] : [...new Set(configured.flatMap(({ fields }) => fields))],
    before,
    after: before === null ? null : { ...before, fields: { ...before.fields, ...desired } },
  };
}

function changedRules(done: readonly DoneStep[]): Pick<ApplyRecord, 'deleted' | 'created'> {
  const deleted = new Map<string, LiveRule>();
  const created = new Map<string, LiveRule>();
  for (const [index, { step, liveId }] of done.entries()) {
    if (step.type === 'delete' || step.type === 'update') note(step.live, deleted, created);
    if (step.type === 'create' || step.type === 'update') note(madeRule(step.rule, liveId, index), created, deleted);
  }
  return { deleted: [...deleted.values()], created: [...created.values()] };
}

function describeRules(
  rules: readonly LiveRule[],
  plan: Plan,
  former: FormerRules,
): Pick<ApplyRecord, 'names' | 'expires'> {
  const names = new Map<string, string>();
  const expires = new Map<string, number>();
  const keys = new Set(rules.map(({ rule }) => formatRuleKey(rule)));
  const learn = (key: string, name: string | null, until: number | undefined): void => {
    if (!keys.has(key)) return;
    if (name !== null) names.set(key, name);
    if (until !== undefined) expires.set(key, until);
  };
  for (const [key, rule] of former) learn(key, rule.name, rule.expires);
  for (const change of plan.changes) {
    if (change.kind !== 'Rule') continue;
    const { live, desired, name } = change;
    // The notes of a pair are those of its new rule.
    if (live !== null) learn(formatRuleKey(live.rule), name, desired === null ? change.expires : undefined);
    if (desired !== null) learn(formatRuleKey(desired.rule), name, desired.expires);
  }
  return { names, expires };
}

/** A rule that came and went within one apply was not changed by it. */
function note(live: LiveRule, here: Map<string, LiveRule>, there: Map<string, LiveRule>): void {
  const key = formatRuleKey(live.rule);
  if (!there.delete(key)) here.set(key, live);
}

/** A created rule as it would be listed. */
function madeRule(rule: Rule, liveId: string | undefined, index: number): LiveRule {
  const id = liveId ?? `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
  return { id, rule, destinationText: toWire(rule).destination, insertedAt: '', updatedAt: '' };
}

/** How many rules and fields an apply changed; nothing at all needs no record. */
export function countChanges({ deleted, created, fields }: ApplyRecord): number {
  return deleted.length + created.length + fields.length;
}

const version = '1.0';

/** The record as a JSON value. */
export function encodeApplyRecord(record: ApplyRecord): unknown {
  const { at, by, server, revision, digest, end, fields, names, expires } = record;
  const state = (rules: readonly LiveRule[], configuration: LiveConfiguration | null): unknown =>
    encodeSnapshot({ rules, configuration }, [], at);
  return {
    format_version: version,
    kind: 'apply-record',
    ...{ at, by, server, revision, digest, end, fields },
    names: Object.fromEntries(names),
    expires: Object.fromEntries(expires),
    before: state(record.deleted, record.before),
    after: state(record.created, record.after),
  };
}

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Reads a record; the error is a sentence. */
export function decodeApplyRecord(value: unknown): Result<ApplyRecord, string> {
  if (!isObject(value) || value['kind'] !== 'apply-record' || value['format_version'] !== version)
    return fail('it is not the record of an apply in a form that this version reads');
  const before = decodeHalf(value['before']);
  const after = decodeHalf(value['after']);
  if (!before.ok) return before;
  if (!after.ok) return after;
  const { names, expires, fields } = value;
  const ends: readonly ApplyRecord['end'][] = ['started', 'converged', 'not-converged', 'stopped', 'failed'];
  return ok({
    at: textOrNull(value['at']) ?? '',
    by: textOrNull(value['by']) ?? 'unknown',
    server: textOrNull(value['server']),
    revision: textOrNull(value['revision']),
    digest: textOrNull(value['digest']),
    end: ends.find((end) => end === value['end']) ?? 'started',
    names: new Map(Object.entries(isObject(names) ? names : {}).map(([key, name]) => [key, String(name)])),
    expires: new Map(Object.entries(isObject(expires) ? expires : {}).map(([key, until]) => [key, Number(until)])),
    fields: configurationFields.filter((field) => Array.isArray(fields) && fields.includes(field)),
    deleted: before.value.rules,
    created: after.value.rules,
    before: before.value.configuration,
    after: after.value.configuration,
  });
}

function decodeHalf(value: unknown): Result<LiveState, string> {
  const snapshot = decodeSnapshot(value);
  if (!snapshot.ok) return snapshot;
  const { bodies } = snapshot.value;
  const rules = decodeLiveRules(bodies.rules);
  const none = isObject(value) && value['configuration'] === null;
  const configuration = none ? ok(null) : decodeLiveConfiguration(bodies.configuration);
  if (!rules.ok) return rules;
  return configuration.ok ? ok({ rules: rules.value, configuration: configuration.value }) : configuration;
}

/** The manifests of the state to go back to, the only rules that may be deleted for it, and what stays as it is. */
export interface GoingBack {
  readonly files: readonly ExportedFile[];
  readonly deletable: ReadonlySet<string>;
  readonly stays: readonly Problem[];
}

/**
 * The live state with what this apply changed taken back: what it created goes, what it deleted comes back, and fields that still
 * hold what it wrote get their former value. What others changed since stays, and is named; what has expired by `now` does not
 * come back. `live`: what is in scope.
 */
export function goBack(record: ApplyRecord, live: LiveState, profile: Profile, now: number): GoingBack {
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
  return {
    files: [
      ...exportRules(removeCopies(kept), { emails: new Map(), mayCollide }),
      ...formerRules(back, record),
      ...configurationBefore(record, live.configuration, profile, stays),
    ],
    deletable: created,
    stays,
  };
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

function configurationBefore(
  { fields, before, after }: ApplyRecord,
  live: LiveConfiguration | null,
  profile: Profile,
  stays: Problem[],
): readonly ExportedFile[] {
  if (before === null || after === null || live === null) return [];
  const lacksMetadata = before.fields.saml_identity_providers.some(({ metadata }) => !metadata.known);
  const wanted = fields.filter((field) => {
    // The record holds no secrets, so that providers that differ in nothing else are `hidden`, and others `blocked`.
    const changed = ['differs', 'blocked'].includes(compareField(field, after.fields[field], live.fields[field]));
    const lost = field === 'saml_identity_providers' && lacksMetadata;
    if (changed) stays.push(changedSince(`\`${field}\` was changed again`));
    else if (lost)
      stays.push(changedSince(`\`${field}\` needs SAML metadata, which no record holds: put it back from Git`));
    return !changed && !lost;
  });
  // Whoever wrote a provider's id chose the name of its secret here: what was there before binds nothing.
  return wanted.length === 0 ? [] : exportConfiguration(before.fields, profile, wanted).files;
}
