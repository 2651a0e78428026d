import { createApiClient } from '../../src/adapters/api/client.ts';
import { applyPlan } from '../../src/apply/apply.ts';
import { type ApplyContext, type ApplyLimits, defaultApplyLimits } from '../../src/apply/context.ts';
import type { ApplyReport, Outcome } from '../../src/apply/outcome.ts';
import { readLive } from '../../src/apply/read.ts';
import type { Enforcement } from '../../src/enforcement/report.ts';
import { parseNetwork } from '../../src/model/address.ts';
import type { ConfigurationFields, DesiredConfiguration } from '../../src/model/configuration.ts';
import { parsePortRange } from '../../src/model/port-range.ts';
import { findProfile, type Profile } from '../../src/model/profile.ts';
import { ok } from '../../src/model/result.ts';
import type { DesiredRule, Rule } from '../../src/model/rule.ts';
import { type DesiredState, type LiveState, wholeScope } from '../../src/model/state.ts';
import { defaultPlanOptions, type PlanOptions } from '../../src/plan/input.ts';
import { isCarriedOut, makePlan } from '../../src/plan/make-plan.ts';
import type { Plan } from '../../src/plan/plan.ts';
import type { Journal, LiveApi, Logger } from '../../src/ports.ts';
import { createFakeClock, type FakeClock, watched } from './fake-clock.ts';

export const token = 'test-token';
export const user = '11111111-1111-4111-8111-111111111111';

/** A rule from a line like `drop 10.0.0.0/8 tcp 80-90 user`. */
export function rule(line: string): Rule {
  const [action, destination, ...rest] = line.split(' ');
  const network = parseNetwork(destination ?? '');
  if ((action !== 'accept' && action !== 'drop') || !network.ok) throw new Error(`not a rule: ${line}`);
  const [type, range] = rest;
  const ports = type === 'tcp' || type === 'udp' ? parsePortRange(range ?? '', { low: 1, high: 65534 }) : null;
  if (ports !== null && !ports.ok) throw new Error(`not a rule: ${line}`);
  return {
    action,
    destination: network.value.network,
    ports: ports === null ? null : { type: type as 'tcp' | 'udp', ...ports.value },
    userId: line.endsWith(' user') ? user : null,
  };
}

export function desiredState(rules: readonly Rule[], fields: Partial<ConfigurationFields> | null = null): DesiredState {
  const place = (line: number) => ({ file: 'rules.yaml', line, column: 1 });
  const configuration: DesiredConfiguration | null =
    fields === null ? null : { name: 'main', place: place(1), fields, places: {}, references: [] };
  const named: DesiredRule[] = rules.map((one, index) => ({
    name: `rule-${index}`,
    rule: one,
    place: place(index + 1),
  }));
  return { rules: named, configuration, userNames: new Map(), tests: [], digest: 'test' };
}

export const quiet: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export interface TestOptions {
  /** The state last applied; default: not known. */
  readonly base?: DesiredState;
  readonly profile?: Profile;
  readonly limits?: Partial<ApplyLimits>;
  readonly stop?: AbortSignal;
  readonly journal?: Journal;
  readonly logger?: Logger;
  readonly onOutcome?: (outcome: Outcome) => void;
  readonly clock?: FakeClock;
  readonly afterOutage?: boolean;
  readonly closeFirst?: ReadonlySet<string>;
  readonly allowLockout?: boolean;
  readonly goesBack?: boolean;
  readonly configuration?: boolean;
  readonly enforcement?: Enforcement;
  readonly planOptions?: Partial<PlanOptions>;
  /** Stands between the client and the apply. */
  readonly wrap?: (api: LiveApi) => LiveApi;
  /** Told each plan before its first step. */
  readonly onPlan?: (plan: Plan) => void;
  /** Real time limit of a request, ms. */
  readonly timeoutMs?: number;
}

/** Everything an apply in a test needs; `plan` reads the live state and plans. */
export interface TestRun {
  readonly plan: (profile?: Profile) => Promise<Plan>;
  readonly apply: (plan: Plan) => Promise<ApplyReport>;
  readonly live: () => Promise<LiveState>;
  readonly clock: FakeClock;
  readonly api: LiveApi;
  close(): Promise<void>;
}

export function testRun(url: string, desired: DesiredState, options: TestOptions = {}): TestRun {
  const clock = options.clock ?? createFakeClock();
  const client = createApiClient({ baseUrl: url, token: () => token, requestTimeoutMs: options.timeoutMs ?? 2000 });
  if (!client.ok) throw new Error(client.error);
  const api = watched(options.wrap?.(client.value) ?? client.value, clock);
  const profile = options.profile ?? findProfile('firezone-0.7');
  const scope = { ...wholeScope, configuration: options.configuration ?? desired.configuration !== null };
  const planOptions = {
    ...defaultPlanOptions,
    allowEmpty: true,
    maxDeletes: { share: 1 },
    maxChanges: { share: 1 },
    ...options.planOptions,
  };
  const limits = { ...defaultApplyLimits, ...options.limits };
  const read = (signal: AbortSignal, known: number | null) =>
    readLive({ api, clock, logger: quiet, attempts: limits.attempts, signal }, scope, known);
  const planOf = (live: LiveState, seen: Profile): Plan =>
    makePlan({ desired, live, base: options.base ?? null, profile: seen, scope, options: planOptions });
  const live = async (): Promise<LiveState> => {
    const reading = await read(new AbortController().signal, null);
    if (!reading.ok) throw new Error(reading.error.message);
    return reading.value.live;
  };
  const { journal } = options;
  const context: ApplyContext = {
    api,
    clock,
    logger: options.logger ?? quiet,
    journal: journal === undefined ? null : { ...journal, write: (entry) => clock.during(journal.write(entry)) },
    profile,
    limits,
    stop: options.stop ?? new AbortController().signal,
    allowLockout: options.allowLockout ?? false,
    goesBack: options.goesBack,
    afterOutage: options.afterOutage ?? false,
    closeFirst: options.closeFirst ?? new Set(),
    replan: async ({ plan, signal, refusesCollisions, knownRules }) => {
      const reading = await read(signal, knownRules);
      if (!reading.ok) return reading;
      const again = planOf(reading.value.live, refusesCollisions ? { ...profile, refusesCollisions } : profile);
      // As a pass may end an apply without planning again.
      if (isCarriedOut(plan, reading.value.live) && again.steps.length > 0) throw new Error('something is left');
      options.onPlan?.(again);
      return ok(again);
    },
    ...(options.enforcement === undefined ? {} : { enforcement: { kernel: options.enforcement } }),
    ...(options.onOutcome === undefined ? {} : { onOutcome: options.onOutcome }),
  };
  return {
    plan: async (seen = profile) => planOf(await live(), seen),
    apply: (plan) => {
      options.onPlan?.(plan);
      return applyPlan(plan, context);
    },
    live,
    clock,
    api,
    close: () => client.value.close(),
  };
}

/** `POST /v0/rules 201` and the like, reads left out. */
export function writes(requests: readonly { method: string; path: string; status: number }[]): readonly string[] {
  return requests.flatMap(({ method, path, status }) => (method === 'GET' ? [] : [`${method} ${path} ${status}`]));
}
