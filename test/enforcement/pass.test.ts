import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PassResult } from '../../src/pass/pass.ts';
import type { SourceContent } from '../../src/ports.ts';
import { reconcile } from '../../src/reconcile.ts';
import { addNamespace, deleteNamespaces, kernelUnavailable } from './support/namespace.ts';
import { dropsOf, passOver } from './support/pass.ts';
import { type KernelServer, startKernelServer, until } from './support/server.ts';

const title = `a pass that looks at the kernel${kernelUnavailable === null ? '' : ` (skipped: ${kernelUnavailable})`}`;

describe.skipIf(kernelUnavailable !== null)(title, () => {
  let netns = '';
  let server: KernelServer;

  beforeEach(() => {
    netns = addNamespace();
  });

  afterEach(async () => {
    await server.simulator.close();
    deleteNamespaces(netns);
  });

  async function run(
    content: SourceContent,
    how: { repair?: boolean; waitMs?: number; plan?: boolean },
  ): Promise<PassResult> {
    const { pass, close } = passOver(server, netns, {
      repair: how.repair ?? false,
      waitMs: how.waitMs ?? null,
    });
    try {
      return await reconcile(content, pass, how.plan === true ? null : async () => true);
    } finally {
      await close();
    }
  }

  it('waits after an apply until the kernel holds it, and says how long that took', async () => {
    server = await startKernelServer(netns, { rate: 40 });
    await server.settled();
    const result = await run(dropsOf(Array.from({ length: 40 }, (_, i) => `10.0.${i}.0/24`)), { waitMs: 20_000 });
    expect(result.end).toBe('applied');
    expect(result.apply?.end).toBe('converged');
    expect(result.kernel?.report.state).toBe('enforced');
    expect(result.kernel?.waitedMs).toBeGreaterThan(300);
    expect((await server.check()).state).toBe('enforced');
  });

  it('says what the kernel lacks when the time is up', async () => {
    server = await startKernelServer(netns, { rate: 5 });
    await server.settled();
    const result = await run(dropsOf(Array.from({ length: 10 }, (_, i) => `10.0.${i}.0/24`)), { waitMs: 300 });
    expect(result.kernel?.report.state).toBe('differs');
    expect(result.problems.map(({ code }) => code)).toContain('kernel-missing');
    expect(result.problems.find(({ code }) => code === 'kernel-missing')?.place?.file).toBe('rules.yaml');
  });

  it('finds a rule that was changed in place stale, plans its replacement, and repairs it', async () => {
    server = await startKernelServer(netns);
    await server.settled();
    const source = dropsOf(['10.1.0.0/16', '10.2.0.0/16']);
    await run(source, { waitMs: 10_000 });
    const [live] = (await server.live()).filter(({ rule }) => rule.destination.text === '10.2.0.0/16');
    await server.call('PATCH', `/v0/rules/${live?.id}`, { rule: { destination: '10.9.0.0/16' } });
    const changed = dropsOf(['10.1.0.0/16', '10.9.0.0/16']);

    const seen = await run(changed, { plan: true });
    expect(seen.end).toBe('in-sync');
    expect(seen.problems.map(({ code }) => code).filter((code) => code.startsWith('kernel-'))).toEqual([
      'kernel-missing',
      'kernel-stale',
    ]);

    const planned = await run(changed, { plan: true, repair: true });
    expect(planned.plan?.changes.map(({ action, reason }) => [action, reason])).toEqual([
      ['keep', 'in-sync'],
      ['update', 'not-enforced'],
    ]);
    expect(server.simulator.requests().filter(({ method }) => method === 'DELETE')).toEqual([]);

    const repaired = await run(changed, { repair: true, waitMs: 20_000 });
    expect(repaired.end).toBe('applied');
    expect(repaired.kernel?.report.findings).toEqual([]);
    expect(repaired.kernel?.report.state).toBe('enforced');
  }, 60_000);

  it('finds inserts that were lost during a rebuild and repairs them all by replacing one rule (long)', async () => {
    server = await startKernelServer(netns, { rate: 30 });
    const destinations = Array.from({ length: 170 }, (_, i) => `10.0.${i}.0/24`);
    server.simulator.seed(destinations.map((destination) => ({ destination })));
    await server.settled();
    const answer = await server.call('POST', '/v0/rules', { rule: { destination: '192.0.2.1' } });
    const { data } = (await answer.json()) as { data: { id: string } };
    await server.settled();
    await server.call('PATCH', `/v0/rules/${data.id}`, { rule: { destination: '192.0.2.2' } });
    await server.call('DELETE', `/v0/rules/${data.id}`);
    await until(() => server.simulator.filter.state().rebuilding);
    const late = [1, 2, 3, 4, 5].map((host) => `198.51.100.${host}`);
    for (const destination of late) await server.call('POST', '/v0/rules', { rule: { destination } });
    await server.settled();
    expect(server.simulator.filter.state().lost).toHaveLength(4);

    const before = server.simulator.requests().length;
    const result = await run(dropsOf([...destinations, ...late]), { repair: true, waitMs: 30_000 });
    const writes = server.simulator
      .requests()
      .slice(before)
      .filter(({ method }) => method !== 'GET');
    expect(writes.map(({ method }) => method)).toEqual(['DELETE', 'POST']);
    expect(result.kernel?.report.state).toBe('enforced');
    expect(server.simulator.filter.state().crashes).toBe(2);
  }, 90_000);

  it('waits for a rebuild only until the kernel holds every rule again (long)', async () => {
    server = await startKernelServer(netns);
    await server.settled();
    const others = Array.from({ length: 20 }, (_, i) => `10.0.${i}.0/24`);
    await run(dropsOf([...others, '10.1.0.0/16']), { waitMs: 10_000 });
    const [live] = (await server.live()).filter(({ rule }) => rule.destination.text === '10.1.0.0/16');
    await server.call('PATCH', `/v0/rules/${live?.id}`, { rule: { destination: '10.3.0.0/16' } });

    // Without a look at the kernel the wait would be ten minutes, longer than the test may take.
    const { pass, close } = passOver(server, netns, {
      repair: false,
      waitMs: 10_000,
    });
    const profile = {
      ...pass.desired.profile,
      filter: { rate: 100, deleteRate: 50, rebuildFloorMs: 600_000, patienceMs: 5000 },
    };
    const result = await reconcile(
      dropsOf([...others, '10.2.0.0/15']),
      { ...pass, desired: { ...pass.desired, profile } },
      async () => true,
    );
    await close();
    expect(result.plan?.steps.map(({ type }) => type)).toEqual(['delete', 'create']);
    expect(result.apply?.end).toBe('converged');
    expect(result.kernel?.report.state).toBe('enforced');
    expect(server.simulator.filter.state()).toMatchObject({ crashes: 1, lost: [] });
  }, 60_000);

  it('does nothing about a kernel that agrees', async () => {
    server = await startKernelServer(netns);
    await server.settled();
    const source = dropsOf(['10.1.0.0/16']);
    await run(source, { waitMs: 10_000 });
    const result = await run(source, { repair: true, waitMs: 1000 });
    expect(result.end).toBe('in-sync');
    expect(result.kernel?.report.state).toBe('enforced');
  });
});
