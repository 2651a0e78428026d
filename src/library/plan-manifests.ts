import { assemble } from '../desired/desired.ts';
import { decodeLiveConfiguration } from '../live/live-configuration.ts';
import { decodeLiveRules, decodeLiveUsers } from '../live/live-rules.ts';
import { applySuppressions } from '../manifest/suppressions.ts';
import { type KnownUsers, makeKnownUsers, nameAcross } from '../model/known-users.ts';
import { compareProblems, makeError, type Problem } from '../model/problem.ts';
import { ok, type Result } from '../model/result.ts';
import type { DesiredState, LiveState, Scope } from '../model/state.ts';
import { planStates } from '../pass/stages.ts';
import { defaultPlanOptions } from '../plan/input.ts';
import type { Plan } from '../plan/plan.ts';
import { lint } from '../policy/lint/lint.ts';
import { makeDocument } from '../report/json.ts';
import { warnOfLaterFailures } from '../report/policy-tests.ts';
import { makeProblemReport, type RunReport } from '../report/run-report.ts';
import { renderApply, renderPlan } from '../report/text.ts';
import { checkMembers, checkRequest, planningFields } from './arguments.ts';
import { judgeBase, type PlanningRequest, type PolicyRequest, readPolicy, toContent } from './policy.ts';

/** The bodies of `GET /v0/rules` and `GET /v0/configuration`, parsed; without the second no Configuration is planned. */
export interface LiveBodies {
  readonly rules: unknown;
  readonly configuration?: unknown;
  /** The body of `GET /v0/users`: needed when manifests name users by e-mail address. */
  readonly users?: unknown;
}

export interface PlanRequest extends PolicyRequest, PlanningRequest {
  readonly live: LiveBodies;
}

/** A plan, when manifests and live state have no errors, and every problem found. Refused plans have `refusals`. */
export interface Planned
  extends Pick<RunReport, 'plan' | 'problems' | 'digest' | 'revision' | 'userNames' | 'groups' | 'approved' | 'apply'> {
  readonly plan: Plan | null;
  readonly desired?: NonNullable<RunReport['desired']> | null;
}

/** What a plan came to, of the parts that are known. */
export function makePlanned(
  state: DesiredState | null,
  { problems, ...known }: Partial<Planned> & Pick<Planned, 'revision' | 'problems'>,
): Planned {
  const names = nameAcross(null, state);
  return { ...makeProblemReport(problems.toSorted(compareProblems)), ...names, desired: state, ...known };
}

/** Plans what `reconcile --plan` would. Never throws for what manifests or bodies hold, only for wrong arguments. */
export function plan(request: PlanRequest): Planned {
  checkRequest('plan', request, ['live', ...planningFields]);
  const example = '{rules, configuration, users}: the parsed bodies of GET /v0/rules, /v0/configuration and /v0/users';
  checkMembers('plan: `live`', request.live, ['rules', 'configuration', 'users'], example);
  const policy = readPolicy(request);
  const { content, context, offline } = policy;
  const { revision } = content;
  const refuse = (...problems: readonly (readonly Problem[])[]) =>
    makePlanned(null, { revision, problems: problems.flat() });
  if (offline.state === null) return refuse(offline.problems);
  const users = offline.emails.length === 0 ? ok(null) : decodeUsers(request.live.users);
  if (!users.ok) return refuse(offline.problems, [users.error]);
  const desired = users.value === null ? offline : policy.build(users.value);
  if (desired.state === null) return refuse(desired.problems);

  const managed = context.scope.configuration && request.live.configuration !== undefined;
  const scope: Scope = { ...context.scope, configuration: managed };
  const live = decodeLive(request.live, scope);
  if (!live.ok) return refuse(desired.problems, [unreadable(live.error)]);
  const base = request.base && assemble(policy.parse(toContent(request.base).files), users.value, context).state;
  const state = managed ? desired.state : { ...desired.state, configuration: null };
  const options = { ...defaultPlanOptions, ...request.options };
  const input = { desired: state, live: live.value, base: base ?? null, profile: context.profile, scope, options };
  const made = planStates(input, { desired, users: users.value });
  if (made.desired.state === null) return refuse(made.desired.problems);
  return makePlanned(state, {
    ...nameAcross(base ?? null, state),
    revision,
    plan: made.plan,
    problems: [...judgeBase(base), ...made.desired.problems, ...made.plan.problems],
    digest: made.digest.plan,
    approved: made.plan.refusals.length > 0 && request.approvals?.includes(made.digest.plan) === true,
  });
}

/** The problems that `reconcile validate` shows; empty when there is nothing to say. */
export function validate(request: PolicyRequest): readonly Problem[] {
  checkRequest('validate', request);
  const { offline, context } = readPolicy(request);
  const { state, problems, suppressions } = offline;
  if (state === null) return problems;
  const found = [...lint(state), ...warnOfLaterFailures(state, context.profile.ports)];
  return [...problems, ...applySuppressions(found, suppressions)].sort(compareProblems);
}

/** The document that `--output json` prints (schemas/plan.schema.json), as a value. */
export function toJson(planned: Planned): Readonly<Record<string, unknown>> {
  return makeDocument({ ...makeProblemReport([]), ...planned });
}

/** The text that `--plan` prints, and after an apply what was done; without colour. */
export function toText(planned: Planned): string {
  const report = { ...makeProblemReport([]), ...planned };
  return renderPlan(report, { color: false }) + renderApply(report, { color: false });
}

function decodeUsers(body: unknown): Result<KnownUsers, Problem> {
  if (body === undefined) return { ok: false, error: usersMissing };
  const users = decodeLiveUsers(body);
  return users.ok ? ok(makeKnownUsers(users.value)) : { ok: false, error: unreadable(users.error) };
}

const usersMissing = makeError(
  'unresolved-email',
  'The manifests name users by e-mail address, and the list of users was not given.',
  'Give the body of GET /v0/users as `live.users`.',
);

function decodeLive(bodies: LiveBodies, scope: Scope): Result<LiveState, string> {
  const rules = scope.rules ? decodeLiveRules(bodies.rules) : ok([]);
  if (!rules.ok) return rules;
  const configuration = scope.configuration ? decodeLiveConfiguration(bodies.configuration) : ok(null);
  return configuration.ok ? ok({ rules: rules.value, configuration: configuration.value }) : configuration;
}

function unreadable(error: string): Problem {
  return { code: 'live-unreadable', severity: 'error', summary: `The live state cannot be read: ${error}.` };
}
