import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { holdKubernetesLease } from '../../../src/adapters/lease/kubernetes.ts';
import type { Lease } from '../../../src/controller/lease.ts';
import { guardApi } from '../../../src/controller/lease.ts';
import type { ApiResult, LiveApi } from '../../../src/ports.ts';
import type { LeaseServer } from '../../controller/support/lease-server.ts';
import { startLeaseServer } from '../../controller/support/lease-server.ts';
import type { VirtualClock } from '../../controller/support/virtual-clock.ts';
import { virtualClock } from '../../controller/support/virtual-clock.ts';

let server: LeaseServer;
let folder: string;
let warnings: unknown[];

beforeEach(async () => {
  warnings = [];
  server = await startLeaseServer();
  folder = mkdtempSync(path.join(tmpdir(), 'lease-'));
  writeFileSync(path.join(folder, 'token'), 'token\n');
});

afterEach(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

function lease(identity: string, clock: VirtualClock): Lease {
  return holdKubernetesLease({
    server: server.url,
    namespace: 'net',
    name: 'reconcile',
    identity,
    tokenFile: path.join(folder, 'token'),
    caFile: null,
    times: { durationMs: 60_000, marginMs: 30_000, renewMs: 5000, requestTimeoutMs: 5000 },
    clock,
    logger: {
      debug: () => undefined,
      info: () => undefined,
      warn: (message, fields) => void warnings.push([message, fields?.['code']]),
      error: () => undefined,
    },
    onChange: () => undefined,
    onOverlap: () => undefined,
  });
}

/** Real requests answer in real time: lets them finish, then lets virtual time go on. */
async function turn(clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1000) {
    await clock.pass(1000);
    await server.idle();
  }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

describe('a Kubernetes lease', () => {
  it('is made, held and renewed by one replica; another stands by', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    const second = lease('two', clock);
    await turn(clock, 120_000);
    expect([first.mayStart(), first.mayWrite(), second.mayStart(), second.mayWrite()]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect(second.holder()).toBe('one');
    expect(server.lease()?.spec['holderIdentity']).toBe('one');
    expect(server.lease()?.spec['leaseTransitions']).toBe(0);
    await Promise.all([first.release(), second.release()]);
  });

  it('fault 37: is handed over at once when its holder ends in order', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    const second = lease('two', clock);
    await turn(clock, 10_000);
    await first.release();
    expect([first.mayStart(), first.mayWrite()]).toEqual([false, false]);
    await turn(clock, 10_000);
    await until(() => second.mayStart());
    expect(server.lease()?.spec).toMatchObject({ holderIdentity: 'two', leaseTransitions: 1 });
    await second.release();
  });

  it('fault 37: a holder that cannot renew stops before others may take it, and never are there two', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    const second = lease('two', clock);
    await turn(clock, 10_000);
    const held = first.signal();
    server.refuse.add('one');
    let both = 0;
    let stoppedAt: number | null = null;
    let takenAt: number | null = null;
    for (let at = 0; at < 100_000 && takenAt === null; at += 1000) {
      await turn(clock, 1000);
      if (first.mayWrite() && second.mayWrite()) both += 1;
      if (!first.mayStart() && stoppedAt === null) stoppedAt = at;
      if (second.mayStart()) takenAt = at;
    }
    expect(both).toBe(0);
    expect(held.aborted).toBe(true);
    expect(stoppedAt).not.toBeNull();
    // Between the two lies enough time to close a gap (10 s) and for the last request's deadline (15 s).
    expect((takenAt ?? 0) - (stoppedAt ?? 0)).toBeGreaterThanOrEqual(25_000);
    await Promise.all([first.release(), second.release()]);
  });

  it('fault 38: a process that was suspended writes nothing when it wakes, whichever clock went on', async () => {
    const clock = virtualClock();
    const only = lease('one', clock);
    await until(() => only.mayStart());
    const sent: string[] = [];
    const answer = (name: string) => async (): Promise<ApiResult> => {
      sent.push(name);
      return { kind: 'answer', status: 204, body: undefined, retryAfterMs: null };
    };
    const api = guardApi(
      {
        listRules: answer('list'),
        getConfiguration: answer('get'),
        listUsers: answer('users'),
        createRule: answer('create'),
        updateRule: answer('update'),
        deleteRule: answer('delete'),
        updateConfiguration: answer('configure'),
      } satisfies LiveApi,
      only,
    );
    const signal = new AbortController().signal;
    const rule = { action: 'drop' as const, destination: '10.0.0.1', port_range: null, port_type: null, user_id: null };
    await api.deleteRule('x', signal);
    clock.skip(61_000);
    for (const call of [
      api.createRule(rule, signal),
      api.updateRule('x', {}, signal),
      api.deleteRule('x', signal),
      api.updateConfiguration({}, signal),
    ]) {
      expect(await call).toMatchObject({ kind: 'no-answer', sent: 'no' });
    }
    expect(sent).toEqual(['delete']);
    await turn(clock, 10_000);
    await until(() => only.mayStart());
    await api.createRule(rule, signal);
    expect(sent).toEqual(['delete', 'create']);
    await only.release();
  });

  it('says once why it cannot be renewed, and after its term does not call itself the holder', async () => {
    const clock = virtualClock();
    const only = lease('one', clock);
    await until(() => only.mayStart());
    server.fault = 500;
    await turn(clock, 120_000);
    expect([only.mayStart(), only.holder()]).toEqual([false, null]);
    expect(warnings).toEqual([['The lease could not be renewed', '500']]);
    server.fault = null;
    await turn(clock, 10_000);
    await until(() => only.mayStart());
    expect(only.holder()).toBe('one');
    server.fault = 403;
    await turn(clock, 10_000);
    expect(warnings.length).toBe(2);
    await only.release();
  });

  it('fault 37: stops in time though the server does not answer at all', async () => {
    const clock = virtualClock();
    const only = lease('one', clock);
    await until(() => only.mayStart());
    const held = only.signal();
    server.fault = 'nothing';
    await turn(clock, 36_000);
    expect([only.mayStart(), held.aborted]).toEqual([false, true]);
    server.fault = null;
    await server.close(); // ends the request that hangs
    await only.release();
  });

  it('of two that write at the same version only one wins', async () => {
    const clock = virtualClock();
    server.hold(2);
    const first = lease('one', clock);
    const second = lease('two', clock);
    await until(() => first.mayStart() || second.mayStart());
    await turn(clock, 20_000);
    expect([first.mayStart(), second.mayStart()].filter(Boolean).length).toBe(1);
    await Promise.all([first.release(), second.release()]);
  });

  it('without permission never becomes the writer', async () => {
    const clock = virtualClock();
    server.refuse.add('one');
    const only = lease('one', clock);
    await turn(clock, 30_000);
    expect(only.mayStart()).toBe(false);
    await only.release();
  });
});
