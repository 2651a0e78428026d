import { createHash } from 'node:crypto';
import { storeRecord } from '../../../src/adapters/record-store.ts';
import type { ApplyReport, Outcome } from '../../../src/apply/outcome.ts';
import type { Lease } from '../../../src/controller/lease.ts';
import { createSoleWriter } from '../../../src/controller/lease.ts';
import { Loop } from '../../../src/controller/loop.ts';
import type { LoopParts, LoopPassRequest, LoopSettings } from '../../../src/controller/loop-parts.ts';
import type { Turn } from '../../../src/controller/observer.ts';
import type { LoopRecord } from '../../../src/controller/record.ts';
import { emptyRecord } from '../../../src/controller/record.ts';
import type { Triggers } from '../../../src/controller/trigger.ts';
import { createTriggers } from '../../../src/controller/trigger.ts';
import type { Desired } from '../../../src/desired/context.ts';
import type { KernelState } from '../../../src/enforcement/report.ts';
import { parseNetwork } from '../../../src/model/address.ts';
import type { Problem } from '../../../src/model/problem.ts';
import type { ProblemCode } from '../../../src/model/problem-code.ts';
import type { DesiredState } from '../../../src/model/state.ts';
import type { PassResult } from '../../../src/pass/pass.ts';
import type { PlanDigest } from '../../../src/plan/digest.ts';
import { type Change, type Plan, type Step, summarise } from '../../../src/plan/plan.ts';
import type { Descent, FirstSeen, Logger, SourceReading } from '../../../src/ports.ts';
import type { VirtualClock } from './virtual-clock.ts';
import { virtualClock } from './virtual-clock.ts';

/** A loop over a source and a pipeline that the test plays. */
export interface FakeLoop {
  readonly clock: VirtualClock;
  readonly loop: Loop;
  readonly triggers: Triggers;
  readonly requests: LoopPassRequest[];
  readonly turns: Turn[];
  /** Revisions that were parsed before they counted. */
  readonly prepared: string[];
  readonly saved: LoopRecord[];
  readonly log: { level: string; message: string; fields: Record<string, unknown> }[];
  /** Plans that the gate let through. */
  readonly applied: Plan[];
  settings: LoopSettings;
  /** What the source gives from now on: a revision, or problems. */
  source: string | readonly Problem[];
  /** It gives nothing until it is told to stop, or this long after it was asked (ms). */
  hangsMs: number;
  /** How a pass goes from now on. */
  answer: (request: LoopPassRequest) => Answer;
  descends: Descent;
  /** What gives out the history answers nothing. */
  historyHangs: boolean;
  /** A commit from which the branch does not descend. */
  foreign: string | null;
  /** The manifests hold a Configuration. */
  configuration: boolean;
  /** What the manifests ask for, in a word. */
  asksFor: string;
  /** What the kernel's filter is seen to hold; undefined: nobody looks. */
  kernel: KernelState | undefined;
  /** Why a revision must wait. */
  holds: (...asked: Parameters<NonNullable<LoopParts['hold']>>) => string | null;
  /** Called while the record is being saved. */
  whileSaving: () => void;
  /** Whether a record that is saved is kept. */
  keepsRecord: boolean;
  /** What the command that confirms comes to; null: it ends with 0. */
  confirms: () => string | null;
  /** When the packet filter is expected to hold what is applied. */
  enforcedInMs: number | null;
  /** How long each pass takes from the gate on. */
  passMs: number;
  /** Why the newest settings are not in force. */
  badSettings: string | null;
  stop(): void;
  reads: number;
  /** What the source was last told of first sight. */
  firstSeen: FirstSeen;
  running: Promise<unknown>;
}

/**
 * How a pass goes. `apply`: the plan is offered to the gate, and if it is let through this is the report's end. `status`: the
 * first step fails with it, as one that the server refuses does, and the others are done.
 */
export type Answer =
  | { readonly kind: 'in-sync' }
  | { readonly kind: 'invalid'; readonly code?: ProblemCode }
  | { readonly kind: 'unreadable'; readonly code: string; readonly retryAfterMs?: number }
  | { readonly kind: 'refused'; readonly plan: Plan }
  | {
      readonly kind: 'apply';
      readonly plan: Plan;
      readonly end?: ApplyReport['end'];
      readonly status?: number;
      readonly mayLand?: boolean;
    };

export const defaultSettings: LoopSettings = {
  intervalMs: 60_000,
  quietMs: 0,
  deleteQuietMs: 0,
  requestTimeoutMs: 15_000,
  onDrift: 'correct',
  allowRewind: false,
  suspended: false,
  confirmWithinMs: null,
  windows: [],
  noticeMs: 86_400_000,
};

export function fakeLoop(
  options: {
    readonly record?: LoopRecord;
    readonly lease?: Lease;
    /** A replica among others: they share the clock and the lease, with what lies with it. */
    readonly replica?: { readonly clock: VirtualClock; lease(onChange: () => void): Lease };
    readonly git?: boolean;
    readonly broken?: boolean;
  } = {},
): FakeLoop {
  const clock = options.replica?.clock ?? virtualClock();
  const triggers = createTriggers(clock);
  const fake: Omit<FakeLoop, 'loop' | 'running' | 'stop'> = {
    clock,
    triggers,
    requests: [],
    turns: [],
    prepared: [],
    saved: [],
    log: [],
    applied: [],
    settings: defaultSettings,
    badSettings: null,
    source: 'r1',
    answer: () => ({ kind: 'in-sync' }),
    descends: 'yes',
    historyHangs: false,
    foreign: null,
    configuration: false,
    asksFor: 'this',
    kernel: undefined,
    holds: () => null,
    whileSaving: () => undefined,
    keepsRecord: true,
    confirms: () => null,
    enforcedInMs: null,
    passMs: 0,
    reads: 0,
    hangsMs: 0,
    firstSeen: {},
  };
  const reading = (): SourceReading => {
    fake.reads += 1;
    return typeof fake.source === 'string'
      ? { content: contentOf(fake.source), problems: [] }
      : { content: null, problems: fake.source };
  };
  const write =
    (level: string) =>
    (message: string, fields = {}) =>
      void fake.log.push({ level, message, fields });
  const logger: Logger = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const lease = options.replica?.lease(() => triggers.wake('lease')) ?? options.lease ?? createSoleWriter();
  const kept =
    lease.record === null
      ? null
      : storeRecord(lease.record, logger, (text) => createHash('sha256').update(text).digest('hex'));
  const stopping = new AbortController();
  const loop = new Loop({
    hold: (...asked) => fake.holds(...asked),
    source: {
      description: 'test',
      read: async (signal, firstSeen = {}) => {
        fake.firstSeen = firstSeen;
        if (fake.hangsMs === 0) return reading();
        await clock.sleep(fake.hangsMs, signal);
        return { content: null, problems: [{ code: 'git-aborted', severity: 'error', summary: 'git was stopped' }] };
      },
      ...(options.git
        ? {
            readAt: (revision: string) =>
              options.broken
                ? Promise.reject(new Error('canary'))
                : Promise.resolve({ content: contentOf(revision), problems: [] }),
            descends: async (from: string, _: string, signal: AbortSignal) => {
              if (fake.historyHangs) await clock.sleep(3_600_000, signal);
              if (fake.historyHangs) return 'unasked' as const;
              return from === fake.foreign ? ('no' as const) : fake.descends;
            },
          }
        : {}),
    },
    pass: async (request) => {
      fake.requests.push(request);
      const result = await play(fake, request);
      if (fake.passMs > 0) await clock.sleep(fake.passMs);
      return result;
    },
    confirm: () => Promise.resolve(fake.confirms()),
    prepare: async ({ revision }) => void fake.prepared.push(revision),
    build: () => Promise.resolve(stateOf(fake)),
    settings: () => fake.settings,
    badSettings: () => fake.badSettings,
    stop: stopping.signal,
    clock,
    logger,
    lease,
    observer: {
      phaseEnded: () => undefined,
      passEnded: () => undefined,
      gapClosed: () => undefined,
    },
    notify: (turn) => void fake.turns.push(turn),
    store: {
      peek: () => kept?.peek?.() ?? null,
      load: () => kept?.load() ?? Promise.resolve(options.record ?? emptyRecord),
      save: async (record) => {
        fake.saved.push(record);
        if (kept !== null) return kept.save(record);
        await Promise.resolve();
        fake.whileSaving();
        return fake.keepsRecord;
      },
    },
    triggers,
    version: 'test',
    degraded: () => false,
    tokenExpiresAt: () => null,
  });
  return Object.assign(fake, { loop, stop: () => stopping.abort(), running: Promise.resolve() as Promise<unknown> });
}

/** What the manifests ask for. */
function stateOf(fake: Pick<FakeLoop, 'configuration' | 'asksFor'>): DesiredState {
  const digest = createHash('sha256').update(fake.asksFor).digest('hex');
  return { rules: [], digest, configuration: fake.configuration ? { fields: {} } : null } as unknown as DesiredState;
}

async function play(
  fake: Pick<FakeLoop, 'answer' | 'applied' | 'configuration' | 'asksFor' | 'kernel' | 'enforcedInMs'>,
  request: LoopPassRequest,
): Promise<PassResult> {
  const answer = fake.answer(request);
  const desired = { state: stateOf(fake) } as unknown as Desired;
  const base: PassResult = {
    end: 'in-sync',
    content: request.content,
    desired,
    live: liveAfter(request.part === 'configuration' ? null : fake.applied),
    plan: null,
    apply: null,
    failure: null,
    problems: [],
    ...(fake.kernel === undefined ? {} : { kernel: fake.kernel }),
  };
  switch (answer.kind) {
    case 'in-sync':
      return { ...base, plan: planOf([]) };
    case 'invalid':
      return {
        ...base,
        end: 'invalid',
        problems: [
          {
            code: answer.code ?? 'invalid-yaml',
            severity: 'error',
            summary: 'broken',
            place: { file: 'a.yaml', line: 1, column: 2 },
          },
        ],
      };
    case 'unreadable':
      return {
        ...base,
        end: 'unreadable',
        failure: {
          code: answer.code,
          status: null,
          message: `no: ${answer.code}`,
          ...(answer.retryAfterMs === undefined ? {} : { retryAfterMs: answer.retryAfterMs }),
        },
      };
    case 'refused':
      return {
        ...base,
        end: 'refused',
        plan: { ...answer.plan, refusals: [{ code: 'max-deletes', summary: 'too many', hint: 'raise it' }] },
      };
    case 'apply': {
      const planned = {} as unknown as PlanDigest;
      if (!(await request.approve(answer.plan, desired, planned)))
        return { ...base, end: 'declined', plan: answer.plan };
      fake.applied.push(answer.plan);
      const end = answer.end ?? 'converged';
      const outcomes = answer.plan.steps.map((step, index): Outcome => {
        const { status } = answer;
        if (index > 0 || status === undefined)
          return { step, outcome: 'done', status: 200, ...(answer.mayLand && { mayLand: true }) };
        return { step, outcome: 'failed', status, message: `POST /v0/rules: ${status}, destination is invalid` };
      });
      for (const outcome of outcomes) request.onOutcome(outcome);
      const apply: ApplyReport = {
        end,
        outcomes,
        problems: [],
        leftOpen: [],
        notConverged: [],
        wrote: true,
        durationMs: 1,
        enforcedInMs: fake.enforcedInMs,
      };
      return { ...base, end: 'applied', plan: answer.plan, apply };
    }
  }
}

/** One rule, and those that plans created since; null: the rules were not read. */
function liveAfter(applied: readonly Plan[] | null): PassResult['live'] {
  const created = (applied ?? []).flatMap((plan) => plan.steps).filter((step) => step.type === 'create').length;
  const rules = applied === null ? [] : Array.from({ length: 1 + created }, () => ({}));
  return { rules, configuration: null } as unknown as PassResult['live'];
}

function contentOf(revision: string) {
  return { revision, files: [] };
}

/** A plan of creates (`+10.0.0.1`) and deletes (`-10.0.0.2`). */
export function planOf(steps: readonly string[]): Plan {
  const made = steps.map((text, index): { change: Change; step: Step } => {
    const parsed = parseNetwork(text.slice(1));
    if (!parsed.ok) throw new Error('bad address in a test');
    const rule = { action: 'drop' as const, destination: parsed.value.network, ports: null, userId: null };
    const live = { id: `id-${text}`, rule, insertedAt: '', updatedAt: '' };
    const common = { id: `s${index + 1}`, change: index, after: [], gap: null };
    const isCreate = text.startsWith('+');
    const change = {
      kind: 'Rule',
      action: isCreate ? 'create' : 'delete',
      via: null,
      reason: isCreate ? 'desired-only' : 'not-desired',
      fields: {},
      source: null,
      name: text,
      id: null,
      desired: null,
      live: null,
    } as unknown as Change;
    const step: Step = isCreate
      ? { ...common, type: 'create', rule }
      : ({ ...common, type: 'delete', live, mayRebuild: false } as unknown as Step);
    return { change, step };
  });
  const changes = made.map((one) => one.change);
  return {
    profile: 'firezone-0.7',
    ruleUpdates: 'replace',
    changes,
    steps: made.map((one) => one.step),
    problems: [],
    refusals: [],
    effect: { opens: [], closes: [] } as unknown as Plan['effect'],
    exposure: [],
    summary: summarise(
      changes,
      made.map((one) => one.step),
    ),
  };
}
