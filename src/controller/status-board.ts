import type { PassResult } from '../pass.ts';
import type { Clock } from '../ports.ts';
import type { ConditionUpdate } from './conditions.ts';
import { withCondition } from './conditions.ts';
import { withEnforcement } from './enforcement.ts';
import { vanishing } from './gate.ts';
import type { PassView, Status } from './status.ts';
import { viewOfPlan, withPass } from './status.ts';

/** The status of one loop as it changes. Each change replaces it whole, so that no reader sees half of one. */
export class StatusBoard {
  readonly #clock: Clock;
  #status: Status;

  constructor(initial: Status, clock: Clock) {
    this.#status = initial;
    this.#clock = clock;
  }

  get status(): Status {
    return this.#status;
  }

  update(change: Partial<Status>): void {
    this.#status = { ...this.#status, ...change };
  }

  /** Replaces conditions; each one's time moves with its status only. */
  set(...updates: readonly ConditionUpdate[]): void {
    const wallTime = this.#clock.wallTime();
    const conditions = updates.reduce((all, one) => withCondition(all, one, wallTime), this.#status.conditions);
    this.update({ conditions });
  }

  revisions(change: Partial<Status['revisions']>): void {
    this.update({ revisions: { ...this.#status.revisions, ...change } });
  }

  ended(pass: PassView): void {
    this.update({ passes: withPass(this.#status.passes, pass) });
  }

  /** What a pass saw: the live state, the plan at hand, and how much of it others brought about. */
  passed(result: PassResult, { isDrift, fights }: { readonly isDrift: boolean; readonly fights: number }): void {
    const { plan, end, live } = result;
    this.#status = withEnforcement(this.#status, result, this.#clock.wallTime());
    const pending =
      plan === null || end === 'in-sync'
        ? []
        : plan.changes.filter((one) => one.action !== 'keep' && one.action !== 'skip');
    const foreign = isDrift ? pending.length : pending.filter((one) => one.origin === 'drift').length;
    this.update({
      drift: plan === null ? this.#status.drift : foreign,
      blockedDeletes: end === 'refused' && plan !== null ? vanishing(plan) : 0,
      liveRules: live?.rules.length ?? this.#status.liveRules,
      plan: plan === null ? null : viewOfPlan(plan, result.content?.revision ?? ''),
      fights,
    });
  }
}
