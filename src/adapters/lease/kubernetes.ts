import { readFileSync } from 'node:fs';
import { Agent, request } from 'undici';
import * as z from 'zod';
import type { Lease } from '../../controller/lease.ts';
import { printable } from '../../model/printable.ts';
import { getErrorCode } from '../../model/result.ts';
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
  metadata: z.object({ resourceVersion: z.string(), annotations: z.record(z.string(), z.string()).nullish() }).loose(),
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

/** The annotation that holds the controller's record. */
const recordKey = 'firezone-reconcile/record';
const largestAnswer = 2_000_000;

/** What another holder's lease looked like, and since when it has not changed (monotonic, ms): clocks of machines differ. */
interface Observed {
  readonly mark: string;
  readonly since: number;
  readonly durationMs: number;
}

/**
 * Holds a `coordination.k8s.io/v1` Lease. Renewed in the background until released. Taken over only when its holder has not
 * renewed it for its whole duration as seen from here; every write carries the resource version, so that of two only one wins.
 * A replica that has seen a holder waits as long before it makes a Lease anew that was deleted: the holder may not know yet.
 */
export function holdKubernetesLease(settings: KubernetesLeaseSettings): Lease {
  const { clock, times, identity, logger } = settings;
  const api = createLeaseApi(settings);
  let observed: Observed | null = null;
  let goneSince: number | null = null;
  /** How long the holder seen last may write on; 0: nobody was seen, or it was given back. */
  let heldForMs = 0;
  let record: string | null = null;
  const isMine = (lease: LeaseObject | null): boolean => lease?.spec?.holderIdentity === identity;

  /** Null: it is gone, and may be made anew now. False: it belongs to somebody else, or may still. */
  const look = async (tenure: Tenure): Promise<LeaseObject | null | false> => {
    const current = await api.read();
    const now = clock.now();
    tenure.holder = current?.spec?.holderIdentity || null;
    if (current === null) {
      if (tenure.term.leftMs() > 0) logger.warn('The lease was deleted: nothing is written until it is made anew');
      tenure.lost('nobody');
      goneSince ??= now;
      return now - goneSince < heldForMs ? false : null;
    }
    goneSince = null;
    observed = tenure.holder === null || isMine(current) ? null : observe(observed, current, now, times.durationMs);
    heldForMs = observed?.durationMs ?? (isMine(current) ? times.durationMs : 0);
    if (observed === null) return current;
    tenure.lost('another');
    return now - observed.since < observed.durationMs ? false : current;
  };

  /** Takes or keeps the lease, with the record; whether that was done. */
  const renew = async (tenure: Tenure, again = true): Promise<boolean> => {
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    const current = await look(tenure);
    if (current === false) return false;
    const wasMine = isMine(current);
    const written = await api.write(current, buildLease(settings, current, wasMine ? record : null));
    if (written === 'conflict') {
      if (!wasMine) return false; // another replica was faster
      logger.warn('The Lease was changed by somebody else at the same moment', { again });
      if (again) return renew(tenure, false);
      throw new NotRenewed('409', 'somebody else keeps changing the Lease object');
    }
    if (!wasMine) record = written.metadata.annotations?.[recordKey] ?? null;
    heldForMs = times.durationMs;
    tenure.holder = identity;
    tenure.term.renewed(sentAt);
    return true;
  };

  return keepLease(settings, times.renewMs, {
    turn: async (tenure) => void (await renew(tenure)),
    readRecord: () => Promise.resolve(record),
    async writeRecord(text, tenure) {
      const before = record;
      record = text;
      let done = false;
      try {
        done = await renew(tenure);
      } finally {
        if (!done) record = before;
      }
      return done;
    },
    async free(held) {
      const current = held ? await api.read().catch(() => null) : null;
      if (current !== null && isMine(current)) {
        const { spec, ...freed } = buildLease(settings, current, record);
        const empty = { ...spec, holderIdentity: '', leaseDurationSeconds: 1 };
        await api.write(current, { ...freed, spec: empty }).catch(() => undefined); // it runs out by itself
      }
      await api.close();
    },
  });
}

/** Only a holder that renews is alive: somebody who edits a label, or whatever else changes the object, says nothing of it. */
function observe(before: Observed | null, lease: LeaseObject, now: number, fallbackMs: number): Observed {
  const { holderIdentity, renewTime, leaseTransitions, leaseDurationSeconds } = lease.spec ?? {};
  const mark = `${holderIdentity} ${renewTime} ${leaseTransitions}`;
  if (before?.mark === mark) return before;
  return { mark, since: now, durationMs: leaseDurationSeconds == null ? fallbackMs : leaseDurationSeconds * 1000 };
}

/** The Lease as held by this replica. `record` replaces what lies with it; null: that stays. */
function buildLease(settings: KubernetesLeaseSettings, current: LeaseObject | null, record: string | null) {
  const time = new Date(settings.clock.wallTime()).toISOString().replace('Z', '000Z'); // MicroTime has six decimals
  const mine = current?.spec?.holderIdentity === settings.identity;
  const annotations = { ...current?.metadata.annotations, ...(record === null ? {} : { [recordKey]: record }) };
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { ...(current?.metadata ?? {}), name: settings.name, namespace: settings.namespace, annotations },
    spec: {
      holderIdentity: settings.identity,
      leaseDurationSeconds: Math.ceil(settings.times.durationMs / 1000),
      acquireTime: mine ? (current?.spec?.acquireTime ?? time) : time,
      renewTime: time,
      leaseTransitions: (current?.spec?.leaseTransitions ?? 0) + (mine || current === null ? 0 : 1),
    },
  };
}

/** The Lease resource of the API server. Every call rejects with `NotRenewed`, or with what the network did. */
interface LeaseApi {
  /** Null: there is none. */
  read(): Promise<LeaseObject | null>;
  /** Makes it anew (`before` is null) or replaces the version that `before` is. */
  write(before: LeaseObject | null, body: unknown): Promise<LeaseObject | 'conflict'>;
  close(): Promise<void>;
}

function createLeaseApi({ server, namespace, name, tokenFile, caFile, times }: KubernetesLeaseSettings): LeaseApi {
  const collection = `${server}/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases`;
  const object = `${collection}/${encodeURIComponent(name)}`;
  let open: { readonly ca: string | null; readonly agent: Agent } | null = null;
  /** Both files are renewed under us, and are read anew for each call; another CA means new connections. */
  const connect = async (): Promise<Agent> => {
    const ca = caFile === null ? null : readOwn(caFile);
    if (open !== null && open.ca === ca) return open.agent;
    const closing = open?.agent;
    const agent = new Agent({ maxResponseSize: largestAnswer, ...(ca === null ? {} : { connect: { ca } }) });
    open = { ca, agent };
    await closing?.close();
    return agent;
  };
  const call = async (method: 'GET' | 'POST' | 'PUT', url: string, body?: unknown): Promise<LeaseAnswer> => {
    const dispatcher = await connect();
    const response = await request(url, {
      method,
      dispatcher,
      headers: {
        authorization: `Bearer ${readOwn(tokenFile).trim()}`,
        accept: 'application/json',
        'content-type': 'application/json',
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(times.requestTimeoutMs),
    }).catch((error: unknown) => {
      if (!/CERT|SIGNATURE|TLS|SSL/.test(getErrorCode(error))) throw error;
      throw new NotRenewed(getErrorCode(error), `the API server's certificate does not fit the CA in ${caFile}`);
    });
    return { status: response.statusCode, text: await response.body.text() };
  };
  return {
    async read() {
      const answer = await call('GET', object);
      if (answer.status === 404) return null;
      return decodeLease(answer);
    },
    async write(before, body) {
      const answer = before === null ? await call('POST', collection, body) : await call('PUT', object, body);
      return answer.status === 409 ? 'conflict' : decodeLease(answer);
    },
    close: async () => open?.agent.close(),
  };
}

interface LeaseAnswer {
  readonly status: number;
  readonly text: string;
}

function readOwn(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new NotRenewed(getErrorCode(error), `the file ${file} cannot be read`);
  }
}

const statusShape = z.object({ message: z.string() });

function decodeLease({ status, text }: LeaseAnswer): LeaseObject {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = null;
  }
  if (status === 200 || status === 201) {
    const lease = leaseShape.safeParse(body);
    if (lease.success) return lease.data;
    throw new NotRenewed('not-a-lease', 'the answer is no Lease: check the address of the API server');
  }
  const said = statusShape.safeParse(body);
  const words = said.success ? `the API server says: ${printable(said.data.message).slice(0, 300)}` : '';
  const advice =
    status === 401 || status === 403
      ? 'the lease may not be used: check its Role and the token'
      : 'the API server did not carry it out; it is tried again';
  throw new NotRenewed(String(status), words === '' ? advice : `${advice}; ${words}`);
}
