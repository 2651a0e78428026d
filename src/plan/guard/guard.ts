import type { ConfigurationField, ConfigurationFields } from '../../model/configuration.ts';
import { leavesNoSignIn, signInFields } from '../../model/configuration.ts';
import { groupBy } from '../../model/group-by.ts';
import { createTouches } from '../../model/intervals.ts';
import { collides, formatRuleKey, type Rule } from '../../model/rule.ts';
import { isInScope } from '../../model/state.ts';
import type { DeleteLimit, PlanInput } from '../input.ts';
import { eachMeeting } from '../meeting.ts';
import { type Change, getChangedRule, mayRebuild, type Plan, type Refusal, type RuleChange } from '../plan.ts';
import { refuseSecrets } from './guard-secrets.ts';
import { type Guarded, protectRefusals, refuseFailedTests } from './guard-traffic.ts';

/** Every guard's refusals, in a fixed order; empty when the plan may be applied. */
export function guardPlan(guarded: Guarded): readonly Refusal[] {
  const { goesBack = false } = guarded.input.options;
  const unless = (refuse: (of: Guarded) => readonly Refusal[]): readonly Refusal[] => (goesBack ? [] : refuse(guarded));
  return [
    ...refuseCollisions(guarded.input, guarded.changes),
    ...unless(deleteRefusals),
    ...unless(changeRefusals),
    ...unless(trafficRefusals),
    ...unless(lockoutRefusals),
    ...refuseSecrets(guarded.input, guarded.configuration),
    ...unless(protectRefusals),
    ...unless(refuseFailedTests),
    ...unless(exposureRefusals),
    ...unless(failOnRefusals),
  ];
}

/** From this many live rules in scope a share counts, and so does the loss of all of them. */
const enoughRules = 10;

function deleteRefusals({ input, changes }: Guarded): readonly Refusal[] {
  const live = input.live.rules.filter(({ rule }) => isInScope(rule, input.scope)).length;
  const vanishing = changes.filter((change) => change.action === 'delete' && !endsAsApplied(change, input)).length;
  const remaining = changes.some(({ kind, action }) => kind === 'Rule' && action !== 'delete' && action !== 'skip');
  const refusals: Refusal[] = [];
  if (live > 0 && vanishing === live && !input.options.allowEmpty && (!remaining || live >= enoughRules)) {
    const summary = `All ${live} live rules in scope would be deleted${remaining ? '' : ' and none would remain'}.`;
    const hint = 'Check the path of the manifests and the scope; `--allow-empty` allows it.';
    refusals.push({ code: 'deletes-everything', summary, hint });
  }
  const counted = changes.filter((change) => change.action === 'delete' && !closesAsApplied(change, input)).length;
  const summary = describeExcess(counted, live, input.options.maxDeletes, 'be deleted');
  if (summary === null) return refusals;
  const hint = `Check the deletes; \`--max-deletes ${counted}\` allows them.`;
  return [...refusals, { code: 'too-many-deletes', summary, hint }];
}

/** What is only listed in part cannot be reviewed, nor guarded. Ends of access never wait for that. */
function trafficRefusals({ input, changes, effect }: Guarded): readonly Refusal[] {
  const isOther = (change: Change): boolean =>
    change.action !== 'keep' && change.action !== 'skip' && !closesAsApplied(change, input);
  if (effect.isCut !== true || !changes.some(isOther)) return [];
  const summary =
    'More traffic opens or closes than can be listed: so many ports or networks apart, for so many users.';
  const hint = 'Split the change: add or change the rules for a part of the networks first, then the others.';
  return [{ code: 'too-much-traffic', summary, hint }];
}

/** Live rules that are deleted or get another content, but for what only goes back to a revision that was applied in full. */
function changeRefusals({ input, changes }: Guarded): readonly Refusal[] {
  const live = input.live.rules.filter(({ rule }) => isInScope(rule, input.scope)).length;
  const changed = changes.filter((change) => {
    if (change.kind !== 'Rule' || change.live === null || closesAsApplied(change, input)) return false;
    const { action, desired, origin } = change;
    if (input.baseApplied === true && origin === 'drift') return false;
    if (action !== 'update' || desired === null) return action === 'delete';
    return formatRuleKey(desired.rule) !== formatRuleKey(change.live.rule);
  }).length;
  const summary = describeExcess(changed, live, input.options.maxChanges, 'be deleted or get another content');
  if (summary === null) return [];
  const hint = `Check the changes; \`--max-changes ${changed}\`, or \`--approve\` with the digest of this plan, allows them.`;
  return [{ code: 'too-many-changes', summary, hint }];
}

/** Whether the rule ends as the manifests said that are known to have been applied: nobody is surprised by that. */
function endsAsApplied(change: Change, { appliedRules }: PlanInput): boolean {
  if (change.kind !== 'Rule' || change.origin !== 'expired' || change.live === null) return false;
  return appliedRules?.get(formatRuleKey(change.live.rule))?.expires === change.expires;
}

/** The same of a rule that let traffic pass. Where drop rules end, what they closed is open: many at once are judged like any delete. */
function closesAsApplied(change: Change, input: PlanInput): boolean {
  return endsAccess(change) && endsAsApplied(change, input);
}

function endsAccess(change: Change | undefined): boolean {
  return change?.kind === 'Rule' && change.origin === 'expired' && change.live?.rule.action === 'accept';
}

/** What befalls more live rules than the limit allows; null where it allows them. */
function describeExcess(count: number, live: number, limit: DeleteLimit, befalls: string): string | null {
  // In whole numbers: 0.29 × 100 is less than 29.
  const most = 'count' in limit ? limit.count : (Math.round(limit.share * 1e9) * live) / 1e9;
  const text = 'count' in limit ? String(limit.count) : percent(limit.share);
  if (count <= most || (!('count' in limit) && limit.share > 0 && live < enoughRules)) return null;
  return `${count} of ${live} live rules in scope (${percent(count / live)}) would ${befalls}; the limit is ${text}.`;
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10}%`;
}

/** Judges the Configuration that results: live fields overlaid with those that are sent. */
function lockoutRefusals({ input, configuration }: Guarded): readonly Refusal[] {
  if (configuration === null || input.options.allowLockout) return [];
  const { change, sent } = configuration;
  const before = change.live.fields;
  const after = { ...before, ...Object.fromEntries(sent.map((field) => [field, change.desired.fields[field]])) };
  const judge = (fields: readonly ConfigurationField[], found: Lockout | null): readonly Refusal[] => {
    const written = sent.filter((field) => fields.includes(field));
    if (found === null || written.length === 0) return [];
    const { places, place } = change.desired;
    const related = written.map((field) => ({ place: places[field] ?? place, note: `\`${field}\` is set here` }));
    const hint = `${found.keep}; \`--allow-lockout\` allows it.`;
    return [{ code: 'locks-out', summary: found.summary, hint, related }];
  };
  const sessions = ['vpn_session_duration', 'allow_unprivileged_device_management'] as const;
  return [...judge(signInFields, findLostSignIn(before, after)), ...judge(sessions, findLostSessions(before, after))];
}

/** How people are locked out, and what to keep instead. */
type Lockout = Readonly<Record<'summary' | 'keep', string>>;

function findLostSignIn(before: ConfigurationFields, after: ConfigurationFields): Lockout | null {
  if (leavesNoSignIn(after)) {
    const summary = 'The configuration would leave no way to sign in: local sign-in off, no OIDC and no SAML provider.';
    return { summary, keep: 'Keep `local_auth_enabled: true` or a provider' };
  }
  if (leavesNoSignIn(before) || keepsWayIn(before, after)) return null;
  const summary = 'Every way to sign in would change at once, so that one mistake locks everybody out.';
  return { summary, keep: 'Keep local sign-in or one provider as it is until people signed in through the new one' };
}

/** Whether a way in that works now stays as it is: local sign-in, or a provider that is still the same party. */
function keepsWayIn(before: ConfigurationFields, after: ConfigurationFields): boolean {
  if (before.local_auth_enabled === true && after.local_auth_enabled === true) return true;
  const entity = /\bentityID\s*=\s*["']([^"']*)["']/;
  const listParties = ({ openid_connect_providers: oidc, saml_identity_providers: saml }: ConfigurationFields) => [
    ...oidc.map((one) => JSON.stringify(['oidc', one.id, one.client_id, one.discovery_document_uri])),
    ...saml.map(({ id, metadata }) => JSON.stringify(['saml', id, metadata.extract(entity)])),
  ];
  const parties = listParties(before);
  return listParties(after).some((one) => parties.includes(one));
}

/** VPN sessions of a few minutes that only administrators can begin anew cut every device off. */
function findLostSessions(before: ConfigurationFields, after: ConfigurationFields): Lockout | null {
  const isLost = ({ vpn_session_duration: seconds, ...fields }: ConfigurationFields): boolean =>
    seconds >= 1 && seconds <= 299 && fields.allow_unprivileged_device_management === false;
  if (!isLost(after) || isLost(before)) return null;
  const summary = `VPN sessions would end after ${after.vpn_session_duration} s, and users may not manage their own devices.`;
  return { summary, keep: 'Use 0 (no end), or 300 and more, for `vpn_session_duration`' };
}

/** What a plan opens on the way, but for a rebuild of the filter that only access that ends brings: to wait would leave more open. */
export function listOpened({ changes, steps, exposure }: Pick<Plan, 'changes' | 'steps' | 'exposure'>) {
  const isEnd = steps.filter(mayRebuild).every(({ change }) => endsAccess(changes[change]));
  // A rebuild begins and ends with one step.
  return exposure.filter((one) => one.direction === 'opened' && !(isEnd && one.fromStep === one.toStep));
}

function exposureRefusals(guarded: Guarded): readonly Refusal[] {
  const opened = listOpened(guarded);
  if (guarded.input.options.maxExposure !== 'none' || opened.length === 0) return [];
  const longest = opened.reduce((most, { expectedMs }) => Math.max(most, expectedMs), 0);
  const gaps = opened.length === 1 ? 'once' : `${opened.length} times`;
  const summary = `Traffic that is dropped before and after would pass ${gaps} on the way, for up to about ${longest} ms.`;
  const hint = 'The exposure of the plan lists it; `--max-exposure any` allows it.';
  return [{ code: 'opens-on-the-way', summary, hint }];
}

function failOnRefusals({ input, changes, configuration, effect, later }: Guarded): readonly Refusal[] {
  const effects = [effect, ...later.map((one) => one.effect)];
  const [opens, closes] = [effects.some((one) => one.opens.length > 0), effects.some((one) => one.closes.length > 0)];
  const rules = changes.filter(({ kind, origin }) => kind === 'Rule' && origin === 'drift').length;
  const drifted = rules + (configuration === null || configuration.drifted.length === 0 ? 0 : 1);
  return input.options.failOn.flatMap((what) => {
    const found = {
      opens: opens ? 'The plan opens traffic.' : null,
      closes: closes ? 'The plan closes traffic.' : null,
      any: opens || closes ? 'The plan changes traffic.' : null,
      'not-enforced': input.kernelDiffers ?? null,
      drift: drifted > 0 ? `${drifted} ${drifted === 1 ? 'difference is' : 'differences are'} drift.` : null,
    }[what];
    const hint = `Asked for by \`--fail-on ${what}\`; run without it to go on.`;
    return found === null ? [] : [{ code: `fail-on-${what}`, summary: found, hint }];
  });
}

/**
 * One refusal for each pair that the server refuses in any order: a desired rule and a live one that stays, or two desired rules, which
 * manifests are not checked for under a profile that accepts collisions.
 */
function refuseCollisions(input: PlanInput, changes: readonly Change[]): readonly Refusal[] {
  if (!input.profile.refusesCollisions) return [];
  const arriving = changes.filter((change): change is RuleChange => change.kind === 'Rule' && isArriving(change));
  const touches = createTouches(arriving.map((change) => getChangedRule(change).destination));
  const staying = changes.filter(
    (change): change is RuleChange =>
      change.kind === 'Rule' &&
      change.action !== 'delete' &&
      (change.action !== 'skip' || change.live !== null) &&
      (isArriving(change) || touches(getChangedRule(change).destination)),
  );
  const at = (position: number): RuleChange => staying[position] as RuleChange;
  const ruleAt = (position: number): Rule => getChangedRule(at(position));
  const arrives = (position: number): boolean => isArriving(at(position));
  const pairs: (readonly [number, number])[] = [];
  for (const group of groupBy(staying.keys(), (position) => collisionClass(ruleAt(position))).values()) {
    if (!group.some(arrives)) continue;
    const collect = (a: number, b: number): void => {
      if (collides(ruleAt(a), ruleAt(b))) pairs.push(arrives(a) && (a < b || !arrives(b)) ? [a, b] : [b, a]);
    };
    eachMeeting(group, ruleAt, collect, arrives);
  }
  return pairs.sort(([a, b], [c, d]) => a - c || b - d).map(([mine, other]) => refuse(at(mine), at(other)));
}

function isArriving({ action }: RuleChange): boolean {
  return action === 'create' || action === 'update';
}

function refuse({ desired, source }: RuleChange, other: RuleChange): Refusal {
  if (desired === null) throw new Error('a created or updated rule is desired');
  const mine = `Rule \`${desired.name}\` (${formatRuleKey(desired.rule)})`;
  const here = source === null ? [] : [{ place: source, note: `\`${desired.name}\` is written here` }];
  if (other.desired !== null) {
    const theirs = `rule \`${other.desired.name}\` (${formatRuleKey(other.desired.rule)})`;
    const summary = `${mine} collides with ${theirs}: the server holds only one of them.`;
    const hint = 'Keep the wider rule and remove the other, or make their destinations or ports disjoint.';
    const there = { place: other.desired.place, note: `\`${other.desired.name}\` is written here` };
    return { code: 'desired-rules-collide', summary, hint, related: [...here, there] };
  }
  const live =
    other.live === null ? 'a live rule' : `the live rule ${other.live.id} (${formatRuleKey(other.live.rule)})`;
  if (other.reason === 'out-of-scope') {
    const summary = `${mine} collides with ${live}, which is outside the scope of this run.`;
    const hint = 'Change the rule, widen the scope, or have the owner of the live rule remove it.';
    return { code: 'collides-out-of-scope', summary, hint, related: here };
  }
  const summary = `${mine} collides with ${live}, which is not deleted without pruning.`;
  const hint = 'Add the live rule to the manifests, remove it by hand, or run with `--prune all`.';
  return { code: 'collides-with-kept', summary, hint, related: here };
}

/** Rules of different classes never collide: same action, user scope and port presence; with ports, same type. */
function collisionClass(rule: Rule): string {
  return `${rule.action} ${rule.ports?.type ?? 'any'} ${rule.userId ?? '*'}`;
}
