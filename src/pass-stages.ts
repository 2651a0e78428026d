import type { ApplyContext } from './apply/context.ts';
import type { ApplyReport } from './apply/outcome.ts';
import { type LiveReading, type ReadContext, type ReadFailure, readLive, readUsers } from './apply/read.ts';
import type { Desired } from './desired/context.ts';
import { buildDesired } from './desired/desired.ts';
import { enforcementProblems } from './enforcement/problems.ts';
import { compareProblems, type Problem } from './model/problem.ts';
import type { Profile } from './model/profile.ts';
import { ok, type Result } from './model/result.ts';
import type { DesiredState, LiveState } from './model/state.ts';
import type { KernelState, PassDependencies, PassEnd, PassResult } from './pass.ts';
import type { PlanDigest } from './plan/digest.ts';
import { makePlan } from './plan/make-plan.ts';
import type { Plan } from './plan/plan.ts';
import { findUnknownUsers } from './policy/lint/user-findings.ts';
import type { SourceContent } from './ports.ts';

/** What a pass found, as far as it came. */
export interface Found {
  readonly source: { readonly content: SourceContent | null; readonly problems: readonly Problem[] };
  readonly desired?: Desired;
  readonly live?: LiveState;
  readonly plan?: Plan;
  readonly digest?: PlanDigest;
  readonly apply?: ApplyReport;
  readonly kernel?: KernelState | null;
  readonly failure?: ReadFailure;
}

/** Manifests to desired state; asks the API for users only when a manifest names one by e-mail address. */
export async function readDesired(
  content: SourceContent,
  pass: PassDependencies,
): Promise<Result<Desired, ReadFailure>> {
  const context = { ...pass.desired, usersByEmail: null };
  await context.parseAhead?.(content.files, context);
  const offline = buildDesired(content.files, context);
  if (offline.emails.length === 0 || offline.state === null) return ok(offline);
  const users = await readUsers(readContext(pass));
  if (!users.ok) return users;
  const usersByEmail = new Map(users.value.map(({ email, id }) => [email, id]));
  const desired = buildDesired(content.files, { ...pass.desired, usersByEmail });
  return ok({ ...desired, serverUsers: new Set(usersByEmail.values()) });
}

/** The desired state as invalid, when a rule that is to be written is for a user whom the server does not have; else null. */
export function withUnknownUsers(plan: Plan, desired: Desired): Desired | null {
  const { serverUsers, problems } = desired;
  if (serverUsers === undefined) return null;
  const written = plan.changes.flatMap((change) =>
    change.kind === 'Rule' && change.desired !== null && change.action !== 'keep' ? [change.desired] : [],
  );
  const unknown = findUnknownUsers(written, serverUsers);
  return unknown.length === 0
    ? null
    : { ...desired, state: null, problems: [...problems, ...unknown].sort(compareProblems) };
}

/** The pass and its desired state without what another part holds. */
export function narrowed(
  whole: PassDependencies,
  state: DesiredState,
): { readonly pass: PassDependencies; readonly state: DesiredState } {
  const { part } = whole;
  if (part === undefined) return { pass: whole, state };
  const rules = whole.desired.scope.rules && part !== 'configuration';
  const configuration = whole.desired.scope.configuration && part !== 'rules' && state.configuration !== null;
  const { enforcement, ...rest } = whole;
  return {
    pass: {
      ...rest,
      desired: { ...whole.desired, scope: { ...whole.desired.scope, rules, configuration } },
      ...(rules && enforcement !== undefined ? { enforcement } : {}),
    },
    state: {
      ...state,
      ...(rules ? {} : { rules: [], tests: [] }),
      configuration: configuration ? state.configuration : null,
    },
  };
}

/** What a plan may depend on beside the states: what was learnt of the server, and rules that the kernel does not hold. */
export interface PlanHints {
  readonly profile?: Profile;
  readonly notEnforced?: ReadonlySet<string>;
}

/** The plan of this pass. */
export function planFrom(desired: DesiredState, live: LiveState, pass: PassDependencies, hints: PlanHints = {}): Plan {
  const { base, baseApplied = false, options } = pass;
  const { scope, profile } = pass.desired;
  return makePlan({ desired, live, base, baseApplied, profile, scope, options, ...hints });
}

/** How this pass reads from the API; `desired` says whether the Configuration matters to it. */
export function readContext(pass: PassDependencies, desired?: DesiredState): ReadContext {
  const { api, clock, logger, limits, stop } = pass;
  const context = { api, clock, logger, attempts: limits.attempts, signal: stop };
  return desired === undefined ? context : { ...context, configurationManaged: desired.configuration !== null };
}

/** How this pass applies: replanning reads again and plans with the same input. */
export function applyContext(pass: PassDependencies, desired: DesiredState, reading: LiveReading): ApplyContext {
  const { api, clock, logger, journal, limits, stop, memory, enforcement, onOutcome } = pass;
  const { profile, scope } = pass.desired;
  return {
    api,
    clock,
    logger,
    journal,
    profile,
    limits,
    stop,
    allowLockout: pass.options.allowLockout,
    afterOutage: reading.afterOutage || memory.serverWasDown,
    closeFirst: memory.openGaps,
    replan: async ({ signal, refusesCollisions, knownRules }) => {
      const live = await readLive({ ...readContext(pass, desired), signal }, scope, knownRules);
      if (!live.ok) return live;
      const seen = refusesCollisions ? { ...profile, refusesCollisions } : profile;
      return ok(planFrom(desired, live.value.live, pass, { profile: seen }));
    },
    ...(enforcement === undefined ? {} : { enforcement: enforcement.kernel }),
    ...(onOutcome === undefined ? {} : { onOutcome }),
  };
}

/** The result of a pass that ended there; problems of all stages in the one order of every output. */
export function ended(end: PassEnd, found: Found): PassResult {
  const { source, desired, live, plan, apply, failure, kernel } = found;
  const problems = [
    ...source.problems,
    ...(desired?.problems ?? []),
    ...(plan?.problems ?? []),
    ...(apply?.problems ?? []),
    ...(kernel ? enforcementProblems(kernel.report) : []),
  ];
  return {
    end,
    content: source.content,
    desired: desired ?? null,
    live: live ?? null,
    plan: plan ?? null,
    ...(found.digest === undefined ? {} : { digest: found.digest }),
    apply: apply ?? null,
    ...(kernel ? { kernel } : {}),
    failure: failure ?? null,
    problems: problems.sort(compareProblems),
  };
}
