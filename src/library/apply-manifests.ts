import { systemClock } from '../adapters/clock.ts';
import { defaultApplyLimits } from '../apply/context.ts';
import { assemble } from '../desired/desired.ts';
import { decodeLiveConfiguration } from '../live/live-configuration.ts';
import { decodeLiveRules, decodeLiveUsers } from '../live/live-rules.ts';
import { applySuppressions } from '../manifest/suppressions.ts';
import { type KnownUsers, makeKnownUsers, nameAcross } from '../model/known-users.ts';
import { compareProblems, makeError, type Problem } from '../model/problem.ts';
import { ok, type Result } from '../model/result.ts';
import { deriveFingerprintKey } from '../model/secret.ts';
import type { DesiredState, LiveState, Scope } from '../model/state.ts';
import { type Approve, emptyMemory, type PassDependencies, type PassEnd, type PassResult } from '../pass/pass.ts';
import { planStates, readDesired } from '../pass/stages.ts';
import { defaultPlanOptions } from '../plan/input.ts';
import type { Plan } from '../plan/plan.ts';
import { lint } from '../policy/lint/lint.ts';
import { reconcile } from '../reconcile.ts';
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
function makePlanned(
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

/** Where the administration API is, and how to be let in. */
export interface Server {
  /** `https://host`, with an optional path prefix. */
  readonly baseUrl: string;
  readonly token: string;
  /** A PEM file with the authorities to trust instead of the system's. */
  readonly caFile?: string;
  /** Allows plain http beyond loopback. */
  readonly allowHttp?: boolean;
}

export interface ApplyRequest extends Omit<PolicyRequest, 'at'>, PlanningRequest {
  readonly server: Server;
  /** Asked for a plan that no guard refused; nothing is written unless it gives true. */
  readonly approve: (planned: Planned) => boolean | Promise<boolean>;
  /** Aborting ends the apply before its next step; open gaps are closed first. */
  readonly signal?: AbortSignal;
}

/** What `apply` came to. `applied` means that writes were sent: `apply.end` says whether the server then held it all. */
export interface Applied extends Planned {
  readonly end: PassEnd;
}

/** Plans against a server and applies when `approve` gives true. Rejects only for wrong arguments. */
export async function apply(request: ApplyRequest): Promise<Applied> {
  checkRequest('apply', request, ['server', 'approve', 'signal', ...planningFields]);
  if ('at' in request) throw new TypeError('apply: `at` is for plan, which looks ahead; an apply is always about now');
  const { baseUrl, token, ...connection } = checkServer(request.server);
  if (typeof request.approve !== 'function') {
    throw new TypeError('apply: `approve` is missing. `approve: () => true` applies every plan that no guard refuses');
  }
  // Loaded on demand: nothing else here needs the network.
  const { createApiClient } = await import('../adapters/api/client.ts');
  const api = createApiClient({ baseUrl, token: () => token, ...connection });
  if (!api.ok) throw new TypeError(`apply: ${api.error}`);
  const { content, context, parse } = readPolicy(request);
  const pass: PassDependencies = {
    api: api.value,
    clock: systemClock,
    logger: silent,
    journal: null,
    parse: (files) => Promise.resolve(parse(files)),
    desired: context,
    base: null,
    options: { ...defaultPlanOptions, ...request.options, fingerprintKey: deriveFingerprintKey(token) },
    approvals: request.approvals ?? [],
    limits: { ...defaultApplyLimits, onlyApproved: true },
    memory: emptyMemory,
    stop: request.signal ?? new AbortController().signal,
  };
  try {
    const before = request.base === undefined ? null : await readDesired(toContent(request.base), pass);
    const base = before?.ok === true ? before.value.desired.state : undefined;
    const known = judgeBase(base);
    const once = async (approve: Approve | null): Promise<PassResult> => {
      const now = systemClock.wallTime();
      const result = await reconcile(content, { ...pass, desired: { ...context, now }, base: base ?? null }, approve);
      return { ...result, problems: [...known, ...result.problems] };
    };
    const first = await once(null);
    if (first.end !== 'planned') return appliedOf(first);
    if ((await request.approve(appliedOf(first))) !== true) return appliedOf({ ...first, end: 'declined' });
    // Rules may have begun or ended meanwhile: what is written then is what was approved, or nothing.
    const result = await once(async (_plan, _desired, { plan }) => plan === first.digest?.plan);
    const isMoved = result.plan !== null && result.digest?.plan !== first.digest?.plan;
    return appliedOf(isMoved ? { ...result, problems: [...result.problems, movedMeanwhile] } : result);
  } finally {
    await api.value.close();
  }
}

const moved = 'What is to be written changed before `approve` gave true: nothing was written.';
const movedMeanwhile = makeError('stale-plan', moved, 'Call `apply` again, and look at the plan that it makes now.');

function appliedOf({ end, content, plan, digest, desired, apply: done, failure, ...result }: PassResult): Applied {
  const failed: readonly Problem[] =
    failure === null ? [] : [{ code: `api-${failure.code}`, severity: 'error', summary: failure.message }];
  const planned = makePlanned(desired?.state ?? null, {
    revision: content?.revision ?? null,
    plan,
    problems: [...result.problems, ...failed],
    digest: digest?.plan ?? null,
    approved: end !== 'refused' && (plan?.refusals.length ?? 0) > 0,
    apply: done,
  });
  return { ...planned, end };
}

function checkServer(server: Server): Server {
  const example = "{baseUrl: 'https://vpn.example.com', token}";
  checkMembers('apply: `server`', server, ['baseUrl', 'token', 'caFile', 'allowHttp'], example);
  if (typeof server.baseUrl === 'string' && typeof server.token === 'string' && server.token !== '') return server;
  throw new TypeError(`apply: \`server\` needs a baseUrl and a token, both strings: ${example}`);
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
