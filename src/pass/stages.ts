import type { ApplyContext } from '../apply/context.ts';
import { type LiveReading, type ReadContext, type ReadFailure, readLive, readUsers } from '../apply/read.ts';
import type { Desired } from '../desired/context.ts';
import { assemble } from '../desired/desired.ts';
import { warnOfMovedNames } from '../desired/names.ts';
import { listEnforcementProblems } from '../enforcement/report.ts';
import { applySuppressions } from '../manifest/suppressions.ts';
import { type KnownUsers, makeKnownUsers } from '../model/known-users.ts';
import { compareProblems, hasErrors, raiseWarnings } from '../model/problem.ts';
import { fail, ok, type Result } from '../model/result.ts';
import { covers, type DesiredRule, formatRuleKey, listKeys } from '../model/rule.ts';
import { Secret } from '../model/secret.ts';
import { type DesiredState, type LiveState, listBoundaries } from '../model/state.ts';
import { digestPlan } from '../plan/digest.ts';
import type { PlanInput } from '../plan/input.ts';
import { isCarriedOut, makePlan } from '../plan/make-plan.ts';
import { findUnknownUsers } from '../policy/lint/finding.ts';
import type { JournalEntry, SourceContent } from '../ports.ts';
import { mostApartMs, stateAt } from './clock.ts';
import { type BackOrder, goBack, leaveChanged } from './go-back.ts';
import { describeRule, nowhere, type SaidOfRule } from './history.ts';
import type { PassDependencies, PassEnd, PassResult } from './pass.ts';

/** What a pass found, as far as it came; `problems`: those that no stage has. */
export type Found = Partial<Omit<PassResult, 'end'>> & Pick<PassResult, 'content'>;

/** Manifests to desired state; users are looked up only when a manifest names one by e-mail address: null when nobody had to be. */
export async function readDesired(
  content: SourceContent,
  pass: Pick<PassDependencies, 'takesBack' | 'parse' | 'desired' | 'users' | 'strict' | 'at' | 'part'> & Asking,
) {
  if (pass.takesBack !== undefined) return await readStateBefore(pass.takesBack, pass);
  // Why a thread that reads manifests died says nothing about them: it is a failure like an API that does not answer.
  const read = await pass.parse(content.files).then(ok, (error: unknown) => {
    return fail({ code: 'reader-died', status: null, message: error instanceof Error ? error.message : 'unknown' });
  });
  if (!read.ok) return read;
  const isEnds = pass.part === 'ends' || pass.part === 'revocations';
  const given = { ...pass.desired, now: pass.at ?? pass.clock.wallTime() };
  const whole = assemble(read.value, null, given);
  // A secret that is wrong by now keeps no rule from ending.
  const isBare = isEnds && whole.state === null;
  const context = isBare ? { ...given, resolveSecret: () => ok(Secret.unknown()) } : given;
  const offline = isBare ? assemble(read.value, null, context) : whole;
  const problems = pass.strict ? raiseWarnings(offline.problems) : offline.problems;
  if (hasErrors(problems)) return ok({ desired: { ...offline, state: null, problems }, users: null });
  if (offline.emails.length === 0) return ok({ desired: offline, users: null });
  const users = pass.users === undefined ? await listUsers(pass, isEnds) : await pass.users();
  // What was applied knows the rules of users, and who is gone has no rule that is live: the ends of the others need not wait.
  if (!users.ok) return isEnds ? ok({ desired: offline, users: null }) : users;
  const idOf = (email: string): string => users.value.idOf(email) ?? email;
  const known = isEnds ? { ...users.value, idOf } : users.value;
  return ok({ desired: assemble(read.value, known, context), users: users.value });
}

/** Reads what is live, and makes of it and a record the state before that apply. */
async function readStateBefore(order: BackOrder, pass: Pick<PassDependencies, 'desired'> & Asking) {
  const { scope } = pass.desired;
  const wanted = { ...scope, configuration: scope.configuration && order.record.fields.length > 0 };
  const read = await readLive(readContext(pass), wanted, null);
  if (!read.ok) return read;
  const context = { ...pass.desired, now: pass.clock.wallTime() };
  const listed = order.record.deleted.some(({ rule }) => rule.userId !== null) ? await listUsers(pass) : null;
  const users = listed?.ok ? listed.value.ids : undefined;
  return ok({ desired: goBack({ ...order, users }, read.value.live, context), users: null });
}

async function listUsers(pass: Asking, isOnce = false): Promise<Result<KnownUsers, ReadFailure>> {
  const users = await readUsers({ ...readContext(pass), ...(isOnce && { attempts: 1 }) });
  return users.ok ? ok(makeKnownUsers(users.value)) : users;
}

/** Every caller's plan with its identity, a function of its input alone; no `state` when a rule is for a user whom the server lacks. */
export function planStates(input: PlanInput, built: { readonly desired: Desired; readonly users: KnownUsers | null }) {
  const { desired, users } = built;
  const made = makePlan(input);
  const plan = { ...made, problems: applySuppressions(made.problems, desired.suppressions) };
  const digest = digestPlan(plan, { ...input, key: input.options.fingerprintKey });
  const written = plan.changes.flatMap((change) =>
    change.kind === 'Rule' && change.desired !== null && change.action !== 'keep' ? [change.desired] : [],
  );
  const unknown = users === null ? [] : findUnknownUsers(written, users.ids);
  const found = [...unknown, ...warnOfMovedNames(input.base, desired)];
  if (found.length === 0) return { plan, digest, desired };
  const problems = [...desired.problems, ...found].sort(compareProblems);
  return { plan, digest, desired: { ...desired, ...(unknown.length === 0 ? {} : { state: null }), problems } };
}

type RestrictedPass = { readonly pass: PassDependencies; readonly state: DesiredState };

/** The pass and its desired state without what another part holds. */
export function restrictToPart(whole: PassDependencies, state: DesiredState): RestrictedPass {
  const { part, enforcement, ...rest } = whole;
  if (part === undefined) return { pass: whole, state };
  const { scope } = whole.desired;
  const rules = scope.rules && part !== 'configuration';
  const configuration = scope.configuration && (part === 'configuration' || part === 'managed') && state.configuration;
  return {
    pass: {
      ...rest,
      part,
      desired: { ...whole.desired, scope: { ...scope, rules, configuration: Boolean(configuration) } },
      ...(rules && enforcement !== undefined ? { enforcement } : {}),
    },
    state: { ...state, ...(rules ? {} : { rules: [], tests: [] }), configuration: configuration || null },
  };
}

/**
 * What a part by time, or a way back, may change, at each look at what is live: other live rules stay, and what is missing among the
 * others, also since the look before, stays missing.
 */
export function restrictToLive(pass: PassDependencies, wanted: DesiredState, live: LiveState): RestrictedPass {
  const state = findEnded(pass, wanted, live);
  const { takesBack, ...rest } = pass;
  const { part, agreedAt = Number.POSITIVE_INFINITY, options, asked } = rest;
  const isTimes = part === 'ends' || part === 'revocations' || part === 'boundaries';
  if (!isTimes && takesBack === undefined) return { pass, state };
  const held = listKeys([...live.rules, ...(takesBack?.record.deleted ?? [])]);
  const isHeld = ({ rule }: DesiredRule): boolean => held.has(formatRuleKey(rule));
  const present = state.rules.filter(isHeld);
  if (takesBack && !isTimes) return { pass, state: leaveChanged(takesBack, { ...state, rules: present }, live) };
  const isCovered = ({ rule }: DesiredRule, by: readonly DesiredRule[]) => by.some((one) => covers(one.rule, rule));
  const isAsked = (one: DesiredRule) => one.rule.action === 'drop' || !asked || isCovered(one, asked.rules);
  const absent = state.rules.filter((one) => !isHeld(one));
  const ended = (state.expired ?? []).filter(isHeld);
  const isNew = (one: DesiredRule) => (one.notBefore ?? 0) > agreedAt || isOverdue(one, ended, rest);
  const begun = absent.filter((one) => isNew(one) && isAsked(one));
  // Both revisions give it, this one by a rule that does not begin.
  const isGiven = (one: DesiredRule) => isAsked(one) && absent.some((by) => covers(by.rule, one.rule) && !isAsked(by));
  // What a rule that waits gives too is not taken away meanwhile.
  const waiting = part !== 'boundaries' && rest.waiting ? begun : [];
  const mayEnd = ({ rule }: DesiredRule) => part !== 'revocations' || rule.action === 'accept';
  const expired = ended.filter((one) => mayEnd(one) && !isCovered(one, waiting) && !isGiven(one));
  // What ends gave all that these give: they open nothing, and need not wait.
  const narrower = waiting.filter((one) => rest.waiting === 'wider' && isCovered(one, expired));
  const rules = [...present, ...(part === 'boundaries' ? begun : narrower)];
  const prune = listKeys(expired);
  return {
    pass: { ...rest, options: { ...options, prune, replaceModified: false } },
    state: { ...state, rules, tests: part === 'revocations' ? [] : state.tests },
  };
}

/** Whether a rule has not begun, whatever was agreed since: it was never applied, and one that it takes over from is there. */
function isOverdue({ rule, notBefore }: DesiredRule, ended: readonly DesiredRule[], pass: PassDependencies) {
  if (notBefore === undefined || !ended.some((one) => covers(rule, one.rule))) return false;
  if (pass.base === null) return !pass.isApplied;
  return !pass.base.rules.some((one) => formatRuleKey(one.rule) === formatRuleKey(rule));
}

/**
 * The state, with what has ended as it was applied: under other values it has another content by now, and of a user whose address nobody
 * has any more nothing else is known. A one-shot apply, and one that prunes nothing, ends only what the manifests name.
 */
function findEnded(pass: PassDependencies, state: DesiredState, live: LiveState): DesiredState {
  const { at = 0, rules, expired = [] } = state;
  const isGone = (one?: DesiredRule) => one?.rule.userId?.includes('@') === true;
  const isAll = pass.part !== undefined && pass.options.prune !== 'none';
  if (!isAll && !expired.some(isGone)) return state;
  const named = listKeys([...rules, ...expired]);
  const applied = pass.appliedRules ?? listBaseEnds(pass.base, at);
  const past = new Map([...applied].filter(([key, { expires = at + 1 }]) => expires <= at && !named.has(key)));
  if (past.size === 0) return state;
  const ended = live.rules.flatMap(({ rule }): readonly DesiredRule[] => {
    const { name, expires } = past.get(formatRuleKey(rule)) ?? {};
    if (expires === undefined) return [];
    const line = expired.find((one) => one.name === name && one.expires === expires);
    if (!isAll && !isGone(line)) return [];
    return [{ place: nowhere, ...line, name: name ?? rule.destination.text, rule, expires }];
  });
  return { ...state, expired: [...expired, ...ended] };
}

/** When the rules of an applied state end, by `formatRuleKey`: of several with one key the one in force then, else the last that ended. */
export function listBaseEnds(base: DesiredState | null, then = base?.at): ReadonlyMap<string, SaidOfRule> {
  if (base?.at === undefined || then === undefined) return new Map();
  const isPast = listBoundaries(base, base.at, then).length > 0;
  const { rules, expired = [], upcoming = [] } = isPast ? stateAt(base, then) : base;
  return new Map([...upcoming, ...expired, ...rules].map((one) => [formatRuleKey(one.rule), describeRule(one)]));
}

/** What the plan of this pass depends on; `hints`: what was learnt of the server and its kernel. */
export function makePlanInput(state: DesiredState, live: LiveState, pass: PassDependencies, hints: Partial<PlanInput>) {
  const { base, baseApplied = false, takesBack } = pass;
  const back = takesBack && { prune: listKeys(takesBack.record.created), replaceModified: false };
  const options = { ...pass.options, ...back };
  const { scope, profile } = pass.desired;
  const applied = pass.isInForce ? state : baseApplied ? base : null;
  const appliedRules = pass.appliedRules ?? listBaseEnds(applied, state.at);
  return { desired: state, live, base, baseApplied, appliedRules, profile, scope, options, ...hints };
}

/** What it takes to ask the server. */
type Asking = Pick<PassDependencies, 'api' | 'clock' | 'logger' | 'limits' | 'stop'>;

/** How this pass reads from the API; `desired` says whether the Configuration matters to it. */
export function readContext({ api, clock, logger, limits, stop }: Asking, desired?: DesiredState): ReadContext {
  const until = clock.now() + limits.totalTimeoutMs;
  const context = { api, clock, logger, attempts: limits.attempts, signal: stop, until };
  return desired === undefined ? context : { ...context, configurationManaged: desired.configuration !== null };
}

/** How this pass applies: replanning reads again and plans with the same input, as far as that does not depend on what is live. */
export function makeApplyContext(
  pass: PassDependencies,
  desired: DesiredState,
  reading: LiveReading,
  origin: Pick<JournalEntry, 'revision' | 'plan'>,
): ApplyContext {
  const { journal, memory, ...shared } = pass;
  const { profile, scope } = pass.desired;
  const isApart = Math.abs(reading.serverAheadMs ?? 0) > mostApartMs;
  const isOver = ({ expires, staysUntil = expires }: DesiredRule) =>
    !isApart && staysUntil !== undefined && staysUntil <= pass.clock.wallTime();
  return {
    ...shared,
    isOver,
    journal: journal && { path: journal.path, write: (entry) => journal.write({ ...entry, ...origin }) },
    profile,
    allowLockout: pass.options.allowLockout && !pass.options.goesBack,
    goesBack: pass.options.goesBack,
    afterOutage: reading.afterOutage || memory.serverWasDown,
    closeFirst: memory.openGaps,
    replan: async ({ plan, signal, refusesCollisions, knownRules }) => {
      const live = await readLive({ ...readContext(pass, desired), signal }, scope, knownRules);
      if (!live.ok) return live;
      if (isCarriedOut(plan, live.value.live)) return ok({ ...plan, steps: [] });
      const seen = refusesCollisions ? { ...profile, refusesCollisions } : profile;
      const now = restrictToLive(pass, desired, live.value.live);
      const held = listKeys(live.value.live.rules);
      const rules = now.state.rules.filter((one) => !isOver(one) || held.has(formatRuleKey(one.rule)));
      return ok(makePlan(makePlanInput({ ...now.state, rules }, live.value.live, now.pass, { profile: seen })));
    },
  };
}

const nothing = { desired: null, live: null, plan: null, apply: null, failure: null };

/** The result of a pass that ended there; problems of all stages in the one order of every output. */
export function endPass(end: PassEnd, found: Found): PassResult {
  const told = [found, found.desired, found.plan, found.apply].flatMap((one) => one?.problems ?? []);
  const kernel = found.kernel ? listEnforcementProblems(found.kernel.report) : [];
  return { ...nothing, ...found, end, problems: [...told, ...kernel].sort(compareProblems) };
}
