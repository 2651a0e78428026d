import type { EnforcementReport } from '../enforcement/report.ts';
import type { PassResult } from '../pass/pass.ts';
import { type ConditionUpdate, setConditions } from './conditions.ts';
import type { LoopParts } from './loop-parts.ts';
import { countLiveRules, describeConditions, type PassEnding } from './pass-ending.ts';
import { createStatus, nothingDue, nothingInForce, nothingSeen, type Status, viewPlan } from './status.ts';

/** The status of one loop as it changes. Each change replaces it whole, so that no reader sees half of one. */
export class StatusBoard {
  readonly #clock: LoopParts['clock'];
  /** Changed here alone. */
  status: Status;
  /** When the loop last got on (monotonic, ms). */
  progressAt = 0;

  constructor({ clock, source, version, server }: LoopParts) {
    this.#clock = clock;
    this.status = createStatus(version, source.description, clock.wallTime(), server);
    this.touch();
  }

  update(change: Partial<Status>): void {
    this.status = { ...this.status, ...change };
  }

  /** Replaces conditions; each one's time moves with its status only. */
  set(...updates: readonly ConditionUpdate[]): void {
    this.update({ conditions: setConditions(this.status.conditions, updates, this.#clock.wallTime()) });
  }

  revisions(change: Partial<Status['revisions']>): void {
    this.update({ revisions: { ...this.status.revisions, ...change } });
  }

  touch(): void {
    this.progressAt = this.#clock.now();
  }

  /** Steps of plans that are made on the way count too. */
  stepEnded(): void {
    const { done = 0, total = 0 } = this.status.progress ?? {};
    this.update({ progress: { done: done + 1, total: Math.max(total, done + 1) } });
    this.touch();
  }

  /** Another replica writes: what this one saw as the writer may not be so any more, and must raise no alarm. */
  standBy(message: string, badSettings: string | null): void {
    const verdict = { kind: 'held', reason: 'Standby', message } as const;
    this.set(...describeConditions(verdict, { revision: null, failures: 0, badSettings }));
    this.revisions({ ...nothingInForce, failed: null, stuck: null });
    const { enforcement: _seen, conditions, ...status } = this.status;
    const { Enforced: _enforced, ...others } = conditions;
    this.status = { ...status, conditions: others, ...nothingSeen, ...nothingDue };
  }

  /** What a pass saw: the live state, the plan at hand, and how much of it others brought about. */
  passed(result: PassResult, { apart, isDrift = false }: Pick<PassEnding, 'apart' | 'isDrift'>, fights: number): void {
    const rules = apart === undefined ? result : apart.rules.result;
    if (rules === null) return; // a mistake of ours ended the pass: nothing was seen
    const configuration = apart?.configuration.result ?? null;
    this.#enforced(rules);
    const drifts = [rules, configuration].map((one) => foreignChanges(one, isDrift)).filter((count) => count !== null);
    this.update({
      drift: drifts.length === 0 ? this.status.drift : drifts.reduce((sum, count) => sum + count),
      blockedDeletes: rules.end === 'refused' ? (rules.plan?.summary.delete ?? 0) : 0,
      liveRules: countLiveRules(rules) ?? this.status.liveRules,
      serverAheadMs: rules.serverAheadMs ?? this.status.serverAheadMs,
      plan: viewPlan(result),
      fights,
    });
  }

  /** What a pass saw of the kernel; nothing when nobody looks. */
  #enforced({ kernel, content, end }: PassResult): void {
    if (kernel === undefined) return;
    const { report, waitedMs } = kernel;
    this.set(judgeKernel(report));
    if (report.state === 'unreadable') return;
    const before = this.status.enforcement ?? { enforcedRevision: null, enforcedAt: null, lagMs: null };
    const isEnforced = report.state === 'enforced';
    const enforcement = {
      ...report.counts,
      elements: report.elements,
      enforcedRevision: isEnforced ? (content?.revision ?? null) : before.enforcedRevision,
      enforcedAt: isEnforced ? this.#clock.wallTime() : before.enforcedAt,
      // Stays what it was, unless this pass wrote and waited.
      lagMs: (isEnforced && end === 'applied' ? waitedMs : null) ?? before.lagMs,
      findings: report.findings.slice(0, 20).map(({ summary }) => summary),
    };
    this.update({ enforcement });
  }
}

function judgeKernel({ state, counts, liveRules, message }: EnforcementReport): ConditionUpdate {
  const { missing, stale, extra, structure } = counts;
  const held = `the kernel holds the ${liveRules} live rules and nothing else`;
  const differences = `in the kernel: ${missing} missing, ${stale} stale, ${extra} extra, ${structure} other differences`;
  const updates = {
    enforced: { status: 'True', reason: 'Enforced', message: held },
    unreadable: { status: 'Unknown', reason: 'KernelUnreadable', message: message ?? '' },
    differs: { status: 'False', reason: 'NotEnforced', message: differences },
  } as const;
  return { type: 'Enforced', ...updates[state] };
}

/** Changes that others made necessary; null when there was no plan. */
function foreignChanges(result: PassResult | null, isDrift: boolean): number | null {
  if (result === null || result.plan === null) return null;
  // What is in effect differs no more, but for what waits for a secret.
  const isDone = result.end === 'in-sync' || result.apply?.end === 'converged';
  const pending = result.plan.changes.filter((one) =>
    isDone ? one.reason === 'unsent' : one.action !== 'keep' && one.action !== 'skip',
  );
  return isDrift ? pending.length : pending.filter((one) => one.origin === 'drift').length;
}
