import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { LeaseServer } from '../support/lease-server.ts';
import { startLeaseServer } from '../support/lease-server.ts';
import type { Sidecar, World } from '../support/sidecar.ts';
import { ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../support/sidecar.ts';

const certificates = new URL('../../adapters/api/certificates/', import.meta.url);
const pem = (name: string): string => readFileSync(new URL(name, certificates), 'utf8');

let world: World;
let leases: LeaseServer;
let running: Sidecar[];
let closers: (() => Promise<void>)[];

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await makeWorld();
  leases = await startLeaseServer({ cert: pem('localhost.pem'), key: pem('localhost.key') });
  writeFileSync(path.join(world.folder, 'lease-token'), 'token\n');
  writeFileSync(
    path.join(world.folder, 'settings.yaml'),
    `kubernetes: {server: "${leases.url}", tokenFile: lease-token, caFile: ${new URL('ca.pem', certificates).pathname}}\n`,
  );
  running = [];
  closers = [];
});

afterEach(async () => {
  for (const one of running) one.child.kill('SIGKILL');
  await Promise.all(running.map((one) => one.ended()));
  await Promise.all(closers.map((close) => close()));
  await leases.close();
  await world.close();
});

/** One call of the API, and who held the lease then. */
interface Call {
  readonly from: string;
  readonly method: string;
  readonly holder: unknown;
}

/** The API by another address: all that comes by it is known to come from one replica. */
async function addressFor(name: string, calls: Call[]): Promise<string> {
  const server = createServer((incoming, outgoing) => {
    calls.push({ from: name, method: incoming.method ?? '', holder: leases.lease()?.spec['holderIdentity'] });
    const forward = httpRequest(
      new URL(incoming.url ?? '/', world.sim.url),
      { method: incoming.method ?? 'GET', headers: { ...incoming.headers, host: new URL(world.sim.url).host } },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      },
    );
    forward.on('error', () => outgoing.destroy());
    incoming.pipe(forward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  closers.push(
    () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Long beside what a busy machine may keep a process from renewing. */
const durationMs = 8000;

async function replica(name: string, calls: Call[]): Promise<Sidecar> {
  const url = await addressFor(name, calls);
  const sidecar = await startSidecar({ ...world, sim: { ...world.sim, url } }, [
    ...[world.manifests, '--quiet', '20ms', '--rescan', '300ms', '--interval', '60s', '--concurrency', '2'],
    ...['--state-dir', path.join(world.folder, name), '--config', path.join(world.folder, 'settings.yaml')],
    ...['--lease', 'kubernetes:net/reconcile', '--lease-duration', `${durationMs / 1000}s`],
  ]);
  running.push(sidecar);
  return sidecar;
}

describe('replicas with a Kubernetes lease', () => {
  it('fault 37: the writer is killed in the middle; another takes over after the term and finishes, and never do two write (long)', async () => {
    const calls: Call[] = [];
    const write = (count: number): void => {
      const destinations = Array.from({ length: count }, (_, index) => `10.0.0.${index}`);
      writeFileSync(path.join(world.manifests, 'a.yaml'), rules(...destinations));
    };
    write(1);
    const first = await replica('first', calls);
    await first.until(inEffect());
    const second = await replica('second', calls);
    await second.until((status) => status.role === 'standby' && status.holder !== null);
    const holder = leases.lease()?.spec['holderIdentity'];

    world.sim.faults.inject({ match: { method: 'POST' }, fault: { kind: 'delay', milliseconds: 50 } });
    write(40);
    await until(() => world.live().length >= 6);
    first.child.kill('SIGKILL');
    await first.ended();
    const inTheMiddle = world.live().length;

    await second.until((status) => status.role === 'writer');
    // It waits the whole term from when it saw the last renewal, which is not before that was written.
    const takenOver = leases.written.findIndex((one) => one.holder !== holder);
    const [renewed, taken] = [leases.written[takenOver - 1], leases.written[takenOver]];
    expect((taken?.at ?? 0) - (renewed?.at ?? 0)).toBeGreaterThanOrEqual(durationMs);
    await second.until(inEffect());
    expect(inTheMiddle).toBeLessThan(40);
    expect(world.live().length).toBe(40);

    const writes = calls.filter((call) => call.method !== 'GET');
    const handover = writes.findIndex((call) => call.from === 'second');
    expect(handover).toBeGreaterThan(0);
    expect(new Set(writes.slice(0, handover).map((call) => call.holder))).toEqual(new Set([holder]));
    expect(writes.slice(handover).filter((call) => call.from !== 'second' || call.holder === holder)).toEqual([]);
    const read = calls.findIndex((call) => call.from === 'second');
    expect(calls[read]?.method).toBe('GET');
    expect(leases.lease()?.spec['leaseTransitions']).toBe(1);
    expect(await second.stop()).toBe(0);
    expect(leases.lease()?.spec['holderIdentity']).toBe('');
  }, 120_000);
});
