import { readFileSync } from 'node:fs';
import { Agent, type Dispatcher, request } from 'undici';
import * as z from 'zod';
import type { Lease } from '../../controller/lease.ts';
import type { LeaseBasics, Tenure } from './renewed.ts';
import { keepLease, NotRenewed } from './renewed.ts';

/** Where the Lease object lies and how its server is spoken to. */
export interface KubernetesLeaseSettings extends LeaseBasics {
  /** `https://kubernetes.default.svc` and the like. */
  readonly server: string;
  readonly namespace: string;
  readonly name: string;
  readonly tokenFile: string;
  readonly caFile: string | null;
  readonly times: LeaseBasics['times'] & { readonly renewMs: number; readonly requestTimeoutMs: number };
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
export function holdKubernetesLease(settings: KubernetesLeaseSettings): Lease {
  const { clock, times, identity } = settings;
  const agent = new Agent(settings.caFile === null ? {} : { connect: { ca: readFileSync(settings.caFile) } });
  let observed: Observed | null = null;
  let last: LeaseObject | null = null;

  const call = (method: 'GET' | 'POST' | 'PUT', body?: unknown) => leaseCall(settings, agent, method, body);

  const turn = async (tenure: Tenure): Promise<void> => {
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    const found = await call('GET');
    const current = found.status === 200 ? found.lease : null;
    if (found.status !== 200 && found.status !== 404) throw refused(found.status);
    const holder = current?.spec?.holderIdentity || null;
    tenure.holder = holder;
    if (current !== null && holder !== null && holder !== identity) {
      tenure.term.lost();
      observed = observe(observed, current, clock.now(), times.durationMs);
      if (clock.now() - observed.since < observed.durationMs) return;
    }
    const next = leaseBody(settings, current, clock.wallTime());
    const written = current === null ? await call('POST', next) : await call('PUT', next);
    if (written.status === 200 || written.status === 201) {
      last = written.lease;
      tenure.holder = identity;
      tenure.term.renewed(sentAt);
    } else if (written.status === 409) {
      tenure.term.lost();
    } else throw refused(written.status);
  };

  return keepLease(settings, times.renewMs, {
    turn,
    async free(held) {
      if (held && last !== null) {
        const freed = leaseBody(settings, last, clock.wallTime());
        await call('PUT', { ...freed, spec: { ...freed.spec, holderIdentity: '', leaseDurationSeconds: 1 } }).catch(
          () => undefined,
        ); // it runs out by itself
      }
      await agent.close();
    },
  });
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
  if (status !== 200 && status !== 201) return { status, lease: null };
  return { status, lease: decoded(text) };
}

function decoded(text: string): LeaseObject {
  try {
    return leaseShape.parse(JSON.parse(text));
  } catch {
    throw new NotRenewed('not-a-lease', 'the answer is no Lease: check the address of the API server');
  }
}

function refused(status: number): NotRenewed {
  const hint =
    status === 401 || status === 403
      ? 'the lease may not be used: check its Role and the token'
      : 'the API server did not carry it out; it is tried again';
  return new NotRenewed(String(status), hint);
}
