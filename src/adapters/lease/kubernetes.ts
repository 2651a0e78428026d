import { readFileSync } from 'node:fs';
import { Agent, type Dispatcher, request } from 'undici';
import { z } from 'zod';
import type { Lease, LeaseTimes } from '../../controller/lease.ts';
import { leaseTerm } from '../../controller/lease.ts';
import type { Clock, Logger } from '../../ports.ts';

/** Where the Lease object lies and how its server is spoken to. */
export interface KubernetesLeaseSettings {
  /** `https://kubernetes.default.svc` and the like. */
  readonly server: string;
  readonly namespace: string;
  readonly name: string;
  /** Unique to this process. */
  readonly identity: string;
  readonly tokenFile: string;
  readonly caFile: string | null;
  readonly times: LeaseTimes & { readonly renewMs: number; readonly requestTimeoutMs: number };
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when this replica becomes the writer, or stops being it. */
  readonly onChange: () => void;
}

const leaseShape = z.object({
  metadata: z.object({ resourceVersion: z.string() }).loose(),
  spec: z
    .object({
      holderIdentity: z.string().nullish(),
      leaseDurationSeconds: z.number().nullish(),
      acquireTime: z.string().nullish(),
      renewTime: z.string().nullish(),
      leaseTransitions: z.number().nullish(),
    })
    .loose()
    .nullish(),
});

type LeaseObject = z.infer<typeof leaseShape>;

/** What another holder's lease looked like, and since when it has not changed (monotonic, ms): clocks of machines differ. */
interface Observed {
  readonly mark: string;
  readonly since: number;
  readonly durationMs: number;
}

/**
 * Holds a `coordination.k8s.io/v1` Lease. Renewed in the background until released. Taken over only when its record has not
 * changed for its whole duration as seen from here; every write carries the resource version, so that of two only one wins.
 */
export function kubernetesLease(settings: KubernetesLeaseSettings): Lease {
  const { clock, times } = settings;
  const stop = new AbortController();
  const term = leaseTerm(clock, times);
  const agent = new Agent(settings.caFile === null ? {} : { connect: { ca: readFileSync(settings.caFile) } });
  let held = new AbortController();
  let holder: string | null = null;
  let observed: Observed | null = null;
  let writer = false;
  let last: LeaseObject | null = null;

  const call = (method: 'GET' | 'POST' | 'PUT', body?: unknown) => leaseCall(settings, agent, method, body);

  const settle = (): void => {
    const now = term.leftMs() > times.marginMs;
    if (now === writer) return;
    writer = now;
    if (now) held = new AbortController();
    else held.abort();
    settings.logger.info(now ? 'This replica writes now' : 'This replica does not write any more', {
      holder: holder ?? '',
    });
    settings.onChange();
  };

  const turn = async (): Promise<void> => {
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    const found = await call('GET');
    const current = found.status === 200 ? found.lease : null;
    if (found.status !== 200 && found.status !== 404) return;
    holder = current?.spec?.holderIdentity || null;
    if (current !== null && holder !== null && holder !== settings.identity) {
      term.lost();
      observed = observe(observed, current, clock.now(), times.durationMs);
      if (clock.now() - observed.since < observed.durationMs) return;
    }
    const next = leaseBody(settings, current, clock.wallTime());
    const written = current === null ? await call('POST', next) : await call('PUT', next);
    if (written.status === 200 || written.status === 201) {
      last = written.lease;
      holder = settings.identity;
      term.renewed(sentAt);
    } else if (written.status === 409) {
      term.lost();
    }
  };

  const running = (async () => {
    while (!stop.signal.aborted) {
      await turn().catch((error: unknown) => {
        settings.logger.warn('The lease could not be renewed', {
          code: error instanceof Error && 'code' in error ? String(error.code) : 'failed',
        });
      });
      settle();
      // Short enough that the end of the term is noticed in time, also when renewing fails.
      await clock.sleep(
        writer ? Math.min(times.renewMs, Math.max(50, term.leftMs() - times.marginMs)) : times.renewMs,
        stop.signal,
      );
      settle();
    }
  })();

  return {
    mayStart: () => term.leftMs() > times.marginMs,
    // What is sent must also have been answered or given up before the lease ends.
    mayWrite: () => term.leftMs() > times.marginMs / 2,
    signal: () => held.signal,
    holder: () => holder,
    async release() {
      stop.abort();
      await running;
      if (term.leftMs() > 0 && last !== null) {
        const freed = { ...leaseBody(settings, last, clock.wallTime()) };
        await call('PUT', { ...freed, spec: { ...freed.spec, holderIdentity: '', leaseDurationSeconds: 1 } }).catch(
          () => undefined,
        ); // it runs out by itself
      }
      term.lost();
      await agent.close();
    },
  };
}

function observe(before: Observed | null, lease: LeaseObject, now: number, fallbackMs: number): Observed {
  const { holderIdentity, renewTime, leaseDurationSeconds } = lease.spec ?? {};
  const mark = `${holderIdentity} ${renewTime} ${lease.metadata.resourceVersion}`;
  if (before?.mark === mark) return before;
  return { mark, since: now, durationMs: leaseDurationSeconds == null ? fallbackMs : leaseDurationSeconds * 1000 };
}

function leaseBody(settings: KubernetesLeaseSettings, current: LeaseObject | null, wallTime: number) {
  const time = new Date(wallTime).toISOString().replace('Z', '000Z'); // MicroTime has six decimals
  const mine = current?.spec?.holderIdentity === settings.identity;
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      ...(current?.metadata ?? {}),
      name: settings.name,
      namespace: settings.namespace,
    },
    spec: {
      holderIdentity: settings.identity,
      leaseDurationSeconds: Math.ceil(settings.times.durationMs / 1000),
      acquireTime: mine ? (current?.spec?.acquireTime ?? time) : time,
      renewTime: time,
      leaseTransitions: (current?.spec?.leaseTransitions ?? 0) + (mine || current === null ? 0 : 1),
    },
  };
}

async function leaseCall(
  settings: KubernetesLeaseSettings,
  agent: Dispatcher,
  method: 'GET' | 'POST' | 'PUT',
  body: unknown,
): Promise<{ readonly status: number; readonly lease: LeaseObject | null }> {
  const collection = `${settings.server}/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(settings.namespace)}/leases`;
  const response = await request(
    method === 'POST' ? collection : `${collection}/${encodeURIComponent(settings.name)}`,
    {
      method,
      dispatcher: agent,
      headers: {
        authorization: `Bearer ${readFileSync(settings.tokenFile, 'utf8').trim()}`,
        accept: 'application/json',
        'content-type': 'application/json',
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(settings.times.requestTimeoutMs),
    },
  );
  const text = await response.body.text();
  const status = response.statusCode;
  if (status === 403 || status === 401) settings.logger.warn('The lease may not be used; check its Role', { status });
  if (status !== 200 && status !== 201) return { status, lease: null };
  return { status, lease: leaseShape.parse(JSON.parse(text)) };
}
