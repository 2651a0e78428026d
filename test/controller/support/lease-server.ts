import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

interface StoredLease {
  readonly metadata: Record<string, unknown> & { resourceVersion: string };
  readonly spec: Record<string, unknown>;
}

/** A double of the API server's Lease resource: one object, optimistic concurrency, 409 on a stale version. */
export interface LeaseServer {
  readonly url: string;
  /** Holders whose writes are answered 403. */
  readonly refuse: Set<string>;
  /** So many of the next writes are carried out and not answered. */
  lose: number;
  /** What every request is answered with; null: what it asks for. */
  fault: number | 'nothing' | null;
  lease(): StoredLease | null;
  /** Called when a read has been answered; null: nothing is. */
  onRead: (() => void) | null;
  /** Deletes the object, as a person does. */
  remove(): void;
  /** Names another holder, as somebody who edits it does. */
  steal(holder: string): void;
  /** Changes its metadata alone, as a person or a tool does. */
  label(name: string, value: string, kind?: 'labels' | 'annotations'): void;
  /** The clock of the server (ms since 1970), which its answers and `managedFields` show. */
  wallTime: () => number;
  /** Who wrote it, and when (monotonic, ms). */
  readonly written: readonly { readonly holder: string; readonly at: number }[];
  /** Holds answers back until this many reads are waiting, so that writers race. */
  hold(reads: number): void;
  /** Resolves when no request is being answered. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** `tls`: served over https to `localhost`. */
export async function startLeaseServer(tls?: { readonly cert: string; readonly key: string }): Promise<LeaseServer> {
  let stored: StoredLease | null = null;
  let version = 0;
  let holding = 0;
  let held: (() => void)[] = [];
  let open = 0;
  const refuse = new Set<string>();
  const written: { holder: string; at: number }[] = [];

  const answer = (response: ServerResponse, status: number, body: unknown): void => {
    const date = new Date(leases.wallTime()).toUTCString();
    response.writeHead(status, { 'content-type': 'application/json', date }).end(JSON.stringify(body));
  };
  const write = (response: ServerResponse, text: string, isCreate: boolean): void => {
    const body = JSON.parse(text) as StoredLease;
    const holder = String(body.spec['holderIdentity']);
    if (refuse.has(holder)) {
      answer(response, 403, { kind: 'Status', code: 403 });
      return;
    }
    const stale = isCreate
      ? stored !== null
      : stored === null || body.metadata.resourceVersion !== stored.metadata.resourceVersion;
    if (stale) {
      answer(response, 409, { kind: 'Status', code: 409 });
      return;
    }
    written.push({ holder, at: performance.now() });
    version += 1;
    const managedFields = [
      { manager: 'unknown', operation: 'Update', time: new Date(leases.wallTime()).toISOString() },
    ];
    stored = { ...body, metadata: { ...body.metadata, managedFields, resourceVersion: String(version) } };
    if (leases.lose > 0) {
      leases.lose -= 1;
      response.destroy();
      return;
    }
    answer(response, isCreate ? 201 : 200, stored);
  };
  const read = (response: ServerResponse): void => {
    const seen = stored;
    const give = (): void => {
      if (seen === null) answer(response, 404, { kind: 'Status', code: 404 });
      else answer(response, 200, seen);
      leases.onRead?.();
    };
    if (holding === 0) {
      give();
      return;
    }
    held.push(give);
    if (held.length < holding) return;
    holding = 0;
    for (const one of held) one();
    held = [];
  };
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    open += 1;
    response.on('close', () => {
      open -= 1;
    });
    if (leases.fault === 'nothing') return;
    if (leases.fault !== null) {
      answer(response, leases.fault, {
        kind: 'Status',
        code: leases.fault,
        message: `because \u001b[1m${request.headers.authorization} of a ${leases.fault}`,
      });
      return;
    }
    if (request.headers.authorization !== 'Bearer token') {
      answer(response, 401, {});
      return;
    }
    const isObject = request.url === '/apis/coordination.k8s.io/v1/namespaces/net/leases/reconcile';
    const isCollection = request.url === '/apis/coordination.k8s.io/v1/namespaces/net/leases';
    let text = '';
    request.on('data', (chunk) => {
      text += String(chunk);
    });
    request.on('end', () => {
      if (request.method === 'GET' && isObject) read(response);
      else if (request.method === 'POST' && isCollection) write(response, text, true);
      else if (request.method === 'PUT' && isObject) write(response, text, false);
      else answer(response, 404, {});
    });
  };
  const server = tls === undefined ? createServer(take) : createTlsServer(tls, take);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const leases: LeaseServer = {
    url: `${tls === undefined ? 'http://127.0.0.1' : 'https://localhost'}:${(server.address() as AddressInfo).port}`,
    fault: null,
    lose: 0,
    wallTime: Date.now,
    onRead: null,
    refuse,
    lease: () => stored,
    remove: () => {
      stored = null;
    },
    steal: (holder) => {
      if (stored === null) return;
      version += 1;
      const { metadata, spec } = stored;
      stored = {
        metadata: { ...metadata, resourceVersion: String(version) },
        spec: { ...spec, holderIdentity: holder },
      };
    },
    label: (name, value, kind = 'labels') => {
      if (stored === null) return;
      version += 1;
      const { metadata } = stored;
      const changed = { ...(metadata[kind] as Record<string, string> | undefined), [name]: value };
      stored = { ...stored, metadata: { ...metadata, [kind]: changed, resourceVersion: String(version) } };
    },
    written,
    hold: (reads) => {
      holding = reads;
    },
    async idle() {
      // A few turns of the loop beyond the last answer, so that its reader has dealt with it.
      for (let calm = 0; calm < 15; ) {
        await new Promise((resolve) => setImmediate(resolve));
        calm = open === 0 || held.length > 0 || leases.fault === 'nothing' ? calm + 1 : 0;
      }
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return leases;
}
