/**
 * The library: what the command's `--plan` does, as a function. No files, no network, no clock: texts and API bodies in, a plan
 * out. Everything exported here is covered by the version number; nothing else in the package is.
 */
import { createHash } from 'node:crypto';
import { type Desired, defaultLimits } from './desired/context.ts';
import { assemble } from './desired/desired.ts';
import { parseFiles } from './desired/parse-files.ts';
import { decodeLiveConfiguration } from './live/live-configuration.ts';
import { decodeLiveRules, decodeLiveUsers } from './live/live-rules.ts';
import { type KnownUsers, listedUsers } from './model/known-users.ts';
import { compareProblems, type Problem } from './model/problem.ts';
import { type Profile, type ProfileName, profileNamed, type RuleUpdates } from './model/profile.ts';
import { ok, type Result } from './model/result.ts';
import { Secret } from './model/secret.ts';
import { type LiveState, wholeScope } from './model/state.ts';
import { planStates } from './pass/stages.ts';
import { defaultPlanOptions, type PlanOptions } from './plan/input.ts';
import type { Plan } from './plan/plan.ts';
import type { SourceFile } from './ports.ts';
import { documentOf } from './report/json.ts';
import { type RunReport, reportOfProblems } from './report/run-report.ts';
import { planText } from './report/text.ts';

export type { Place, Problem, Severity } from './model/problem.ts';
export type { Change, ChangeAction, Exposure, Plan, Refusal, Step } from './plan/plan.ts';
export type { Effect, Traffic } from './policy/traffic.ts';

/** One manifest file: `path` is shown in messages, `text` is YAML and may hold several documents. */
export interface ManifestFile {
  readonly path: string;
  readonly text: string;
}

/** The bodies of `GET /v0/rules` and `GET /v0/configuration`, parsed; without the second no Configuration is planned. */
export interface LiveBodies {
  readonly rules: unknown;
  readonly configuration?: unknown;
  /** The body of `GET /v0/users`: needed when manifests name users by e-mail address. */
  readonly users?: unknown;
}

/** What a plan depends on beside the states. */
export interface PlanSettings {
  /** Default `firezone-0.7`. */
  readonly profile?: ProfileName;
  readonly ruleUpdates?: RuleUpdates;
  /** Limits and permissions of the guards; what is left out has the command's defaults. */
  readonly options?: Partial<PlanOptions>;
}

/** The input of `plan`. */
export interface PlanRequest extends PlanSettings {
  readonly manifests: readonly ManifestFile[];
  readonly live: LiveBodies;
}

/** A plan, when manifests and live bodies have no errors, and every problem found. Refused plans have `refusals`. */
export interface Planned {
  readonly plan: Plan | null;
  readonly problems: readonly Problem[];
}

/** Plans what `reconcile --plan` would. Never throws for what manifests or bodies hold; secrets are taken as unknown. */
export function plan(request: PlanRequest): Planned {
  const profile = profileNamed(request.profile ?? 'firezone-0.7', request.ruleUpdates);
  const users = usersOf(request.live.users);
  if (!users.ok) return { plan: null, problems: [unreadable(users.error)] };
  const { build, ...offline } = desiredOf(request.manifests, profile);
  if (offline.state === null) return { plan: null, problems: offline.problems };
  const named = offline.emails.length > 0;
  if (named && users.value === null) return { plan: null, problems: [...offline.problems, usersMissing] };
  const desired = named ? build(users.value) : offline;
  if (desired.state === null) return { plan: null, problems: desired.problems };
  const live = liveOf(request.live);
  if (!live.ok) return { plan: null, problems: [...desired.problems, unreadable(live.error)] };
  const input = {
    desired: request.live.configuration === undefined ? { ...desired.state, configuration: null } : desired.state,
    live: live.value,
    base: null,
    profile,
    scope: wholeScope,
    options: { ...defaultPlanOptions, ...request.options },
  };
  const planned = planStates(input, { desired, users: named ? users.value : null });
  const { problems } = planned.desired;
  if (planned.desired.state === null) return { plan: null, problems };
  return { plan: planned.plan, problems: [...problems, ...planned.plan.problems].sort(compareProblems) };
}

/** Checks manifests as `reconcile validate` does; empty when there is nothing to say. */
export function validate(manifests: readonly ManifestFile[], settings: PlanSettings = {}): readonly Problem[] {
  return desiredOf(manifests, profileNamed(settings.profile ?? 'firezone-0.7', settings.ruleUpdates)).problems;
}

/** The document that `--output json` prints (schemas/plan.schema.json), as a value. */
export function toJson(planned: Planned): Readonly<Record<string, unknown>> {
  return documentOf(reportOf(planned));
}

/** The text that `--plan` prints, without colour. */
export function toText(planned: Planned): string {
  return planText(reportOf(planned), { color: false });
}

function reportOf({ plan: made, problems }: Planned): RunReport {
  return { ...reportOfProblems(problems), plan: made };
}

/** The desired state without users, and how to build it with them. */
function desiredOf(
  manifests: readonly ManifestFile[],
  profile: Profile,
): Desired & { readonly build: (users: KnownUsers | null) => Desired } {
  const parsed = parseFiles(manifests.map(sourceFile), { profile, values: null, limits: defaultLimits });
  const context = { profile, scope: wholeScope, resolveSecret: () => ok(Secret.unknown()) };
  const build = (users: KnownUsers | null): Desired => assemble(parsed, users, context);
  return { ...build(null), build };
}

/** The users in the body; null when it was not given. */
function usersOf(body: unknown): Result<KnownUsers | null, string> {
  if (body === undefined) return ok(null);
  const users = decodeLiveUsers(body);
  return users.ok ? ok(listedUsers(users.value)) : users;
}

const usersMissing: Problem = {
  code: 'unresolved-email',
  severity: 'error',
  summary: 'The manifests name users by e-mail address, and the list of users was not given.',
  hint: 'Give the body of GET /v0/users as `live.users`.',
};

function sourceFile({ path, text }: ManifestFile): SourceFile {
  const bytes = new TextEncoder().encode(text);
  return { path, bytes, hash: createHash('sha256').update(bytes).digest('hex') };
}

function liveOf(bodies: LiveBodies): Result<LiveState, string> {
  const rules = decodeLiveRules(bodies.rules);
  if (!rules.ok) return rules;
  if (bodies.configuration === undefined) return ok({ rules: rules.value, configuration: null });
  const configuration = decodeLiveConfiguration(bodies.configuration);
  return configuration.ok ? ok({ rules: rules.value, configuration: configuration.value }) : configuration;
}

function unreadable(error: string): Problem {
  return { code: 'live-unreadable', severity: 'error', summary: `The live state cannot be read: ${error}.` };
}
