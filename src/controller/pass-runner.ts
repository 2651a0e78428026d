import type { Outcome } from '../apply/outcome.ts';
import type { Secret } from '../model/secret.ts';
import type { DesiredState } from '../model/state.ts';
import { stateAt } from '../pass/clock.ts';
import type { PassPart, TimesPart } from '../pass/pass.ts';
import { makeRequest, type Refusal } from '../plan/plan.ts';
import { Gate, type PassOrder } from './gate.ts';
import type { LoopParts } from './loop-parts.ts';
import { createGapClock } from './observer.ts';
import type { PassRun, Verdict } from './pass-ending.ts';
import { addVerdict, findUnfinished, isBlind, isInForce, joinRuns, judge, mayBeOnePart, waits } from './pass-ending.ts';
import { logDrift, logFailures, logInternalError, logTimes, logUnknownRules } from './pass-log.ts';
import type { StatusBoard } from './status-board.ts';

/** Runs passes for one loop, each plan past the controller's own gate. */
export class PassRunner {
  readonly #parts: LoopParts;
  readonly gate: Gate;
  readonly #board: StatusBoard;
  readonly #stop: AbortSignal;
  #serverWasDown = false;

  constructor(parts: LoopParts, board: StatusBoard, stop: AbortSignal) {
    this.#parts = parts;
    this.gate = new Gate(parts);
    this.#board = board;
    this.#stop = stop;
  }

  /** One pass over everything; when a part of it stands in the way of the other, each part by itself. */
  async run(order: PassOrder): Promise<PassRun> {
    const whole = await this.#runOne(order);
    if (!mayBeOnePart(whole.result)) return whole;
    const rules = await this.#runOne(order, 'rules');
    const isBegun = order.content.revision === order.record.inForceRevision || order.back !== undefined;
    // A Configuration alone brings no revision into force: the rules of the one before still begin and end. On trial is the whole.
    const beginAlone = async () =>
      this.#parts.settings().confirmWithinMs === null ? order.beginAlone() : rules.verdict;
    const begin = isBegun || isInForce(rules.verdict) ? order.begin : beginAlone;
    const revision = order.back === undefined ? order.content.revision : null;
    return joinRuns(rules, await this.#runOne({ ...order, begin }, 'configuration'), revision);
  }

  /** Applies what began or ended by time. Where that waits, what accepted ends by itself, but for what a rule that waits gives too. */
  async runTimes(order: PassOrder, part: TimesPart): Promise<PassRun> {
    // A rule that begins brings no other values into effect.
    const begin = part === 'boundaries' && order.begin ? async () => (await order.begin?.(null)) ?? null : null;
    const run = await this.#runOne({ ...order, begin, deleteWaitMs: () => 0 }, part);
    const steps = run.outcomes.map(({ step, outcome }) => ({ ...makeRequest(step), outcome }));
    logTimes(this.#parts.logger, steps);
    const lacks = isBlind(run);
    const isLast = part === 'revocations' && (lacks ? order.content.files.length === 0 : order.waiting !== 'wider');
    if (isLast || !waits(run)) return run;
    // What cannot be built under the settings of now ends by the history.
    const recorded = { ...order, content: { ...order.content, files: [] }, waiting: 'all' } as const;
    if (lacks && part !== 'boundaries') return await this.runTimes(recorded, 'revocations');
    // What must not be opened is no reason to leave anything open. A narrower rule may be what a rule of others is in the way of.
    const waiting = part === 'revocations' || lacks ? 'all' : isForbidden(run) ? undefined : 'wider';
    // Ends need neither users nor secrets.
    const ends = await this.runTimes({ ...order, waiting }, lacks ? 'ends' : 'revocations');
    const outcomes = [...run.outcomes, ...ends.outcomes];
    return { ...(lacks ? ends : run), verdict: addVerdict(run.verdict, ends.verdict), outcomes };
  }

  async #runOne(order: PassOrder, part?: PassPart): Promise<PassRun> {
    const { clock, observer, logger } = this.#parts;
    const { content, base, back, record, isHeld, waiting, asked } = order;
    const followGap = createGapClock(clock, observer);
    const outcomes: Outcome[] = [];
    const from = clock.now();
    let approvedAt: number | null = null;
    let hold: Verdict | null = null;
    const result = await this.#parts
      .pass({
        ...{ content, base, back, record, part, isHeld, waiting, asked },
        serverWasDown: this.#serverWasDown,
        stop: this.#stop,
        approve: async (plan, desired) => {
          observer.phaseEnded('plan', clock.now() - from);
          this.#board.touch();
          approvedAt = clock.now();
          const isTimes = part !== undefined && part !== 'rules' && part !== 'configuration';
          const isDrift = !isTimes && isDriftOf(order, desired.state);
          const isFirst = record.knownRules === null && !isDrift && back === undefined;
          hold = this.gate.check(plan, order, isDrift) ?? (await order.begin?.(desired.state)) ?? null;
          if (hold === null && isDrift) {
            this.gate.correct(plan);
            logDrift(logger, plan);
          }
          // Nothing is known of an earlier pass: this is the first apply to this server from here.
          if (hold === null && isFirst) logUnknownRules(logger, plan);
          if (hold === null) this.#board.update({ progress: { done: 0, total: plan.steps.length } });
          return hold === null;
        },
        onOutcome: (outcome) => {
          outcomes.push(outcome);
          followGap(outcome);
          this.#board.stepEnded();
        },
      })
      .catch((error: unknown) => logInternalError(logger, error));
    this.#board.update({ progress: null });
    observer.phaseEnded(approvedAt === null ? 'plan' : 'apply', clock.now() - (approvedAt ?? from));
    if (!result) {
      const message = 'an internal error ended the pass; see the log';
      return { result: null, verdict: { kind: 'transient', reason: 'ApplyFailed', message }, outcomes, isDrift: false };
    }
    const verdict = this.gate.learn(judge(result, hold), result);
    logFailures(logger, findUnfinished(result.apply?.outcomes ?? []));
    this.#serverWasDown = result.end === 'unreadable' && ['refused', 'reset'].includes(result.failure?.code ?? '');
    for (const { severity, code, summary } of result.problems)
      if (severity === 'warning') logger.debug('A problem was found', { code, summary });
    const isDrift = isDriftOf(order, result.desired?.state ?? null);
    return { result, verdict, outcomes: result.apply?.outcomes ?? outcomes, isDrift };
  }
}

/** Refusals of what a plan opens. */
const forbids = new Set<Refusal['code']>([
  ...(['policy-test-failed', 'policy-test-failed-on-the-way', 'protected-traffic', 'opens-on-the-way'] as const),
]);
const isForbidden = ({ result }: PassRun) => result?.plan?.refusals.some(({ code }) => forbids.has(code)) === true;

/** Whether the revision is in effect already, and asks for what it asked for then: what differs from that is drift. */
export function isDriftOf({ content, back, record, base }: PassOrder, desired: DesiredState | null): boolean {
  if (back !== undefined || content.revision !== record.appliedRevision) return false;
  // A record of an earlier version tells only of other revisions.
  if (record.isPartly || content.revision !== record.inForceRevision) return false;
  return desired === null || isInEffect(desired, record.appliedDesired, base);
}

/** Whether this is what was applied, now or as of its time then: other values of the same revision may come into effect in part too. */
export function isAsApplied({ content, record, base }: PassOrder, desired: DesiredState | null): boolean {
  const { isPartly, inForceRevision, appliedDesired: digest, agreedAt } = record;
  if (isPartly || content.revision !== inForceRevision) return false;
  if (desired === null || isInEffect(desired, digest, base)) return true;
  return desired.at !== undefined && isInEffect(stateAt(desired, agreedAt ?? desired.at), digest, base);
}

/** Whether this is what was last brought into effect, secrets included: the same revision may ask for something else since. */
export function isInEffect(desired: DesiredState, digest: string | null, state: DesiredState | null): boolean {
  if (digest !== null && digest !== desired.digest) return false;
  if (state === null) return true;
  const before = secretsOf(state);
  return secretsOf(desired).every((secret, index) => before[index]?.compare(secret) !== 'changed');
}

function secretsOf({ configuration }: DesiredState): readonly Secret[] {
  const { openid_connect_providers: oidc = [], saml_identity_providers: saml = [] } = configuration?.fields ?? {};
  return [...oidc.map((one) => one.client_secret), ...saml.map((one) => one.metadata)];
}
