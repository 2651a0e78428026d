import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { GitHost, Upstream } from '../support/git-host.ts';
import { makeUpstream, serveGit } from '../support/git-host.ts';
import type { LeaseServer } from '../support/lease-server.ts';
import { startLeaseServer } from '../support/lease-server.ts';
import type { Sidecar, World } from '../support/sidecar.ts';
import { apiToken, ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../support/sidecar.ts';

const certificates = new URL('../../adapters/api/certificates/', import.meta.url);
const pem = (name: string): string => readFileSync(new URL(name, certificates), 'utf8');

let world: World;
let leases: LeaseServer;
let running: Sidecar[];
let closers: (() => Promise<void> | void)[];

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
  for (const close of closers) await close();
  await leases.close();
  await world.close();
});

async function replica(name: string, lease: string, source: readonly string[]): Promise<Sidecar> {
  const sidecar = await startSidecar(world, [
    ...[...source, '--quiet', '20ms', '--delete-quiet', '20ms', '--rescan', '200ms', '--interval', '1s'],
    ...['--state-dir', path.join(world.folder, name), '--config', path.join(world.folder, 'settings.yaml')],
    ...['--lease', lease, '--lease-duration', '5s', '--timeout', '1s'],
  ]);
  running.push(sidecar);
  return sidecar;
}

/** `first` applied r1 and stands by now; `second` holds the lease. */
interface Handover {
  readonly first: Sidecar;
  readonly second: Sidecar;
}

/** The first applies what is there; it is paused for longer than the lease, and the second takes over. */
async function handOver(lease: string, source: readonly string[]): Promise<Handover> {
  const first = await replica('first', lease, source);
  await first.until(inEffect());
  const second = await replica('second', lease, source);
  await second.until((status) => status.role === 'standby' && status.holder !== null);
  first.child.kill('SIGSTOP');
  await second.until((status) => status.role === 'writer' && inEffect()(status));
  first.child.kill('SIGCONT');
  await first.until((status) => status.role === 'standby' && status.holder !== null);
  return { first, second };
}

const isBroken = (reason: string) => (status: Awaited<ReturnType<Sidecar['status']>>) =>
  status.role === 'writer' && status.conditions.Ready.reason === reason;

describe('failover never rolls the firewall back', () => {
  for (const kind of ['kubernetes', 'file'] as const) {
    const leaseOf = (): string =>
      kind === 'kubernetes' ? 'kubernetes:net/reconcile' : `file:${path.join(world.folder, 'lock')}`;

    const stage = kind === 'kubernetes' ? ' (long)' : '';
    it(`directory, ${kind}: a replica that led before does not write its old policy when the directory has vanished${stage}`, async () => {
      const file = path.join(world.manifests, 'a.yaml');
      writeFileSync(file, rules('10.0.0.1'));
      const { first, second } = await handOver(leaseOf(), [world.manifests]);
      writeFileSync(file, rules('10.0.0.2'));
      await until(() => world.live().join() === '10.0.0.2');
      await second.until(inEffect());
      rmSync(file);
      await second.until(isBroken('SourceFailed'));
      expect(await second.stop()).toBe(0);
      const status = await first.until(isBroken('SourceFailed'));
      const before = status.passes.length;
      await first.until(({ passes }) => passes.length > before);
      expect(world.live()).toEqual(['10.0.0.2']);
      expect(first.output()).not.toContain('Drift is corrected');
      if (kind === 'file') expect(statSync(path.join(world.folder, 'lock.record')).mode & 0o777).toBe(0o600);
      // The content comes back: what it asks for is in effect again, drift is told from it and put right.
      writeFileSync(file, rules('10.0.0.2'));
      await first.until(inEffect());
      expect(world.live()).toEqual(['10.0.0.2']);
    }, 120_000);
  }

  it('Git: a replica that led before enforces the last good commit, not the one that it applied itself (long)', async () => {
    const upstream: Upstream = makeUpstream();
    const host: GitHost = await serveGit(upstream);
    closers.push(
      () => host.close(),
      () => upstream.remove(),
    );
    const source = ['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'];
    upstream.commit({ 'rules.yaml': rules('10.0.0.1') });
    const { first, second } = await handOver('kubernetes:net/reconcile', source);
    const good = upstream.commit({ 'rules.yaml': rules('10.0.0.2') });
    await second.until(inEffect(good));
    upstream.commit({ 'rules.yaml': 'apiVersion: firezone/v0\nkind: Nonsense\n' });
    await second.until(isBroken('ManifestsInvalid'));
    expect(await second.stop()).toBe(0);
    await first.until(isBroken('ManifestsInvalid'));
    expect((await first.status()).revisions.applied).toBe(good);
    expect(world.live()).toEqual(['10.0.0.2']);
    // It reads the commit again, so that it can go on enforcing it.
    const [rule] = world.sim.rules();
    await fetch(`${world.sim.url}/v0/rules/${rule?.id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${apiToken}` },
    });
    await until(() => world.live().join() === '10.0.0.2');
  }, 120_000);

  it('--on-drift report: a new leader reports the drift that the one before reported, and deletes nothing (long)', async () => {
    writeFileSync(path.join(world.manifests, 'a.yaml'), rules('10.0.0.1'));
    const source = [world.manifests, '--on-drift', 'report'];
    const first = await replica('first', 'kubernetes:net/reconcile', source);
    await first.until(inEffect());
    const second = await replica('second', 'kubernetes:net/reconcile', source);
    await second.until((status) => status.role === 'standby' && status.holder !== null);
    await fetch(`${world.sim.url}/v0/rules`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ rule: { action: 'accept', destination: '10.9.9.9' } }),
    });
    await first.until(isBroken('DriftReported'));
    first.child.kill('SIGKILL');
    await second.until(isBroken('DriftReported'));
    expect(world.live()).toEqual(['10.0.0.1', '10.9.9.9']);
  }, 120_000);
});
