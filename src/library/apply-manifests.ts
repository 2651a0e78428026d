import { systemClock } from '../adapters/clock.ts';
import { defaultApplyLimits } from '../apply/context.ts';
import { makeError, type Problem } from '../model/problem.ts';
import { deriveFingerprintKey } from '../model/secret.ts';
import { type Approve, emptyMemory, type PassDependencies, type PassEnd, type PassResult } from '../pass/pass.ts';
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
  const pass: PassDependencies = {
    api: api.value,
    clock: systemClock,
    logger: silent,
    journal: null,
    parse: (files) => Promise.resolve(parse(files)),
    desired: context,
    base: null,
    options: { ...defaultPlanOptions, ...request.options, fingerprintKey: deriveFingerprintKey(token) },
    approvals: request.approvals ?? [],
    limits: { ...defaultApplyLimits, onlyApproved: true },
    memory: emptyMemory,
    stop: request.signal ?? new AbortController().signal,
  };
  try {
    const before = request.base === undefined ? null : await readDesired(toContent(request.base), pass);
    const base = before?.ok === true ? before.value.desired.state : undefined;
    const known = judgeBase(base);
    const once = async (approve: Approve | null): Promise<PassResult> => {
      const now = systemClock.wallTime();
      const result = await reconcile(content, { ...pass, desired: { ...context, now }, base: base ?? null }, approve);
      return { ...result, problems: [...known, ...result.problems] };
    };
    const first = await once(null);
    if (first.end !== 'planned') return appliedOf(first);
    if ((await request.approve(appliedOf(first))) !== true) return appliedOf({ ...first, end: 'declined' });
    // Rules may have begun or ended meanwhile: what is written then is what was approved, or nothing.
    const result = await once(async (_plan, _desired, { plan }) => plan === first.digest?.plan);
    const isMoved = result.plan !== null && result.digest?.plan !== first.digest?.plan;
    return appliedOf(isMoved ? { ...result, problems: [...result.problems, movedMeanwhile] } : result);
  } finally {
    await api.value.close();
  }
}

const moved = 'What is to be written changed before `approve` gave true: nothing was written.';
const movedMeanwhile = makeError('stale-plan', moved, 'Call `apply` again, and look at the plan that it makes now.');

function appliedOf({ end, content, plan, digest, desired, apply: done, failure, ...result }: PassResult): Applied {
  const failed: readonly Problem[] =
    failure === null ? [] : [{ code: `api-${failure.code}`, severity: 'error', summary: failure.message }];
  const planned = makePlanned(desired?.state ?? null, {
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
  checkMembers('apply: `server`', server, ['baseUrl', 'token', 'caFile', 'allowHttp'], example);
  if (typeof server.baseUrl === 'string' && typeof server.token === 'string' && server.token !== '') return server;
  throw new TypeError(`apply: \`server\` needs a baseUrl and a token, both strings: ${example}`);
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
