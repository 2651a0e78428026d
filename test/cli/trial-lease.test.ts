import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/adapters/clock.ts';
import { holdKubernetesLease } from '../../src/adapters/lease/kubernetes.ts';
import type { Lease } from '../../src/controller/lease.ts';
import { type LeaseServer, startLeaseServer } from '../controller/support/lease-server.ts';
import { ensureBuilt, until } from '../controller/support/sidecar.ts';
import { type CliRun, ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

let world: World;
let leases: LeaseServer;
let holder: Lease;
let env: Readonly<Record<string, string>>;

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await startWorld();
  leases = await startLeaseServer();
  const tokenFile = world.write('lease-token', 'token\n');
  world.write('settings.yaml', `kubernetes: {server: "${leases.url}", tokenFile: lease-token}\n`);
  env = {
    ...{ RECONCILE_CONFIG: join(world.folder, 'settings.yaml'), RECONCILE_STATE_DIR: join(world.folder, 'state') },
    ...{ RECONCILE_LEASE: 'kubernetes:net/reconcile', PATH: process.env['PATH'] ?? '' },
  };
  world.write('m/rules.yaml', rule('a', 'action: drop, destination: 10.1.0.0/16'));
  expect((await run('m')).code).toBe(0);
  world.write('m/rules.yaml', ['10.1.0.0/16', '10.2.0.0/16', '10.3.0.0/16'].map(drop).join(''));
  holder = holdKubernetesLease({
    ...{ server: leases.url, namespace: 'net', name: 'reconcile', identity: 'sidecar-7', tokenFile, caFile: null },
    durationMs: 6000,
    clock: systemClock,
    logger: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    ...{ onChange: () => {}, onOverlap: () => {} },
  });
  await until(() => holder.mayStart());
});

afterEach(async () => {
  await holder.release();
  await leases.close();
  await world.close();
});

const drop = (destination: string, index: number): string =>
  rule(`r${index}`, `action: drop, destination: ${destination}`);
const run = (...args: readonly string[]): Promise<CliRun> => world.cli(args, { env });
const apply = (command = 'true', ...flags: readonly string[]): Promise<CliRun> =>
  run('apply', '--yes', '--confirm-with', command, '--confirm-within', '300ms', '--concurrency', '1', ...flags, 'm');
const live = (): number => world.simulator.rules().length;
const pendingFile = (): string => join(world.folder, 'state/reconcile/oneshot/pending.json');

/** Keeps a record beside the lease, as its holder does. */
async function record(fields: Readonly<Record<string, unknown>>): Promise<void> {
  const empty = { format_version: 1, appliedRevision: null, appliedAt: null, knownRules: null };
  expect(await holder.record?.write(JSON.stringify({ ...empty, ...fields }))).toBe(true);
}

/** An apply whose process was killed while it waited, and whose time is over. */
async function killedInTime(): Promise<void> {
  await record({ suspended: true });
  const flags = ['apply', '--yes', '--confirm-with', 'false', '--confirm-within', '60s', 'm'];
  const given = { ...env, RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
  const child = spawnReconcile(flags, { cwd: world.folder, env: given });
  const end = ended(child);
  await until(() => existsSync(pendingFile()) && JSON.parse(readFileSync(pendingFile(), 'utf8')).until !== null);
  child.kill('SIGKILL');
  await end;
  writeFileSync(pendingFile(), JSON.stringify({ ...JSON.parse(readFileSync(pendingFile(), 'utf8')), until: 1 }));
}

describe('a Lease of Kubernetes that another process holds', () => {
  it('an apply to be confirmed × a sidecar that holds the lease: it is refused, and nothing is written', async () => {
    const refused = await apply();
    expect([refused.code, refused.err, live()]).toEqual([3, expect.stringContaining('sidecar-7 holds the lease'), 1]);
    await record({ suspended: false });
    expect([(await apply()).code, live(), existsSync(pendingFile())]).toEqual([3, 1, false]);
  });

  it('an apply to be confirmed × a Lease that somebody deleted: it is not refused, as long as nobody has made it again', async () => {
    leases.refuse.add('sidecar-7');
    leases.remove();
    expect([(await apply()).code, live()]).toEqual([0, 3]);
    leases.refuse.delete('sidecar-7');
    await until(() => leases.lease() !== null);
    expect([(await apply()).code, live()]).toEqual([3, 3]);
  });

  it('is no obstacle once its record says that the holder is suspended, and stays with the holder', async () => {
    await record({ suspended: true });
    expect([(await apply('false')).code, live()]).toEqual([3, 1]);
    expect([(await apply()).code, live(), holder.mayWrite()]).toEqual([0, 3, true]);
  });

  it('is looked at again before each write: nothing more is sent once it cannot be read', async () => {
    await record({ suspended: true });
    let writes = 0;
    world.simulator.onCall(({ method }) => {
      if (method !== 'GET' && ++writes === 1) leases.fault = 503;
    });
    expect([(await apply('true', '--total-timeout', '1s')).code, writes]).toEqual([5, 1]);
    leases.fault = null;
  });

  it('going back × a lease that cannot be read: it says so, and tries again until it can', async () => {
    await record({ suspended: true });
    let said = '';
    let writes = 0;
    world.simulator.onCall(({ method }) => {
      if (method !== 'GET' && ++writes === 3) leases.fault = 503;
    });
    const onStderr = (text: string): void => {
      said += text;
      if (said.includes('tried again and again')) leases.fault = null;
    };
    const flags = ['apply', '--yes', '--confirm-with', 'false', '--confirm-within', '300ms', '--concurrency', '1', 'm'];
    const back = await world.cli(flags, { env, onStderr });
    expect([back.code, live()], back.err).toEqual([3, 1]);
    expect(back.err).toContain('Not gone back yet: not sent: the lease cannot be read; nobody knows who holds it');
  });

  it('refuses where the API server does not answer as it should: nobody knows who writes', async () => {
    await record({ suspended: true });
    leases.fault = 403;
    const refused = await apply();
    expect([refused.code, refused.err, live()]).toEqual([1, expect.stringContaining('it cannot be read'), 1]);
    leases.fault = null;
  });

  it('confirmWith waiting × an apply to be confirmed: it is refused though the sidecar is suspended', async () => {
    await record({ suspended: true, pendingRevision: 'a'.repeat(40) });
    const refused = await apply();
    expect([refused.code, live()]).toEqual([3, 1]);
    expect(refused.err).toContain('one that is suspended may go back as long as its revision waits to be confirmed');
  });

  it('waiting, going back × kill -9, and a sidecar that took the lease: refused until that one is suspended', async () => {
    await killedInTime();
    await record({ suspended: false });
    for (const args of [['m'], ['confirm'], ['undo']]) {
      const refused = await run(...args);
      expect([refused.code, refused.err, live()]).toEqual([3, expect.stringContaining('sidecar-7 holds the lease'), 3]);
    }
    await record({ suspended: true });
    expect([(await run('confirm')).code, live()]).toEqual([3, 1]);
  });

  it('waiting × kill -9, and a lease that cannot be read: the next start tries again until its deadline, and names what is open', async () => {
    await killedInTime();
    leases.fault = 503;
    const late = await run('m', '--total-timeout', '1s');
    expect([late.code, late.err, live()]).toEqual([
      5,
      expect.stringMatching(/Not as before: .*drop 10\.2\.0\.0\/16/),
      3,
    ]);
    let said = '';
    const onStderr = (text: string): void => {
      said += text;
      if (said.includes('tried again and again')) leases.fault = null;
    };
    const back = await world.cli(['confirm'], { env, onStderr });
    expect([back.code, live()], back.err).toEqual([3, 1]);
  });

  it('undo × takeover of the lease: it is done, and the note names the new holder', async () => {
    await record({ suspended: true });
    expect((await apply()).code).toBe(0);
    world.simulator.onCall(({ method }) => {
      if (method === 'DELETE') leases.steal('sidecar-8');
    });
    const undone = await run('undo', '--yes');
    expect([undone.code, live(), undone.err]).toEqual([0, 1, expect.stringContaining('sidecar-8 holds the lease')]);
  });
});
