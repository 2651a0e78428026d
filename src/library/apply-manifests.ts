import { systemClock } from '../adapters/clock.ts';
import { defaultApplyLimits } from '../apply/context.ts';
import type { Problem } from '../model/problem.ts';
import { deriveFingerprintKey } from '../model/secret.ts';
import { emptyMemory, type PassDependencies, type PassEnd, type PassResult } from '../pass/pass.ts';
import { readDesired } from '../pass/stages.ts';
import { defaultPlanOptions } from '../plan/input.ts';
import { reconcile } from '../reconcile.ts';
import { checkMembers, checkRequest, planningFields } from './arguments.ts';
import { makePlanned, type Planned } from './plan-manifests.ts';
import { judgeBase, type PlanningRequest, type PolicyRequest, readPolicy, toContent } from './policy.ts';

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
  const pass: Omit<PassDependencies, 'desired'> = {
    api: api.value,
    clock: systemClock,
    logger: silent,
    journal: null,
    parse: (files) => Promise.resolve(parse(files)),
    base: null,
    options: { ...defaultPlanOptions, ...request.options, fingerprintKey: deriveFingerprintKey(token) },
    approvals: request.approvals ?? [],
    limits: { ...defaultApplyLimits, onlyApproved: true },
    memory: emptyMemory,
    stop: request.signal ?? new AbortController().signal,
  };
  // The digest that `approve` said yes to: all is read again then, at the time that it is by then.
  let approved = null as string | null;
  const once = async () => {
    const now = { ...pass, desired: { ...context, now: systemClock.wallTime() } };
    const before = request.base === undefined ? null : await readDesired(toContent(request.base), now);
    const base = before?.ok === true ? before.value.desired.state : undefined;
    const known = judgeBase(base);
    const result = await reconcile(content, { ...now, base: base ?? null }, async (plan, desired, digest) => {
      if (approved !== null) return approved === digest.plan;
      const planned = makePlanned(desired.state, {
        revision: content.revision,
        plan,
        problems: [...known, ...desired.problems, ...plan.problems],
        digest: digest.plan,
        approved: plan.refusals.length > 0,
      });
      if ((await request.approve(planned)) === true) approved = digest.plan;
      return false;
    });
    return { ...result, problems: [...known, ...result.problems] };
  };
  try {
    const first = await once();
    if (approved === null) return appliedOf(first);
    const second = await once();
    const isStale = second.plan !== null && second.digest?.plan !== approved;
    return appliedOf(isStale ? { ...second, problems: [...second.problems, movedMeanwhile] } : second);
  } finally {
    await api.value.close();
  }
}

const movedMeanwhile: Problem = {
  code: 'stale-plan',
  severity: 'error',
  summary: 'The server, or what the manifests ask for now, changed before `approve` gave true. Nothing was written.',
  hint: 'Call `apply` again, and approve the plan that it makes now.',
};

function appliedOf({ end, content, plan, digest, desired, apply: done, failure, ...result }: PassResult): Applied {
  const failed: readonly Problem[] =
    failure === null ? [] : [{ code: `api-${failure.code}`, severity: 'error', summary: failure.message }];
  const planned = makePlanned(desired?.state, {
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
  checkMembers('apply: `server`', server, { allowed: ['baseUrl', 'token', 'caFile', 'allowHttp'], example });
  if (typeof server.baseUrl === 'string' && typeof server.token === 'string' && server.token !== '') return server;
  throw new TypeError(`apply: \`server\` needs a baseUrl and a token, both strings: ${example}`);
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
