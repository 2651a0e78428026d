import { Agent, request } from 'undici';
import * as z from 'zod';
import type { Lease, LeaseHolder } from '../../controller/lease.ts';
import { escapeControls } from '../../model/printable.ts';
import { decodeJsonObject, getErrorCode } from '../../model/result.ts';
import { hideSecrets } from '../hide-secrets.ts';
import { saysSuspended } from '../record-store.ts';
import { readOperatorFile } from '../source/regular-file.ts';
import { chooseRenewal, keepLease, type LeaseSettings, type LeaseStore, NotRenewed, type Tenure } from './renewed.ts';

/** Where the Lease object lies and how its server is spoken to. */
export interface KubernetesLeaseSettings extends LeaseSettings {
  /** `https://kubernetes.default.svc` and the like. */
  readonly server: string;
  readonly namespace: string;
  readonly name: string;
  readonly tokenFile: string;
  readonly caFile: string | null;
}

const leaseShape = z.object({
  metadata: z.looseObject({
    resourceVersion: z.string(),
    annotations: z.record(z.string(), z.string()).nullish(),
    managedFields: z.array(z.looseObject({ time: z.string().nullish() })).nullish(),
  }),
  spec: z
    .looseObject({
      holderIdentity: z.string().nullish(),
      leaseDurationSeconds: z.number().nullish(),
      acquireTime: z.string().nullish(),
      renewTime: z.string().nullish(),
      leaseTransitions: z.number().nullish(),
    })
    .nullish(),
});

type LeaseObject = z.infer<typeof leaseShape>;

/** The annotation that holds the controller's record. */
const recordKey = 'firezone-reconcile/record';
const largestAnswer = 2_000_000;

/**
 * Holds a `coordination.k8s.io/v1` Lease. Renewed in the background until released. Taken over only when its holder has not
 * renewed it for its whole duration as seen from here; every write carries the resource version, so that of two only one wins.
 * A replica that has seen a holder waits as long before it makes a Lease anew that was deleted: the holder may not know yet. Any
 * other waits for two renewals before it makes the first one.
 */
export function holdKubernetesLease(settings: KubernetesLeaseSettings): Lease {
  return keepLease(settings, new KubernetesStore(settings));
}

/** Who holds the Lease, without taking part; null: nobody does. Rejects where it cannot be read. */
export async function lookAtKubernetesLease(settings: KubernetesLeaseSettings): Promise<LeaseHolder | null> {
  const api = createLeaseApi(settings);
  try {
    const found = await api.read();
    const { holderIdentity, renewTime, leaseDurationSeconds } = found?.spec ?? {};
    const { annotations, managedFields } = found?.metadata ?? {};
    if (!holderIdentity) return null;
    // The clocks of this machine and of the holder's may differ: the API server's says when the Lease was last written.
    const times = [renewTime, ...(managedFields ?? []).flatMap(({ time }) => time ?? [])];
    const renewedAt = times.reduce((last, time) => Math.max(last, Date.parse(time ?? '')), 0);
    const heldMs = 2000 * (leaseDurationSeconds ?? settings.durationMs / 1000);
    if (api.answeredAt() - renewedAt > heldMs) return null;
    return { name: holderIdentity, suspended: saysSuspended(annotations?.[recordKey] ?? null) };
  } finally {
    await api.close();
  }
}

class KubernetesStore implements LeaseStore {
  readonly #settings: KubernetesLeaseSettings;
  readonly #api: ReturnType<typeof createLeaseApi>;
  /** How the Lease last looked, since when (monotonic, ms: clocks of machines differ), and how long its holder may write on. */
  #seen = { mark: '', since: 0, heldForMs: 0 };
  /** What lies with the lease, as this replica wrote it, or last found it in other hands. */
  #record: string | null = null;

  constructor(settings: KubernetesLeaseSettings) {
    this.#settings = settings;
    this.#api = createLeaseApi(settings);
  }

  readRecord(): Promise<string | null> {
    return Promise.resolve(this.#record);
  }

  async writeRecord(text: string, tenure: Tenure): Promise<boolean> {
    return (await this.turn(tenure, text)) && this.#record === text;
  }

  async free(held: boolean): Promise<void> {
    const current = held ? await this.#api.read().catch(() => null) : null;
    if (current !== null && this.#isMine(current)) {
      const { spec, ...freed } = buildLease(this.#settings, current, this.#record);
      const empty = { ...spec, holderIdentity: '', leaseDurationSeconds: 1 };
      await this.#api.write(current, { ...freed, spec: empty }).catch(() => undefined); // it runs out by itself
    }
    await this.#api.close();
  }

  /** Takes the lease, or keeps it with this text as its record; whether that was done. `again`: after a conflict it is tried once more. */
  async turn(tenure: Tenure, text = this.#record, again = true): Promise<boolean> {
    const { clock, durationMs, logger } = this.#settings;
    const sentAt = { now: clock.now(), wallTime: clock.wallTime() };
    const current = await this.#api.read();
    const wasMine = this.#isMine(current);
    // Taking the lease leaves it as it was found, also where the answer to that is lost.
    if (!wasMine) this.#record = current?.metadata.annotations?.[recordKey] ?? null;
    if (this.#mayBeHeld(current, tenure)) return false;
    const record = wasMine ? text : this.#record;
    const written = await this.#api.write(current, buildLease(this.#settings, current, record));
    if (written === 'conflict') {
      if (!wasMine) return false; // another replica was faster
      logger.warn('The Lease was changed by somebody else at the same moment', { again });
      if (again) return this.turn(tenure, text, false);
      throw new NotRenewed('409', 'somebody else keeps changing the Lease object');
    }
    this.#record = record;
    this.#seen = { mark: '', since: clock.now(), heldForMs: durationMs };
    tenure.renewed(sentAt);
    return true;
  }

  /** Whether the Lease, or one that was deleted, is somebody else's who may still write. */
  #mayBeHeld(current: LeaseObject | null, tenure: Tenure): boolean {
    const { clock, logger } = this.#settings;
    // Only a holder that renews is alive: somebody who edits a label, or whatever else changes the object, says nothing of it.
    const { holderIdentity, renewTime, leaseTransitions } = current?.spec ?? {};
    const mark = current === null ? 'none' : `${holderIdentity} ${renewTime} ${leaseTransitions}`;
    if (mark !== this.#seen.mark) this.#seen = { mark, since: clock.now(), heldForMs: this.#holdOf(current) };
    tenure.saw(holderIdentity || null, this.#seen.since, this.#seen.heldForMs);
    if (current !== null && (!holderIdentity || this.#isMine(current))) return false;
    if (current === null && tenure.leftMs() > 0)
      logger.warn('The lease was deleted: nothing is written until it is made anew');
    tenure.lost(current === null ? 'nobody' : 'another');
    return clock.now() - this.#seen.since < this.#seen.heldForMs;
  }

  /** ms for which whoever holds the Lease may write on. */
  #holdOf(current: LeaseObject | null): number {
    // It may have been deleted just before this replica came: a holder notices with its next renewal.
    if (current === null) return Math.max(this.#seen.heldForMs, 2 * chooseRenewal(this.#settings));
    const seconds = current.spec?.leaseDurationSeconds;
    return seconds == null ? this.#settings.durationMs : seconds * 1000;
  }

  #isMine(lease: LeaseObject | null): boolean {
    return lease?.spec?.holderIdentity === this.#settings.identity;
  }
}

/** The Lease as held by this replica. `record` replaces what lies with it; null: that stays. */
function buildLease(settings: KubernetesLeaseSettings, current: LeaseObject | null, record: string | null) {
  const time = new Date(settings.clock.wallTime()).toISOString().replace('Z', '000Z'); // MicroTime has six decimals
  const { metadata, spec } = current ?? {};
  const mine = spec?.holderIdentity === settings.identity;
  const annotations = { ...metadata?.annotations, ...(record === null ? {} : { [recordKey]: record }) };
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { ...metadata, name: settings.name, namespace: settings.namespace, annotations },
    spec: {
      holderIdentity: settings.identity,
      leaseDurationSeconds: Math.ceil(settings.durationMs / 1000),
      acquireTime: (mine && spec.acquireTime) || time,
      renewTime: time,
      leaseTransitions: (spec?.leaseTransitions ?? 0) + (mine || current === null ? 0 : 1),
    },
  };
}

/** The Lease resource of the API server. Every call rejects with `NotRenewed`, or with what the network did. */
function createLeaseApi(settings: KubernetesLeaseSettings) {
  const { server, namespace, name, tokenFile, caFile } = settings;
  const timeoutMs = Math.min(5000, 2 * chooseRenewal(settings));
  const collection = `${server}/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases`;
  const object = `${collection}/${encodeURIComponent(name)}`;
  let open: { readonly ca: string | null; readonly agent: Agent } | null = null;
  let answeredAt = Number.NaN;
  /** Both files are renewed under us, and are read anew for each call; another CA means new connections. */
  const connect = (): Agent => {
    const ca = caFile === null ? null : readOwn(caFile);
    if (open?.ca === ca) return open.agent;
    const before = open?.agent;
    const connect = { rejectUnauthorized: true, ...(ca === null ? {} : { ca }) };
    open = { ca, agent: new Agent({ maxResponseSize: largestAnswer, connect }) };
    // Not awaited: a renewal must not wait for old connections to end.
    before?.close().catch(() => undefined);
    return open.agent;
  };
  const call = async (method: 'GET' | 'POST' | 'PUT', url: string, body?: unknown) => {
    const token = readOwn(tokenFile).trim();
    const response = await request(url, {
      method,
      dispatcher: connect(),
      headers: { authorization: `Bearer ${token}`, accept: 'application/json', 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
    }).catch((error: unknown) => {
      if (!/CERT|SIGNATURE|TLS|SSL/.test(getErrorCode(error))) throw error;
      throw new NotRenewed(getErrorCode(error), `the API server's certificate does not fit the CA in ${caFile}`);
    });
    answeredAt = Date.parse(String(response.headers['date']));
    const text = await response.body.text();
    const isGood = response.statusCode < 300; // anything else may quote the request
    return { status: response.statusCode, text: isGood ? text : String(hideSecrets(text, [token]) ?? '') };
  };
  return {
    /** When the last answer was given (ms since 1970), by the API server's clock where it tells its time. */
    answeredAt: () => answeredAt || settings.clock.wallTime(),
    /** Null: there is none. */
    async read(): Promise<LeaseObject | null> {
      const answer = await call('GET', object);
      return answer.status === 404 ? null : decodeLease(answer);
    },
    /** Makes it anew (`before` is null) or replaces the version that `before` is. */
    async write(before: LeaseObject | null, body: unknown): Promise<LeaseObject | 'conflict'> {
      const answer = before === null ? await call('POST', collection, body) : await call('PUT', object, body);
      return answer.status === 409 ? 'conflict' : decodeLease(answer);
    },
    close: async () => open?.agent.close(),
  };
}

function readOwn(file: string): string {
  try {
    return readOperatorFile(file, 1_000_000).toString('utf8');
  } catch (error) {
    throw new NotRenewed(getErrorCode(error), `the file ${file} cannot be read`);
  }
}

function decodeLease({ status, text }: { readonly status: number; readonly text: string }): LeaseObject {
  const body = decodeJsonObject(text);
  if (status === 200 || status === 201) {
    const lease = leaseShape.safeParse(body);
    if (lease.success) return lease.data;
    throw new NotRenewed('not-a-lease', 'the answer is no Lease: check the address of the API server');
  }
  const said = body?.['message'];
  const words = typeof said === 'string' ? `the API server says: ${escapeControls(said).slice(0, 300)}` : '';
  const refused = 'the lease may not be used: check its Role and the token';
  const isRefused = status === 401 || status === 403;
  const advice = isRefused ? refused : 'the API server did not carry it out; it is tried again';
  throw new NotRenewed(String(status), words === '' ? advice : `${advice}; ${words}`);
}
