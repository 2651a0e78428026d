import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Status } from '../../src/controller/status.ts';
import { makeUpstream, serveGit } from '../controller/support/git-host.ts';
import type { Sidecar, World } from '../controller/support/sidecar.ts';
import {
  apiToken,
  ensureBuilt,
  inEffect,
  makeWorld,
  rules,
  startSidecar,
  until,
} from '../controller/support/sidecar.ts';
import { type Cluster, isAsked, startCluster } from './cluster.ts';

const namespace = 'firezone-reconcile';
const account = path.resolve(import.meta.dirname, '../../deploy/kubernetes/base/service-account.yaml');
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/firezone-reconcile`;

interface LeaseObject {
  readonly metadata: { readonly annotations?: Record<string, string>; readonly labels?: Record<string, string> };
}

describe.skipIf(!isAsked)(
  `replicas on a real API server${isAsked ? '' : ' (skipped: npm run test:kubernetes)'}`,
  () => {
    let cluster: Cluster;
    let world: World;
    let running: Sidecar[];
    /** Of the settings file, beside where the API server is. */
    let extra: Readonly<Record<string, unknown>>;

    beforeAll(async () => {
      ensureBuilt();
      cluster = await startCluster();
      cluster.kubectl(['create', 'namespace', namespace]);
      cluster.kubectl(['apply', '--server-side', '--validate=strict', '-n', namespace, '-f', account]);
      // The shipped binding names its subject as kustomize completes it.
      const subject = [{ kind: 'ServiceAccount', name: 'firezone-reconcile', namespace }];
      const patch = JSON.stringify([{ op: 'replace', path: '/subjects', value: subject }]);
      cluster.kubectl(['patch', 'rolebinding', 'firezone-reconcile', '-n', namespace, '--type=json', '-p', patch]);
    }, 900_000);

    afterAll(() => cluster?.close());

    beforeEach(async () => {
      world = await makeWorld();
      running = [];
      extra = {};
    });

    afterEach(async () => {
      for (const one of running) one.child.kill('SIGKILL');
      await Promise.all(running.map((one) => one.ended()));
      await cluster.call('DELETE', leasePath);
      await world.close();
    });

    /** A replica with a token of the shipped service account; by default over the world's directory. */
    async function startReplica(name: string, ...options: readonly string[]): Promise<Sidecar> {
      const folder = path.join(world.folder, name);
      mkdirSync(folder);
      writeFileSync(path.join(folder, 'token'), await cluster.token(namespace, 'firezone-reconcile'));
      const settings = { ...extra, kubernetes: { server: cluster.server, tokenFile: 'token', caFile: cluster.caFile } };
      writeFileSync(path.join(folder, 'settings.yaml'), JSON.stringify(settings));
      const sidecar = await startSidecar(world, [
        ...(options.includes('--git-url') ? [] : [world.manifests, '--quiet', '20ms', '--delete-quiet', '20ms']),
        ...['--rescan', '300ms', '--interval', '1s', '--timeout', '2s', ...options],
        ...['--state-dir', path.join(folder, 'state'), '--config', path.join(folder, 'settings.yaml')],
        ...['--lease', `kubernetes:${namespace}/firezone-reconcile`, '--lease-duration', '8s'],
      ]);
      running.push(sidecar);
      return sidecar;
    }

    const isWriter = ({ role }: Status): boolean => role === 'writer';
    const isStandby = ({ role, holder }: Status): boolean => role === 'standby' && holder !== null;
    const isBroken = (reason: string) => (status: Status) =>
      isWriter(status) && status.conditions.Ready.reason === reason;
    const write = (...destinations: readonly string[]): void =>
      writeFileSync(path.join(world.manifests, 'a.yaml'), rules(...destinations));
    const readLease = async () => (await cluster.call('GET', leasePath)).body as unknown as LeaseObject;
    const fromServer = (method: string, where: string, body?: unknown) =>
      fetch(`${world.sim.url}/v0${where}`, {
        method,
        headers: { authorization: `Bearer ${apiToken}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });

    /** One leads and the other stands by. */
    async function startTwo(...options: readonly string[]): Promise<[Sidecar, Sidecar]> {
      const first = await startReplica('first', ...options);
      await first.until(inEffect());
      const second = await startReplica('second', ...options);
      await second.until(isStandby);
      return [first, second];
    }

    /** The first applied what is there, was paused for longer than the lease, and stands by now; the second leads. */
    async function handOver(first: Sidecar, second: Sidecar): Promise<void> {
      first.child.kill('SIGSTOP');
      await second.until(isWriter);
      first.child.kill('SIGCONT');
      await first.until(isStandby);
    }

    it('a replica that led before does not write its old policy when the directory has vanished', async () => {
      write('10.0.0.1');
      const [first, second] = await startTwo();
      await handOver(first, second);
      write('10.0.0.2');
      await until(() => world.live().join() === '10.0.0.2');
      await second.until(inEffect());
      const record = (await readLease()).metadata.annotations?.['firezone-reconcile/record'] ?? '';
      expect(JSON.parse(record)).toMatchObject({ format_version: 1, suspended: false });
      expect(record).not.toContain('10.0.0.2');
      rmSync(path.join(world.manifests, 'a.yaml'));
      await second.until(isBroken('SourceFailed'));
      expect(await second.stop()).toBe(0);
      const { passes } = await first.until(isBroken('SourceFailed'));
      await first.until((status) => status.passes.length > passes.length);
      expect(world.live()).toEqual(['10.0.0.2']);
    }, 180_000);

    it('Git: a new leader enforces the last good commit while the newest is invalid, and refuses the same rewind', async () => {
      const upstream = makeUpstream();
      const host = await serveGit(upstream);
      try {
        upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
        const source = ['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'];
        const [first, second] = await startTwo(...source);
        await handOver(first, second);
        const good = upstream.commit({ 'rules.yaml': rules('10.0.0.2') });
        await second.until(inEffect(good));
        upstream.commit({ 'rules.yaml': 'apiVersion: firezone/v0\nkind: Nonsense\n' });
        await second.until(isBroken('ManifestsInvalid'));
        expect(await second.stop()).toBe(0);
        expect((await first.until(isBroken('ManifestsInvalid'))).revisions.applied).toBe(good);
        expect(world.live()).toEqual(['10.0.0.2']);
        await fromServer('DELETE', `/rules/${world.sim.rules()[0]?.id}`);
        await until(() => world.live().join() === '10.0.0.2');
        // A new process, without any clone, is told what was applied by the record alone.
        upstream.git('checkout', '-q', '--orphan', 'other');
        upstream.commit({ 'rules.yaml': rules('10.0.0.3') });
        upstream.git('branch', '-q', '-f', 'main', 'HEAD');
        await first.until(isBroken('RewindRefused'));
        expect(await first.stop()).toBe(0);
        const third = await startReplica('third', ...source);
        await third.until(isBroken('RewindRefused'));
        expect(world.live()).toEqual(['10.0.0.2']);
      } finally {
        await host.close();
        upstream.remove();
      }
    }, 180_000);

    it('--on-drift report: a new leader reports the drift and deletes nothing', async () => {
      write('10.0.0.1');
      const [first, second] = await startTwo('--on-drift', 'report');
      await fromServer('POST', '/rules', { rule: { action: 'accept', destination: '10.9.9.9' } });
      await first.until(isBroken('DriftReported'));
      first.child.kill('SIGKILL');
      await second.until(isBroken('DriftReported'));
      expect(world.live()).toEqual(['10.0.0.1', '10.9.9.9']);
    }, 180_000);

    it('deleted: the holder stops at once, and the Lease is not made anew before its duration is over', async () => {
      write('10.0.0.1');
      const both = await startTwo();
      const deletedAt = performance.now();
      await cluster.call('DELETE', leasePath);
      let writers = 0;
      let stoppedAt: number | null = null;
      await until(async () => {
        const roles = await Promise.all(both.map(async (one) => (await one.status()).role));
        const count = roles.filter((role) => role === 'writer').length;
        writers = Math.max(writers, count);
        if (count === 0) stoppedAt ??= performance.now();
        return stoppedAt !== null && count > 0;
      });
      expect(writers).toBe(1);
      expect((stoppedAt ?? 0) - deletedAt).toBeLessThan(4000);
      expect(performance.now() - deletedAt).toBeGreaterThanOrEqual(7000);
      for (const one of both) expect(await one.metrics()).toContain('reconcile_lease_overlaps_total 0');
    }, 180_000);

    it('deleted while a revision waits to be confirmed: the replica that leads again does not take it for confirmed', async () => {
      const upstream = makeUpstream();
      const host = await serveGit(upstream);
      try {
        const bad = path.join(world.folder, 'bad');
        extra = { confirmWith: { command: ['sh', '-c', `test ! -e ${bad}`], within: '15s' } };
        upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
        const source = ['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'];
        const only = await startReplica('first', ...source);
        await only.until(inEffect());
        writeFileSync(bad, '');
        upstream.commit({ 'rules.yaml': rules('10.0.0.2') });
        await only.until(isBroken('AwaitingConfirmation'));
        await cluster.call('DELETE', leasePath);
        await only.until((status) => !isWriter(status));
        const again = await only.until((status) => isWriter(status) && status.conditions.Ready.status !== 'Unknown');
        expect(again.conditions.Ready.status).toBe('False');
        await only.until(isBroken('NotConfirmed'));
        expect(world.live()).toEqual(['10.0.0.1']);
      } finally {
        await host.close();
        upstream.remove();
      }
    }, 180_000);

    it('after the rotation of the cluster’s CA there is a writer again without a restart, and /readyz follows', async () => {
      write('10.0.0.1');
      const [first, second] = await startTwo();
      const probe = async (one: Sidecar): Promise<number> => (await fetch(`${one.url}/readyz`)).status;
      expect([await probe(first), await probe(second)]).toEqual([200, 200]);
      await cluster.kill();
      await until(async () => (await probe(first)) === 503 && (await probe(second)) === 503);
      await cluster.rotate();
      await until(async () => (await probe(first)) === 200 && (await probe(second)) === 200);
      const writers = (await Promise.all([first.status(), second.status()])).filter(isWriter);
      expect(writers.length).toBe(1);
      const said = [...first.log(), ...second.log()].map(({ msg }) => msg);
      expect(said).toContain('The lease can be renewed again');
    }, 180_000);

    it('of a dead holder is taken though its metadata is edited all the time, and a living one keeps it', async () => {
      write('10.0.0.1');
      const [first, second] = await startTwo();
      const edit = (count: number) =>
        cluster.call('PATCH', leasePath, { metadata: { labels: { edited: `${count}` } } }).catch(() => null);
      const from = performance.now();
      for (let count = 0; performance.now() - from < 16_000; count++) {
        await edit(count);
        expect((await second.status()).role).toBe('standby');
      }
      expect((await first.status()).role).toBe('writer');
      first.child.kill('SIGKILL');
      await first.ended();
      const killedAt = performance.now();
      for (let count = 0; (await second.status()).role !== 'writer'; count++) {
        await edit(count);
        if (performance.now() - killedAt > 60_000) throw new Error('the dead holder was kept alive');
      }
      expect((await readLease()).metadata.labels).toHaveProperty('edited');
    }, 180_000);

    it('without permission says so in the API server’s own words, and goes on once it is back', async () => {
      write('10.0.0.1');
      const binding = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings/firezone-reconcile`;
      const { body } = await cluster.call('GET', binding);
      await cluster.call('DELETE', binding);
      const only = await startReplica('first');
      const words = 'cannot get resource';
      await until(() => only.log().some(({ hint }) => String(hint).includes(words)));
      expect(String(only.log().find(({ hint }) => String(hint).includes(words))?.['hint'])).toContain('check its Role');
      expect(world.live()).toEqual([]);
      const { resourceVersion: _version, uid: _uid, ...metadata } = body['metadata'] as Record<string, unknown>;
      expect((await cluster.call('POST', path.dirname(binding), { ...body, metadata })).status).toBe(201);
      await only.until(inEffect());
    }, 180_000);

    it('one writes; when it is killed the other takes over after the term', async () => {
      writeFileSync(path.join(world.manifests, 'a.yaml'), rules('10.0.0.1'));
      const first = await startReplica('first');
      await first.until(inEffect());
      const second = await startReplica('second');
      await second.until(({ role, holder }) => role === 'standby' && holder !== null);
      first.child.kill('SIGKILL');
      await first.ended();
      writeFileSync(path.join(world.manifests, 'a.yaml'), rules('10.0.0.1', '10.0.0.2'));
      await second.until(({ role }) => role === 'writer');
      await second.until(inEffect());
      expect(world.live()).toEqual(['10.0.0.1', '10.0.0.2']);
      expect(await second.stop()).toBe(0);
      const lease = (await cluster.call('GET', leasePath)).body['spec'] as Record<string, unknown>;
      expect(lease['holderIdentity'] ?? '').toBe('');
    }, 120_000);

    it('the shipped Role allows the Lease and nothing else', async () => {
      const token = await cluster.token(namespace, 'firezone-reconcile');
      const status = async (method: string, where: string, body?: unknown): Promise<number> =>
        (await cluster.call(method, where, body, token)).status;
      const lease = {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'firezone-reconcile' },
        spec: {},
      };
      const leases = path.dirname(leasePath);
      expect(await status('POST', leases, lease)).toBe(201);
      expect(await status('GET', leasePath)).toBe(200);
      expect(await status('DELETE', leasePath)).toBe(403);
      expect(await status('GET', leases)).toBe(403);
      expect(await status('GET', `/api/v1/namespaces/${namespace}/secrets`)).toBe(403);
    });
  },
);
