import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { wrapApi } from '../../controller/lease.ts';
import type { LoopObserver } from '../../controller/observer.ts';
import type { Status } from '../../controller/status.ts';
import type { Clock, LiveApi } from '../../ports.ts';
import type { NotifyResult } from '../notify/notifier.ts';
import type { WebhookResult } from '../web/webhook-app.ts';

/** The controller's metrics; docs/reference/sidecar.md explains each, and a test compares that table with this registry. */
export type ControllerMetrics = ReturnType<typeof createMetrics>;

const prefix = 'reconcile_';

/** The states of loops, each with the labels that say whose it is. */
type States = () => readonly (readonly [labels: Readonly<Record<string, string>>, status: Status])[];

/** Builds the registry; `states` is asked at each scrape. `own`: labels of the gauges of several loops; counters count for all. */
export function createMetrics(version: string, states: States, own: readonly string[] = []) {
  const registry = new Registry();
  registerGauges(registry, states, own);
  new Gauge({
    name: `${prefix}build_info`,
    help: 'Version of reconcile and of Node, as labels; always 1',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version, node: process.versions.node }, 1);
  const { passes, steps, calls, sent, hooks, overlaps, phases, gaps, times } = registerSums([registry]);
  // Of the process: CPU, memory, event loop. Their timers end with it.
  collectDefaultMetrics({ register: registry });
  const observer: LoopObserver = {
    phaseEnded: (phase, ms) => phases.observe({ phase }, ms / 1000),
    passEnded: (pass) => {
      passes.inc({ result: pass.result, reason: pass.reason });
      for (const [outcome, count] of Object.entries(pass.outcomes)) if (count > 0) steps.inc({ outcome }, count);
    },
    gapClosed: (ms) => gaps.observe(ms / 1000),
  };
  return {
    observer,
    /** Counts and times the calls of an API. */
    meter: (api: LiveApi, clock: Clock) =>
      wrapApi(api, async (method, call) => {
        const from = clock.now();
        const result = await call();
        calls.inc({ method, status: result.kind === 'answer' ? String(result.status) : result.code });
        times.observe({ method }, (clock.now() - from) / 1000);
        return result;
      }),
    notified: (target: string, result: NotifyResult) => sent.inc({ target, result }),
    webhook: (result: WebhookResult) => hooks.inc({ result }),
    /** Another replica took the lease while this one could still write. */
    overlapped: () => overlaps.inc(),
    text: async () => ({ type: registry.contentType, text: await registry.metrics() }),
    registry,
  };
}

function registerSums(registers: Registry[]) {
  const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> =>
    new Counter({ name: prefix + name, help, labelNames, registers });
  const histogram = <Label extends string>(name: string, help: string, buckets: number[], ...labelNames: Label[]) =>
    new Histogram({ name: `${prefix}${name}_duration_seconds`, help, labelNames, buckets, registers });
  const ofPhases = [0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];
  const short = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
  const ofCalls = 'API requests by method and status (a word where no answer came)';
  const ofOverlaps = 'Times that another replica took the lease while this one could still write';
  return {
    passes: counter('passes_total', 'Passes by result and reason', 'result', 'reason'),
    steps: counter('steps_total', 'Steps by outcome', 'outcome'),
    calls: counter('api_requests_total', ofCalls, 'method', 'status'),
    sent: counter('notifications_total', 'Notifications by target and result', 'target', 'result'),
    hooks: counter('webhooks_total', 'Webhook calls by result', 'result'),
    overlaps: counter('lease_overlaps_total', ofOverlaps),
    phases: histogram('phase', 'Duration of the phases of a pass', ofPhases, 'phase'),
    gaps: histogram('gap', 'Time between a delete that a create needs and that create', [...short, 10]),
    times: histogram('api_request', 'Duration of API requests', [...short, 15], 'method'),
  };
}

/** What a gauge shows of a state, ms where its name ends in `_seconds`; null or undefined: nothing. */
const gauges: Readonly<Record<string, readonly [help: string, value: (now: Status) => number | null | undefined]>> = {
  last_success_timestamp_seconds: [
    'When the live state was last known to be what the newest revision asks for',
    (one) => one.lastSuccessAt,
  ],
  applied_timestamp_seconds: ['When the applied revision came into effect', (one) => one.revisions.appliedAt],
  drift_objects: ['Live objects that others changed', (one) => one.drift],
  fights: ['Corrections that another writer keeps undoing', (one) => one.fights],
  blocked_deletes: ['Deletes of a plan that a guard refused', (one) => one.blockedDeletes],
  live_rules: ['Rules on the server after the last pass', (one) => one.liveRules],
  token_expiry_timestamp_seconds: ['When the API token expires', (one) => one.tokenExpiresAt],
  writer: ['1: this replica writes; 0: another one does', ({ role }) => role && (role === 'writer' ? 1 : 0)],
  suspended: ['1: suspended by the operator', (one) => (one.suspended ? 1 : 0)],
  window_opens_timestamp_seconds: ['When the window opens for which the plan waits', (one) => one.windowOpensAt],
  confirm_by_timestamp_seconds: ['When what is not confirmed is taken back', (one) => one.confirmBy],
  next_boundary_timestamp_seconds: ['When the next rule begins or ends', (one) => one.nextBoundaryAt],
  held_ends: ['Rules that have ended and are live all the same', (one) => one.heldEnds],
  server_clock_ahead_seconds: ['How far the clock of the server is ahead of ours', (one) => one.serverAheadMs],
  watch_degraded: ['1: the directory cannot be watched, only rescanned', (one) => (one.degraded ? 1 : 0)],
  enforcement_missing_rules: ['Live rules that the kernel does not hold', (one) => one.enforcement?.missing],
  enforcement_stale_elements: ['Elements that changed rules left in the kernel', (one) => one.enforcement?.stale],
  enforcement_extra_elements: ['Elements in the kernel that no live rule explains', (one) => one.enforcement?.extra],
  enforcement_other_differences: [
    'Chains and rules missing in the kernel, and unknown ones',
    (one) => one.enforcement?.structure,
  ],
  enforcement_lag_seconds: ['Time from the last apply until the kernel held it', (one) => one.enforcement?.lagMs],
  enforced_timestamp_seconds: ['When the kernel was last seen to hold all rules', (one) => one.enforcement?.enforcedAt],
};

type Row = readonly [labels: Readonly<Record<string, string>>, value: number];

function registerGauges(registry: Registry, states: States, own: readonly string[]): void {
  const register = (name: string, help: string, labels: string[], rows: (now: Status) => readonly Row[]): void => {
    const gauge = new Gauge({
      name: prefix + name,
      help,
      labelNames: [...own, ...labels],
      registers: [registry],
      collect() {
        gauge.reset();
        // Absent, and not 0 as `reset` has it: a token of unknown expiry has not expired in 1970.
        gauge.remove({});
        for (const [of, status] of states())
          for (const [more, value] of rows(status)) gauge.set({ ...of, ...more }, value);
      },
    });
  };
  for (const [name, [help, value]] of Object.entries(gauges))
    register(name, help, [], (status) => {
      const now = value(status) ?? null;
      return now === null ? [] : [[{}, name.endsWith('_seconds') ? now / 1000 : now]];
    });
  const levels = { True: 1, False: 0, Unknown: -1 } as const;
  const ofConditions = 'Conditions by type and reason: 1 True, 0 False, -1 Unknown';
  register('condition', ofConditions, ['type', 'reason'], ({ conditions }) =>
    Object.values(conditions).map(({ type, reason, status }) => [{ type, reason }, levels[status]]),
  );
  const ofRevisions = 'The observed, attempted and applied revision, and the one in force, as labels; always 1';
  register('revision_info', ofRevisions, ['kind', 'revision'], ({ revisions }) => {
    const { observed, attempted, applied, inForce } = revisions;
    const known = Object.entries({ observed, attempted, applied, in_force: inForce });
    return known.flatMap(([kind, revision]) => (revision === null ? [] : [[{ kind, revision }, 1] as const]));
  });
}
