import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Sidecar, World } from '../controller/support/sidecar.ts';
import { ensureBuilt, inEffect, makeWorld, rules, startSidecar } from '../controller/support/sidecar.ts';
import { type Cluster, isAsked, startCluster } from './cluster.ts';

const namespace = 'firezone-reconcile';
const account = path.resolve(import.meta.dirname, '../../deploy/kubernetes/base/service-account.yaml');
const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/firezone-reconcile`;

describe.skipIf(!isAsked)(
  `replicas on a real API server${isAsked ? '' : ' (skipped: npm run test:kubernetes)'}`,
  () => {
    let cluster: Cluster;
    let world: World;
    let running: Sidecar[];

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
    });

    afterEach(async () => {
      for (const one of running) one.child.kill('SIGKILL');
      await Promise.all(running.map((one) => one.ended()));
      await cluster.call('DELETE', leasePath);
      await world.close();
    });

    /** A replica with a token of the shipped service account. */
    async function startReplica(name: string): Promise<Sidecar> {
      const folder = path.join(world.folder, name);
      mkdirSync(folder);
      writeFileSync(path.join(folder, 'token'), await cluster.token(namespace, 'firezone-reconcile'));
      const settings = { kubernetes: { server: cluster.server, tokenFile: 'token', caFile: cluster.caFile } };
      writeFileSync(path.join(folder, 'settings.yaml'), JSON.stringify(settings));
      const sidecar = await startSidecar(world, [
        ...[world.manifests, '--quiet', '20ms', '--rescan', '300ms', '--interval', '60s'],
        ...['--state-dir', path.join(folder, 'state'), '--config', path.join(folder, 'settings.yaml')],
        ...['--lease', `kubernetes:${namespace}/firezone-reconcile`, '--lease-duration', '8s'],
      ]);
      running.push(sidecar);
      return sidecar;
    }

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
