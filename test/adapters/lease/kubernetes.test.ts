import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubernetesLeaseSettings } from '../../../src/adapters/lease/kubernetes.ts';
import { holdKubernetesLease, lookAtKubernetesLease } from '../../../src/adapters/lease/kubernetes.ts';
import type { Lease } from '../../../src/controller/lease.ts';
import { describeStandby, guardApi } from '../../../src/controller/lease.ts';
import type { ApiResult, LiveApi } from '../../../src/ports.ts';
import type { LeaseServer } from '../../controller/support/lease-server.ts';
import { startLeaseServer } from '../../controller/support/lease-server.ts';
import type { VirtualClock } from '../../controller/support/virtual-clock.ts';
import { virtualClock } from '../../controller/support/virtual-clock.ts';

const certificates = new URL('../api/certificates/', import.meta.url);
const pem = (name: string): string => readFileSync(new URL(name, certificates), 'utf8');

let server: LeaseServer;
let folder: string;
let warnings: [string, unknown?][];
let hints: string[];
let current: VirtualClock;
let overlaps: number;

beforeEach(async () => {
  warnings = [];
  hints = [];
  overlaps = 0;
  server = await startLeaseServer();
  folder = mkdtempSync(path.join(tmpdir(), 'lease-'));
  writeFileSync(path.join(folder, 'token'), 'token\n');
});

afterEach(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

function lease(identity: string, clock: VirtualClock, settings: Partial<KubernetesLeaseSettings> = {}): Lease {
  current = clock;
  server.wallTime = clock.wallTime;
  return holdKubernetesLease({ ...settingsOf(identity, clock), ...settings });
}

function settingsOf(identity: string, clock: VirtualClock): KubernetesLeaseSettings {
  return {
    server: server.url,
    namespace: 'net',
    name: 'reconcile',
    identity,
    tokenFile: path.join(folder, 'token'),
    caFile: null,
    durationMs: 60_000,
    clock,
    logger: {
      debug: () => undefined,
      info: (message) => void warnings.push([message]),
      warn: (message, fields) => {
        warnings.push([message, fields?.['code']]);
        hints.push(String(fields?.['hint']));
      },
      error: () => undefined,
    },
    onChange: () => undefined,
    onOverlap: () => {
      overlaps += 1;
    },
  };
}

/** Real requests answer in real time: lets them finish, then lets virtual time go on. */
async function turn(clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1000) {
    await clock.pass(1000);
    await server.idle();
  }
}

/** Lets virtual time go on until it holds. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await turn(current, 1000);
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
    expect(warnings).toEqual([
      ['This replica writes now'],
      ['The lease could not be renewed', '500'],
      ['This replica does not write any more'],
    ]);
    warnings.length = 0;
    server.fault = null;
    await turn(clock, 10_000);
    await until(() => only.mayStart());
    expect(only.holder()).toBe('one');
    expect(warnings).toContainEqual(['The lease can be renewed again']);
    server.fault = 403;
    await turn(clock, 10_000);
    expect(hints.at(-1)).toMatch(/check its Role and the token; the API server says: because .+of a 403$/);
    expect(hints.at(-1)).not.toContain('\u001b');
    expect(hints.at(-1)).not.toContain('Bearer token');
    await only.release();
  });

  it('names its holder as long as that may write, though it can only read the Lease any more', async () => {
    const clock = virtualClock();
    const only = lease('one', clock);
    await until(() => only.mayStart());
    server.refuse.add('one');
    await until(() => {
      expect([only.mayStart(), only.holder()]).toEqual(only.mayStart() ? [true, 'one'] : [false, null]);
      return !only.mayStart();
    });
    expect(describeStandby(only)).toMatch(/^the lease cannot be renewed \(403\)/);
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

  it('names its holder no more once that one is silent: a roll-out must not rely on what a dead replica did', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    const second = lease('two', clock);
    await turn(clock, 90_000);
    expect(second.holder()).toBe('one');
    server.refuse.add('one');
    await turn(clock, 10_000);
    expect(second.holder()).toBe('one');
    await turn(clock, 20_000);
    expect([second.holder(), second.mayStart()]).toEqual([null, false]);
    server.refuse.delete('one');
    await turn(clock, 10_000);
    expect(second.holder()).toBe('one');
    await Promise.all([first.release(), second.release()]);
  });

  it('names a holder that renews in time by its own duration, in the eyes of a replica with a shorter one too', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    const second = lease('two', clock, { durationMs: 12_000 });
    await until(() => second.holder() === 'one');
    const seen = new Set<string | null>();
    for (let at = 0; at < 30_000; at += 1000) {
      await turn(clock, 1000);
      seen.add(second.holder());
    }
    expect([...seen]).toEqual(['one']);
    await Promise.all([first.release(), second.release()]);
  });

  it('deleted: the holder stops writing at once, and nobody makes it anew before the holder’s duration is over', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    const second = lease('two', clock);
    await turn(clock, 10_000);
    server.remove();
    let stoppedAt: number | null = null;
    let madeAt: number | null = null;
    for (let at = 0; madeAt === null && at < 200_000; at += 1000) {
      await turn(clock, 1000);
      if (!first.mayWrite()) stoppedAt ??= at;
      expect(first.mayWrite() && second.mayWrite()).toBe(false);
      if (server.lease() !== null) madeAt = at;
    }
    expect(stoppedAt).toBeLessThanOrEqual(5000);
    expect(madeAt).toBeGreaterThanOrEqual(55_000);
    expect(overlaps).toBe(0);
    await Promise.all([first.release(), second.release()]);
  });

  it('deleted just before a replica came that never saw a holder: it waits until the holder must have noticed', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    server.remove();
    const fresh = lease('two', clock);
    for (let at = 0; !fresh.mayStart() && at < 100_000; at += 1000) {
      await turn(clock, 1000);
      expect(first.mayWrite() && fresh.mayWrite()).toBe(false);
    }
    expect(fresh.mayStart()).toBe(true);
    await Promise.all([first.release(), fresh.release()]);
  });

  it('counts an overlap that no scrape would see: another replica took the lease while this one could still write', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    server.steal('two');
    expect(first.mayWrite()).toBe(true);
    await turn(clock, 6000);
    expect([first.mayWrite(), overlaps]).toEqual([false, 1]);
    await first.release();
  });

  it('of a dead holder is taken though somebody keeps editing its metadata', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    const second = lease('two', clock);
    await turn(clock, 10_000);
    server.refuse.add('one');
    let takenAt: number | null = null;
    for (let at = 0; takenAt === null && at < 200_000; at += 5000) {
      server.label('edited', `${at}`);
      await turn(clock, 5000);
      if (second.mayStart()) takenAt = at;
    }
    expect(takenAt).toBeLessThan(75_000);
    await Promise.all([first.release(), second.release()]);
  });

  it('changed by somebody else at the moment of a renewal: is read again at once, kept, and the log says so', async () => {
    const clock = virtualClock();
    const only = lease('one', clock);
    await until(() => only.mayStart());
    const held = only.signal();
    server.onRead = () => {
      server.label('edited', 'between');
      server.onRead = null;
    };
    await turn(clock, 6000);
    expect([only.mayStart(), held.aborted]).toEqual([true, false]);
    expect(warnings.map(([message]) => message)).toContain('The Lease was changed by somebody else at the same moment');
    expect(server.lease()?.metadata['labels']).toEqual({ edited: 'between' });
    await only.release();
  });

  it('holds the record: only its holder writes it, and who takes it over reads it', async () => {
    const clock = virtualClock();
    const first = lease('one', clock);
    await until(() => first.mayStart());
    expect(await first.record?.read()).toBeNull();
    expect(await first.record?.write('mine')).toBe(true);
    const second = lease('two', clock);
    await turn(clock, 10_000);
    expect(await second.record?.write('stolen')).toBe(false);
    expect(second.record?.seen?.()).toBe('mine');
    server.refuse.add('one');
    await turn(clock, 10_000);
    expect(await first.record?.write('refused')).toBe(false);
    await turn(clock, 90_000);
    expect(await second.record?.read()).toBe('mine');
    expect(await second.record?.write('ours now')).toBe(true);
    server.refuse.delete('one');
    await turn(clock, 20_000);
    expect(await first.record?.write('old')).toBe(false);
    expect(server.lease()?.metadata['annotations']).toEqual({ 'firezone-reconcile/record': 'ours now' });
    await second.release();
    await turn(clock, 10_000);
    expect(await first.record?.read()).toBe('ours now');
    await first.release();
  });

  it.each(['dies', 'gives it back'])(
    'keeps the record of a holder that %s though the answer to the write that takes it is lost, also after an earlier lead',
    async (end) => {
      const clock = virtualClock();
      const second = lease('two', clock);
      await until(() => second.mayStart());
      expect(await second.record?.write('of an earlier lead')).toBe(true);
      server.refuse.add('two');
      const first = lease('one', clock);
      await until(() => first.mayStart());
      expect(await first.record?.write('of the holder')).toBe(true);
      server.refuse.delete('two');
      if (end === 'gives it back') await first.release();
      server.refuse.add('one');
      server.lose = 1;
      await until(() => second.mayStart());
      expect([server.lose, await second.record?.read()]).toEqual([0, 'of the holder']);
      await turn(clock, 10_000);
      expect(server.lease()?.metadata['annotations']).toEqual({ 'firezone-reconcile/record': 'of the holder' });
      await Promise.all([first.release(), second.release()]);
    },
  );

  it('does not call the record written where the Lease was taken anew without it: somebody had cleared the holder', async () => {
    const clock = virtualClock();
    const only = lease('one', clock);
    await until(() => only.mayStart());
    expect(await only.record?.write('before')).toBe(true);
    server.steal('');
    expect(await only.record?.write('lost')).toBe(false);
    expect(server.lease()?.metadata['annotations']).toEqual({ 'firezone-reconcile/record': 'before' });
    expect(await only.record?.write('after')).toBe(true);
    expect(server.lease()?.metadata['annotations']).toEqual({ 'firezone-reconcile/record': 'after' });
    await only.release();
  });

  it('reads a renewed token for the next call, and is ready again without a restart', async () => {
    const clock = virtualClock();
    const only = lease('one', clock);
    await until(() => only.mayStart());
    writeFileSync(path.join(folder, 'token'), 'expired\n');
    await turn(clock, 6000);
    expect(only.election().problem).toContain('(401)');
    writeFileSync(path.join(folder, 'token'), 'token\n');
    await turn(clock, 6000);
    expect(only.election()).toMatchObject({ problem: null });
    await only.release();
  });

  it('reads the cluster’s CA anew after its rotation, without a restart', async () => {
    const tls = await startLeaseServer({ cert: pem('localhost.pem'), key: pem('localhost.key') });
    const caFile = path.join(folder, 'ca.pem');
    writeFileSync(caFile, pem('elsewhere.pem'));
    const clock = virtualClock();
    const only = lease('one', clock, { server: tls.url, caFile });
    await until(() => hints.length > 0);
    expect(hints[0]).toContain(`does not fit the CA in ${caFile}`);
    expect(only.mayStart()).toBe(false);
    writeFileSync(caFile, pem('ca.pem'));
    for (let at = 0; at < 20_000 && !only.mayStart(); at += 1000) {
      await clock.pass(1000);
      await tls.idle();
    }
    await until(() => only.mayStart());
    await only.release();
    await tls.close();
  });
});

describe('a look at the lease, by somebody who takes no part', () => {
  const look = (clock: VirtualClock) => lookAtKubernetesLease(settingsOf('nobody', clock));
  const record = (fields: Record<string, unknown>): void => {
    const empty = { format_version: 1, appliedRevision: null, appliedAt: null, knownRules: null };
    server.label('firezone-reconcile/record', JSON.stringify({ ...empty, ...fields }), 'annotations');
  };

  it('tells who holds it, and whether its record says that the holder writes nothing', async () => {
    const clock = virtualClock();
    expect(await look(clock)).toBeNull();
    const holder = lease('one', clock);
    await until(() => holder.mayStart());
    expect(await look(clock)).toEqual({ name: 'one', suspended: false });
    record({ suspended: true });
    expect(await look(clock)).toEqual({ name: 'one', suspended: true });
    // What waits to be confirmed may be taken back, though the holder is suspended.
    record({ suspended: true, pendingRevision: 'a'.repeat(40) });
    expect(await look(clock)).toEqual({ name: 'one', suspended: false });
    record({ suspended: 'yes' });
    expect(await look(clock)).toEqual({ name: 'one', suspended: false });
    await holder.release();
    expect(await look(clock)).toBeNull();
  });

  it('counts a holder that renews no more for twice its time, and takes no lease itself', async () => {
    const clock = virtualClock();
    const holder = lease('one', clock);
    await until(() => holder.mayStart());
    server.refuse.add('one');
    const writes = server.written.length;
    await turn(clock, 110_000);
    expect(await look(clock)).toMatchObject({ name: 'one' });
    await turn(clock, 20_000);
    expect(await look(clock)).toBeNull();
    expect(server.written.length).toBe(writes);
    await holder.release();
  });

  it.each([-180_000, 180_000])(
    'sees one that renews though the clocks of it and of the caller are %d ms off the server’s',
    async (aheadMs) => {
      const clock = virtualClock();
      const off = { ...clock, wallTime: () => clock.wallTime() + aheadMs };
      const holder = lease('one', clock);
      await until(() => holder.mayStart());
      expect(await lookAtKubernetesLease(settingsOf('nobody', off))).toMatchObject({ name: 'one' });
      server.wallTime = off.wallTime;
      await turn(clock, 10_000);
      expect(await look(clock)).toMatchObject({ name: 'one' });
      await holder.release();
    },
  );

  it.each([401, 403, 500, 503])(
    'rejects where the API server answers %d: nobody knows then who writes',
    async (status) => {
      server.fault = status;
      await expect(look(virtualClock())).rejects.toMatchObject({ code: String(status) });
    },
  );
});
