import { buildConfiguration } from '../desired/build-configuration.ts';
import type { Desired, DesiredContext } from '../desired/context.ts';
import { findOutside, makeState } from '../desired/desired.ts';
import { makeUnique, removeCopies, slugify } from '../desired/export.ts';
import { exportConfiguration, nameSecret } from '../desired/export-configuration.ts';
import { findEndings } from '../desired/in-force.ts';
import type { ConfigurationTemplate, SecretSource } from '../manifest/manifest.ts';
import { type ConfigurationField, type LiveConfiguration, mapSecrets } from '../model/configuration.ts';
import { formatInstant } from '../model/instant.ts';
import { compareProblems, hasErrors, makeNote, type Problem } from '../model/problem.ts';
import { collides, type DesiredRule, formatRuleKey, type LiveRule, type Rule } from '../model/rule.ts';
import { type DesiredState, isInScope, type LiveState } from '../model/state.ts';
import { hasChanged } from '../plan/diff-configuration.ts';
import { formatRule } from '../policy/words.ts';
import { type ApplyRecord, nowhere } from './history.ts';

/** An apply that a pass takes back. Only rules that it created are deleted for it. */
export interface BackOrder {
  readonly record: ApplyRecord;
  /** By itself: a field whose secret the record does not hold stays. Absent: the secret is asked for by reference. */
  readonly goesBack?: true;
  /** The rules that were live before the apply, by `formatRuleKey`: any other that it did not create was made by others since. */
  readonly known?: ReadonlySet<string>;
  /** What an earlier try made again, by `formatRuleKey`: it is not made once more after others deleted it. */
  readonly restored?: ReadonlySet<string>;
  /** Another way back came first: a field that is as before by now waits for no secret. */
  readonly isRest?: boolean;
  /** What is live ends when the record says so. */
  readonly endsAsSaid?: true;
  /** The ids of all users; absent: they could not be listed, or no rule of one comes back. */
  readonly users?: ReadonlySet<string> | undefined;
}

/** The fields that an apply wrote and whose secrets of before its record does not hold. */
export function listWaiting({ before, fields }: ApplyRecord): readonly ConfigurationField[] {
  const { saml_identity_providers: saml = [], openid_connect_providers: oidc = [] } = before?.fields ?? {};
  const waits: Partial<Record<ConfigurationField, boolean>> = {
    saml_identity_providers: saml.some(({ metadata }) => !metadata.known),
    openid_connect_providers: oidc.some(({ client_secret: secret }) => !secret.known),
  };
  return fields.filter((field) => waits[field]);
}

/**
 * What of all that is live is in scope without what this apply created, with what it deleted, and with the former value of fields that
 * still hold what it wrote. What others changed since stays, and a problem names it; what has expired does not come back.
 */
export function goBack(order: BackOrder, live: LiveState, context: DesiredContext): Desired {
  const finding: Finding = { ...order, context, problems: [] };
  const rules = rulesBefore(removeCopies(live.rules), finding);
  const configuration = configurationBefore(live.configuration, finding);
  const problems = [
    ...finding.problems,
    ...findOutside({ rules, configuration, manifests: [] }, context),
    ...findEndings(rules, context).filter(({ severity }) => severity === 'error'),
  ].sort(compareProblems);
  const made = makeState(rules, context.now, { configuration, userNames: new Map(), tests: [] });
  return { state: hasErrors(problems) ? null : made, problems, emails: [], manifests: [], suppressions: [] };
}

interface Finding extends BackOrder {
  readonly context: DesiredContext;
  readonly problems: Problem[];
}

/** The rules that stay, and those that come back. */
function rulesBefore(live: readonly LiveRule[], finding: Finding): readonly DesiredRule[] {
  const { record, known, goesBack, restored = new Set(), endsAsSaid, users, problems } = finding;
  const { now, profile, scope } = finding.context;
  const taken = new Set<string>();
  const liveKeys = new Set(live.map(({ rule }) => formatRuleKey(rule)));
  const created = new Set(record.created.map(({ rule }) => formatRuleKey(rule)));
  // No two of these collide, whoever made them.
  const standing = live.filter(({ rule }) => !created.has(formatRuleKey(rule)) || !isInScope(rule, scope));
  const kept = standing.filter(({ rule }) => isInScope(rule, scope));
  const leave = (rule: Rule, why: string): void =>
    void problems.push(leaveRule(rule, record.said.get(formatRuleKey(rule))?.name, why));
  // What is as before needs no word, but where somebody asked to undo what was carried out.
  const leaveAsBefore = goesBack || record.end === 'started' ? (): void => undefined : leave;
  for (const { rule } of record.created)
    if (!isInScope(rule, scope)) leave(rule, isOutside);
    else if (!liveKeys.has(formatRuleKey(rule)))
      leaveAsBefore(rule, 'was created by that apply, and is not live any more');
  const isGone = ({ userId }: Rule): boolean => userId !== null && users?.has(userId) === false;
  const describeBlocker = (one: LiveRule): string =>
    `cannot come back beside ${formatRule(one.rule, new Map())}${live.includes(one) ? ', made since' : ''}`;
  const back = record.deleted.flatMap((former): readonly DesiredRule[] => {
    const { rule } = former;
    const key = formatRuleKey(rule);
    const { name = null, expires } = record.said.get(key) ?? {};
    const blocker = profile.refusesCollisions ? standing.find((other) => collides(other.rule, rule)) : undefined;
    if (goesBack && !isInScope(rule, scope)) leave(rule, isOutside);
    else if (liveKeys.has(key) && !created.has(key)) leaveAsBefore(rule, 'is live again already');
    else if (expires !== undefined && expires <= now) leave(rule, `expired at ${formatInstant(expires)}`);
    else if (restored.has(key)) leave(rule, 'was deleted by others since it came back');
    // The server refuses it, and what it makes up for would stay.
    else if (isGone(rule)) leave(rule, 'is not made again, for its user is gone');
    else if (blocker) leave(rule, describeBlocker(blocker));
    else {
      standing.push(former);
      const own = makeUnique(slugify(name ?? `former-${rule.destination.text}`), taken);
      return [{ name: own, rule, place: nowhere, ...(expires === undefined ? {} : { expires }) }];
    }
    return [];
  });
  const stay = kept.map(({ rule }) => {
    const key = formatRuleKey(rule);
    if (known?.has(key) === false) leave(rule, 'was made by others since');
    const { name, expires } = (endsAsSaid && record.said.get(key)) || { name: null };
    const own = makeUnique(name ?? `kept/${slugify(key)}`, taken);
    return { name: own, rule, place: nowhere, ...(expires === undefined ? {} : { expires }) };
  });
  return [...stay, ...back];
}

const isOutside = 'is outside the scope of the settings';

function changedSince(what: string): Problem {
  return { code: 'changed-since', severity: 'note', summary: `Not undone: ${what}.` };
}

/** Says that a rule stays as it is, as plans write it. */
export function leaveRule(rule: Rule, name: string | null | undefined, why: string): Problem {
  const what = formatRule(rule, new Map());
  return changedSince(`the rule ${name ? `${name} (${what})` : what} ${why}`);
}

function waitsForSecret(field: ConfigurationField): Problem {
  const summary = `\`${field}\` stays as the apply wrote it: the process that knew its secret before is gone.`;
  const undo = '`reconcile undo N` puts it back and asks for the secret (`reconcile history` has the number)';
  const back = field === 'saml_identity_providers' ? 'An apply of the commit before puts it back' : undo;
  return makeNote('waits-for-secret', summary, `${back}; \`reconcile confirm\` keeps it.`);
}

/** The fields that go back, with the secrets of before as far as the record knows them. */
function configurationBefore(live: LiveConfiguration | null, { record, goesBack, isRest, context, problems }: Finding) {
  const { fields, before, after } = record;
  if (before === null || after === null) return null;
  if (!context.scope.configuration)
    for (const field of fields) problems.push(changedSince(`\`${field}\` ${isOutside}`));
  if (live === null) return null;
  const waiting = new Set(listWaiting(record));
  const unfit = new Set(exportConfiguration(before.fields, context.profile).unfit.map(({ field }) => field));
  const wanted = fields.filter((field) => {
    // The record holds no secrets, so that providers that differ in nothing else are `hidden`, and others `blocked`.
    const isNot = (then: LiveConfiguration): boolean => hasChanged(field, then, live);
    const changed = isNot(after);
    const isOpen = goesBack === true && waiting.has(field);
    // Somebody put it back already, or it was never written.
    if ((changed || (isOpen && isRest)) && !isNot(before)) return false;
    const isLost = field === 'saml_identity_providers' && waiting.has(field);
    const leave = (why: string): void => void problems.push(changedSince(`\`${field}\` ${why}`));
    if (changed) leave('was changed again');
    else if (isOpen) problems.push(waitsForSecret(field));
    else if (isLost) leave('needs SAML metadata, which no record holds: put it back from Git');
    else if (unfit.has(field)) leave('had a value that no manifest may have');
    return !changed && !isOpen && !isLost && !unfit.has(field);
  });
  if (wanted.length === 0) return null;
  const taken = new Set<string>();
  // The fields as a manifest has them. A secret that is not known is asked for by the name that an export gives it, and bound to nothing.
  const template: ConfigurationTemplate = mapSecrets(
    before.fields,
    (secret, provider): SecretSource =>
      secret.known || 'metadata' in provider
        ? { from: 'literal', key: secret.toKey(), place: nowhere }
        : { from: 'env', name: nameSecret(provider, taken), place: nowhere },
  );
  const own = Object.fromEntries(wanted.map((field) => [field, template[field]]));
  const manifest = { kind: 'Configuration', name: 'main', place: nowhere, places: {}, fields: own } as const;
  return buildConfiguration(manifest, { context, problems, attachments: new Map() });
}

/** What is wanted without the fields that others changed since it was made. */
export function leaveChanged(order: BackOrder, state: DesiredState, { configuration: live }: LiveState): DesiredState {
  const { configuration: wanted } = state;
  const { before, after, fields } = order.record;
  if (wanted === null || live === null || before === null || after === null) return state;
  const isOther = (field: ConfigurationField) => hasChanged(field, after, live) && hasChanged(field, before, live);
  const own = fields.filter((field) => wanted.fields[field] !== undefined && !isOther(field));
  const left = Object.fromEntries(own.map((field) => [field, wanted.fields[field]]));
  return { ...state, configuration: { ...wanted, fields: left } };
}
