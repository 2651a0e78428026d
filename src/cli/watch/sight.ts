import type { LoopPassRequest } from '../../controller/loop-parts.ts';
import type { Problem } from '../../model/problem.ts';
import type { DesiredState } from '../../model/state.ts';
import type { PassResult } from '../../pass/pass.ts';
import type { Plan } from '../../plan/plan.ts';

/** What one pass saw, as far as the page shows it. */
export interface SeenPlan {
  readonly revision: string;
  readonly plan: Plan;
  readonly digest: string | null;
  readonly desired: DesiredState | null;
  /** The plan was carried out: what it asked for is live. */
  readonly isDone: boolean;
}

/** What the last passes saw, for the page: only there when the page is. */
export class Sight {
  /** The last plan over everything, and over each part where the parts were tried apart. */
  readonly #plans = new Map<string, SeenPlan>();
  #writing: SeenPlan | null = null;
  /** What is known of the last revisions. */
  revisions: ReadonlyMap<string, { readonly author: string; readonly problems: readonly Problem[] }> = new Map();

  /** Runs a pass and looks on. */
  async watch(request: LoopPassRequest, run: (request: LoopPassRequest) => Promise<PassResult>): Promise<PassResult> {
    const { content, part = 'all' } = request;
    const { revision, author = '' } = content;
    const result = await run({
      ...request,
      approve: async (plan, desired, digest) => {
        const isApproved = await request.approve(plan, desired, digest);
        if (isApproved) this.#writing = { revision, plan, digest: digest.plan, desired: desired.state, isDone: false };
        return isApproved;
      },
    });
    this.#writing = null;
    const others = [...this.revisions].filter(([one]) => one !== revision);
    this.revisions = new Map([...others.slice(-3), [revision, { author, problems: result.problems }]]);
    const { plan, digest, desired, apply } = result;
    if (plan === null) return result;
    if (part === 'all') this.#plans.clear();
    const seen = { revision, plan, digest: digest?.plan ?? null, desired: desired?.state ?? null };
    this.#plans.set(part, { ...seen, isDone: apply?.end === 'converged' });
    return result;
  }

  /** The plan that is being written, or the one with this digest. */
  planAtHand(digest: string | null): SeenPlan | null {
    return this.#writing ?? [...this.#plans.values()].find((one) => digest !== null && one.digest === digest) ?? null;
  }

  /** Who saw the live rules last. */
  get rules(): SeenPlan | null {
    return this.#plans.get('rules') ?? this.#plans.get('all') ?? null;
  }
}
