import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { holdKubernetesLease } from '../../src/adapters/lease/kubernetes.ts';
import type { Lease } from '../../src/controller/lease.ts';
import type { FakeLoop } from './support/fake-loop.ts';
import { defaultSettings, fakeLoop, planOf } from './support/fake-loop.ts';
import type { LeaseServer } from './support/lease-server.ts';
import { startLeaseServer } from './support/lease-server.ts';
import type { VirtualClock } from './support/virtual-clock.ts';
import { virtualClock } from './support/virtual-clock.ts';

let server: LeaseServer;
let folder: string;
let clock: VirtualClock;
let replicas: Replica[];
/** What is in force on the server: the revision whose plan was written last. */
let written: string[];

/** Revisions as a record takes them. */
const [r1, r2, r3, old] = ['1', '2', '3', '0'].map((digit) => digit.repeat(40)) as [string, string, string, string];
const gone = [{ code: 'no-manifests', severity: 'error', summary: 'the directory is empty' }] as const;

interface Replica {
  readonly name: string;
  readonly fake: FakeLoop;
  readonly lease: Lease;
}

beforeEach(async () => {
  server = await startLeaseServer();
  folder = mkdtempSync(path.join(tmpdir(), 'failover-'));
  writeFileSync(path.join(folder, 'token'), 'token\n');
  clock = virtualClock();
  replicas = [];
  written = [];
});

afterEach(async () => {
  for (const { fake } of replicas) fake.stop();
  for (const { fake } of replicas) await Promise.all([step(1000), fake.running]);
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Real requests answer in real time: lets them finish, then lets virtual time go on. */
async function step(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1000) {
    await clock.pass(1000);
    await server.idle();
  }
}

async function until(condition: () => boolean): Promise<void> {
  for (let seconds = 0; !condition(); seconds++) {
    if (seconds > 1200) throw new Error('the condition did not come true');
    await step(1000);
  }
}

/** A replica whose source shows `revision`, and which writes whatever is not in force yet. */
function start(name: string, revision: string, options: { readonly git?: boolean } = {}): Replica {
  let lease: Lease | null = null;
  const fake = fakeLoop({
    ...options,
    replica: {
      clock,
      lease(onChange) {
        lease = holdKubernetesLease({
          ...{ server: server.url, namespace: 'net', name: 'reconcile', identity: name, clock, onChange },
          ...{ tokenFile: path.join(folder, 'token'), caFile: null, onOverlap: () => undefined },
          durationMs: 60_000,
          logger: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
        });
        return lease;
      },
    },
  });
  fake.source = revision;
  fake.answer = ({ content }) => {
    if (written.at(-1) === content.revision) return { kind: 'in-sync' };
    written.push(content.revision);
    return { kind: 'apply', plan: planOf(['+10.0.0.1', '-10.0.0.2']) };
  };
  if (lease === null) throw new Error('no lease was made');
  const replica = { name, fake, lease };
  replicas.push(replica);
  fake.running = fake.loop.run(false);
  return replica;
}

const ready = ({ fake }: Replica) => fake.loop.status().conditions.Ready;
const inSync = (replica: Replica, revision: string) => () =>
  ready(replica).status === 'True' && replica.fake.loop.status().revisions.applied === revision;
const isWriter = ({ fake }: Replica) => fake.loop.status().role === 'writer';

/** The holder loses the lease without ending: it may not renew any more. It goes on as a standby. */
async function handOver(from: Replica, to: Replica): Promise<void> {
  server.refuse.add(from.name);
  await until(() => isWriter(to));
  server.refuse.delete(from.name);
  await until(() => from.fake.loop.status().holder === to.name);
}

/** The source of every replica shows this from now on. */
function publish(source: FakeLoop['source']): void {
  for (const { fake } of replicas) {
    fake.source = source;
    fake.triggers.wake('file');
  }
}

/** First applies r1 as the leader; second takes over and applies r2. */
async function afterHandover(options: { readonly git?: boolean } = {}): Promise<[Replica, Replica]> {
  const first = start('one', r1, options);
  await until(inSync(first, r1));
  const second = start('two', r1, options);
  await step(10_000);
  await handOver(first, second);
  publish(r2);
  await until(inSync(second, r2));
  return [first, second];
}

describe('a failover', () => {
  for (const [kind, options] of [
    ['Git', { git: true }],
    ['directory', {}],
  ] as const) {
    it(`${kind}: does not roll back to what the new leader applied itself before, while the source is gone`, async () => {
      const [first, second] = await afterHandover(options);
      publish(gone);
      await until(() => ready(second).reason === 'SourceFailed');
      await handOver(second, first);
      await until(() => ready(first).reason === 'SourceFailed');
      await step(200_000);
      expect(written).toEqual([r1, r2]);
      // A commit is read again; of a directory nothing is known but the ends in the history.
      const whole = first.fake.requests.filter(({ part }) => part !== 'ends' && part !== 'revocations');
      expect(whole.at(-1)?.content.revision).toBe(kind === 'Git' ? r2 : r1);
      if (kind === 'directory') expect(whole.length).toBe(1);
    });

    it(`${kind}: does not roll back while the newest revision is invalid`, async () => {
      const [first, second] = await afterHandover(options);
      for (const { fake } of replicas) {
        const { answer } = fake;
        fake.answer = (request) => (request.content.revision === r3 ? { kind: 'invalid' } : answer(request));
      }
      publish(r3);
      await until(() => ready(second).reason === 'ManifestsInvalid');
      await handOver(second, first);
      await until(() => ready(first).reason === 'ManifestsInvalid');
      await step(200_000);
      expect(written).toEqual([r1, r2]);
    });
  }

  it('shows at a standby what failed at the replica that leads, by its record, while that one is alive', async () => {
    const first = start('one', r1);
    await until(inSync(first, r1));
    const second = start('two', r1);
    await until(() => second.fake.loop.status().revisions.failed?.length === 0);
    first.fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'failed', status: 422 });
    publish(r2);
    await until(() => ready(first).reason === 'ApplyFailed');
    await step(10_000);
    const revisions = { applied: null, failed: [r2], stuck: r2 };
    expect(second.fake.loop.status()).toMatchObject({ role: 'standby', holder: 'one', revisions });
    server.refuse.add('one');
    server.refuse.add('two');
    await until(() => second.fake.loop.status().holder === null);
    expect(second.fake.loop.status().revisions).toMatchObject({ failed: null, stuck: null });
  });

  it('names no holder of before once this replica leads, though its first pass takes long', async () => {
    const first = start('one', r1, { git: true });
    await until(inSync(first, r1));
    const second = start('two', r1, { git: true });
    await until(() => ready(second).message === 'one holds the lease');
    second.fake.passMs = 20_000;
    server.refuse.add('one');
    await until(() => second.fake.requests.length === 1);
    expect(isWriter(second)).toBe(true);
    expect(ready(second)).toMatchObject({ status: 'Unknown', reason: 'Starting', message: 'no pass has ended yet' });
    await until(inSync(second, r1));
  });

  it('takes a directory whose content has the recorded digest for the revision in force, and goes on with it', async () => {
    const [first, second] = await afterHandover();
    const { answer } = first.fake;
    first.fake.answer = () => ({ kind: 'unreadable', code: 'refused' });
    await handOver(second, first);
    await until(() => ready(first).reason === 'ApiUnreachable');
    publish(gone);
    await until(() => ready(first).reason === 'SourceFailed');
    first.fake.answer = answer;
    written.push(r1); // somebody else's doing
    await until(() => written.at(-1) === r2);
    expect(written).toEqual([r1, r2, r1, r2]);
  });

  it('forgets how long content was stable before the lease was lost: no old policy is written for a second', async () => {
    const first = start('one', r1);
    first.fake.settings = { ...defaultSettings, quietMs: 10_000 };
    await until(inSync(first, r1));
    const second = start('two', r1);
    await step(10_000);
    // What one replica sees changes all the time, also while the lease goes to the other.
    server.refuse.add('one');
    for (let change = 0; !isWriter(second); change++) {
      first.fake.source = `${change}`.padStart(40, '0');
      first.fake.triggers.wake('file');
      await step(5000);
    }
    server.refuse.delete('one');
    await until(() => first.fake.loop.status().holder === 'two');
    publish(r2);
    await until(inSync(second, r2));
    await handOver(second, first);
    await until(inSync(first, r2));
    expect(written).toEqual([r1, r2]);
  });

  it('does not lift the refusal of a rewind', async () => {
    const [first, second] = await afterHandover({ git: true });
    for (const { fake } of replicas) fake.descends = 'no';
    publish(old);
    await until(() => ready(second).reason === 'RewindRefused');
    await handOver(second, first);
    await until(() => ready(first).reason === 'RewindRefused');
    await step(100_000);
    expect(written).toEqual([r1, r2]);
  });

  it('does not defeat --on-drift report: the new leader reports the drift and deletes nothing', async () => {
    const first = start('one', r1);
    await until(inSync(first, r1));
    const second = start('two', r1);
    await step(10_000);
    for (const { fake } of replicas) {
      fake.settings = { ...defaultSettings, onDrift: 'report' };
      fake.answer = () => ({ kind: 'apply', plan: planOf(['-10.9.9.9']) });
    }
    await until(() => ready(first).reason === 'DriftReported');
    await handOver(first, second);
    expect(second.fake.loop.status().drift).toBe(1);
    await until(() => ready(second).reason === 'DriftReported');
    await step(100_000);
    expect(second.fake.applied).toEqual([]);
  });

  it('writes nothing without a record while the newest revision is not good', async () => {
    const [first, second] = await afterHandover({ git: true });
    server.remove();
    publish(gone);
    await until(() => isWriter(first) || isWriter(second));
    await step(200_000);
    expect(written).toEqual([r1, r2]);
    expect(ready(isWriter(first) ? first : second).reason).toBe('SourceFailed');
  });

  it('keeps what a leader that died in the middle had begun, not what it had finished', async () => {
    const first = start('one', r1, { git: true });
    await until(inSync(first, r1));
    const second = start('two', r1, { git: true });
    await step(10_000);
    first.fake.answer = ({ content }) => {
      written.push(content.revision);
      return { kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'failed', status: 500 };
    };
    publish(r2);
    await until(() => ready(first).reason === 'ApplyFailed');
    publish(gone);
    await handOver(first, second);
    await until(() => ready(second).reason === 'SourceFailed');
    expect(second.fake.requests.at(-1)?.content.revision).toBe(r2);
    expect(written).not.toContain(old);
    expect(written.at(-1)).toBe(r2);
  });

  it('applies nothing that a new leader would not know of: the record is written before the first write', async () => {
    const first = start('one', r1);
    await until(inSync(first, r1));
    server.fault = 500;
    publish(r2);
    await step(3000);
    expect(ready(first)).toMatchObject({ status: 'False', reason: 'RecordFailed' });
    expect(written.filter((one) => one === r2).length).toBeGreaterThan(0); // asked for
    expect(first.fake.applied.length).toBe(1); // and not let through
    server.fault = null;
    written.length = 1;
    await until(() => first.fake.applied.length === 2);
    expect(server.lease()?.metadata['annotations']).toMatchObject({
      'firezone-reconcile/record': expect.stringContaining(r2),
    });
  });

  it('says whether the holder is suspended, and how old the knowledge of a standby is', async () => {
    const first = start('one', r1);
    await until(inSync(first, r1));
    const second = start('two', r1);
    await step(10_000);
    first.fake.settings = { ...defaultSettings, suspended: true };
    first.fake.triggers.wake('settings');
    await step(2000);
    expect(JSON.stringify(server.lease()?.metadata)).toContain('\\"suspended\\":true');
    expect(second.fake.loop.isReady()).toBe(true);
    server.fault = 503;
    await step(20_000);
    second.fake.triggers.wake('webhook');
    await step(1000);
    expect(ready(second).message).toMatch(
      /^one held the lease 2\d s ago; since then the lease cannot be renewed \(503\)/,
    );
    expect(second.fake.loop.isReady()).toBe(false);
    server.fault = null;
    await step(10_000);
    expect(second.fake.loop.isReady()).toBe(true);
  });
});

describe('a revision that has to be confirmed (docs/how-to/put-it-back.md)', () => {
  /** Both replicas have confirmed r1; r2 is applied by the first, and nothing there confirms it. */
  async function pushUnconfirmed(options: { readonly git?: boolean } = { git: true }): Promise<[Replica, Replica]> {
    const [first, second] = [start('one', r1, options), start('two', r1, options)];
    for (const { fake } of replicas) fake.settings = { ...defaultSettings, confirmWithinMs: 300_000 };
    await until(() => inSync(first, r1)() || inSync(second, r1)());
    const [holder, other] = isWriter(first) ? [first, second] : [second, first];
    for (const { fake } of replicas) {
      const { answer } = fake;
      fake.answer = (request) =>
        request.back === 'rest' ? { kind: 'unreadable', code: 'no-record' } : answer(request);
      fake.confirms = () => 'it ended with 7';
    }
    publish(r2);
    await until(() => ready(holder).reason === 'AwaitingConfirmation');
    return [holder, other];
  }

  it('confirmWith waiting × takeover of the lease: nothing goes back, and the next holder runs the command itself', async () => {
    const [first, second] = await pushUnconfirmed();
    let asked = 0;
    second.fake.confirms = () => (++asked < 3 ? 'it ended with 1' : null);
    await handOver(first, second);
    expect(written).toEqual([r1, r2]);
    expect(second.fake.loop.status().revisions.applied).toBe(r1);
    await until(inSync(second, r2));
    expect([asked, written]).toEqual([3, [r1, r2]]);
  });

  it('confirmWith waiting × takeover of the lease: the next holder has what is left of the time', async () => {
    const [first, second] = await pushUnconfirmed();
    const { confirmBy } = first.fake.loop.status();
    await handOver(first, second);
    await until(() => ready(second).reason === 'AwaitingConfirmation');
    expect(second.fake.loop.status().confirmBy).toBe(confirmBy);
    await until(() => ready(second).reason === 'NotConfirmed');
    expect(clock.wallTime() - (confirmBy ?? 0)).toBeLessThanOrEqual(2000);
  });

  it('confirmWith waiting × takeover of the lease: where nothing is left of the time, the command has time for one run', async () => {
    const [first, second] = await pushUnconfirmed();
    const { confirmBy } = first.fake.loop.status();
    server.fault = 503;
    first.fake.stop();
    while (clock.wallTime() < (confirmBy ?? 0) + 60_000) await step(10_000);
    server.fault = null;
    await until(() => ready(second).reason === 'AwaitingConfirmation');
    // The packet filter is given ten seconds, and one run takes thirty at most.
    const left = (second.fake.loop.status().confirmBy ?? 0) - clock.wallTime();
    expect([left > 37_000, left <= 40_000]).toEqual([true, true]);
    second.fake.confirms = () => null;
    await until(inSync(second, r2));
    expect(written).toEqual([r1, r2]);
  });

  it('confirmWith waiting × takeover of the lease: the next holder goes back, as the first would have', async () => {
    const [first, second] = await pushUnconfirmed();
    await handOver(first, second);
    await until(() => ready(second).reason === 'NotConfirmed');
    expect(written).toEqual([r1, r2, r1]);
    // The first comes back, and does not try it again.
    await handOver(second, first);
    await until(() => ready(first).reason === 'NotConfirmed');
    await step(100_000);
    expect(written).toEqual([r1, r2, r1]);
    for (const { fake } of replicas) fake.confirms = () => null;
    publish(r3);
    await until(inSync(first, r3));
  });

  it('confirmWith going back × takeover of the lease: the next holder goes on, and ends in the same state', async () => {
    const [first, second] = await pushUnconfirmed();
    const { answer } = first.fake;
    first.fake.answer = (request) =>
      request.back === undefined ? answer(request) : { kind: 'unreadable', code: 'refused' };
    await until(() => ready(first).reason === 'NotConfirmed');
    expect(written).toEqual([r1, r2]);
    second.fake.confirms = () => null; // asked too late: what failed stays failed
    await handOver(first, second);
    await until(() => ready(second).reason === 'NotConfirmed' && written.length === 3);
    await step(100_000);
    expect(written).toEqual([r1, r2, r1]);
  });

  it('confirmWith waiting × SIGTERM: the lease goes over at once, and nothing goes back', async () => {
    const [first, second] = await pushUnconfirmed();
    second.fake.confirms = () => null;
    first.fake.stop();
    await until(inSync(second, r2));
    expect(written).toEqual([r1, r2]);
  });

  it('confirmWith waiting × the Lease is deleted: the same replica leads again, and what nobody confirmed is not confirmed', async () => {
    const [first, second] = await pushUnconfirmed();
    second.fake.stop();
    server.remove();
    await until(() => !isWriter(first));
    await until(() => isWriter(first) && ready(first).reason !== 'Standby');
    await step(10_000);
    expect(ready(first)).toMatchObject({ status: 'False', reason: 'AwaitingConfirmation' });
    expect(first.fake.saved.at(-1)).toMatchObject({ pendingRevision: r2, confirmedRevision: null, isLost: true });
  });

  it('somebody who may only write the Lease cannot have another commit applied by it', async () => {
    const [first, second] = await pushUnconfirmed();
    for (const { fake } of replicas) fake.foreign = old;
    const { annotations = {} } = (server.lease()?.metadata ?? {}) as { annotations?: Record<string, string> };
    const text = String(annotations['firezone-reconcile/record']);
    server.label(
      'firezone-reconcile/record',
      text.replace(`"confirmedRevision":"${r1}`, `"confirmedRevision":"${old}`),
      'annotations',
    );
    await handOver(first, second);
    await step(400_000);
    expect(written).not.toContain(old);
  });
});
