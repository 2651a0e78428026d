import type { LoopPassRequest } from '../../controller/loop.ts';
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

/** What is known of a revision. */
interface SeenRevision {
  readonly author: string;
  readonly problems: readonly Problem[];
}

type RunPass = (request: LoopPassRequest) => Promise<PassResult>;

/** What the last passes saw, for the page: only there when the page is. */
export class Sight {
  /** The last plan over everything, and over each part where the parts were tried apart. */
  readonly #plans = new Map<string, SeenPlan>();
  readonly #revisions = new Map<string, SeenRevision>();
  #writing: SeenPlan | null = null;

  /** Runs a pass and looks on. */
  async watch(request: LoopPassRequest, run: RunPass): Promise<PassResult> {
    const { content, part = 'all' } = request;
    const result = await run({
      ...request,
      approve: async (plan, desired, digest) => {
        const isApproved = await request.approve(plan, desired, digest);
        const { revision } = content;
        if (isApproved) this.#writing = { revision, plan, digest: digest.plan, desired: desired.state, isDone: false };
        return isApproved;
      },
    });
    this.#writing = null;
    this.#revisions.delete(content.revision);
    this.#revisions.set(content.revision, { author: content.author ?? '', problems: result.problems });
    for (const old of [...this.#revisions.keys()].slice(0, -4)) this.#revisions.delete(old);
    if (result.plan === null) return result;
    if (part === 'all') this.#plans.clear();
    this.#plans.set(part, {
      revision: content.revision,
      plan: result.plan,
      digest: result.digest?.plan ?? null,
      desired: result.desired?.state ?? null,
      isDone: result.apply?.end === 'converged',
    });
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

  get revisions(): ReadonlyMap<string, SeenRevision> {
    return this.#revisions;
  }
}
