import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PassResult } from '../../src/pass/pass.ts';
import { reconcile } from '../../src/reconcile.ts';
import { kernelUnavailable, pathOf } from './support/namespace.ts';
import { layNetwork, sendAll, type TestNetwork } from './support/network.ts';
import { dropsOf, passOver } from './support/pass.ts';
import { type KernelServer, startKernelServer } from './support/server.ts';

const title = `widening a drop rule under traffic${kernelUnavailable === null ? '' : ` (skipped: ${kernelUnavailable})`}`;
const client = '10.66.0.13';
const dropped = '192.0.2.9';
const other = '192.0.2.20';
/** A gap shorter than the flood's pace lets nothing through: tried until packets passed in one. */
const attempts = 25;

describe.skipIf(kernelUnavailable !== null)(title, () => {
  let network: TestNetwork;
  let server: KernelServer;

  beforeAll(async () => {
    network = layNetwork([client, 'fd66::13'], [dropped, other, '2001:db8:f::9']);
    server = await startKernelServer(network.server);
    await server.settled();
  });

  afterAll(async () => {
    await server?.simulator.close();
    network?.close();
  });

  async function apply(...destinations: readonly string[]): Promise<PassResult> {
    const how = { repair: false, waitMs: 10_000 };
    const { pass, close } = passOver(server, network.server, how);
    try {
      return await reconcile(dropsOf(destinations), pass, async () => true);
    } finally {
      await close();
    }
  }

  /** Applies under a stream of packets to the dropped address; the times at which one of them passed. */
  async function applyUnderFlood(destination: string): Promise<{ result: PassResult; passed: readonly number[] }> {
    const script = fileURLToPath(new URL('support/flood.mjs', import.meta.url));
    const argv = [`--net=${pathOf(network.client)}`, '--', process.execPath, script, client, dropped, '9'];
    const flood = spawn('nsenter', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    await once(flood.stdout, 'data');
    const result = await apply(destination);
    const answers = once(flood.stdout, 'data');
    flood.stdin.end();
    const [line] = (await answers) as [Buffer];
    return { result, passed: JSON.parse(line.toString()) as readonly number[] };
  }

  it('lets packets through only while the exposure lasts, to nothing but what the exposure names', async () => {
    let seen = false;
    for (let attempt = 0; attempt < attempts && !seen; attempt++) {
      await apply(`${dropped}/32`);
      const start = performance.timeOrigin + performance.now();
      const { result, passed } = await applyUnderFlood('192.0.2.0/24');
      const end = performance.timeOrigin + performance.now();
      expect(result.apply?.end).toBe('converged');
      expect(result.kernel?.report.state).toBe('enforced');
      const opened = result.plan?.exposure.filter(({ direction }) => direction === 'opened') ?? [];
      expect(new Set(opened.flatMap(({ traffic }) => traffic.flatMap(({ destinations }) => destinations)))).toEqual(
        new Set([dropped]),
      );
      for (const time of passed) expect(time).toBeGreaterThan(start);
      for (const time of passed) expect(time).toBeLessThan(end);
      seen = passed.length > 0;
      expect(await sendAll(network, [dropped, other].map(probeTo))).toEqual([false, false]);
    }
    expect(seen).toBe(true);
  }, 120_000);

  it('lets not one packet through where the plan has no exposure', async () => {
    for (const next of [`${dropped}/32 udp 9`, `${dropped}/32`]) {
      await apply(next === `${dropped}/32` ? `${dropped}/32 udp 9` : `${dropped}/32`);
      const { result, passed } = await applyUnderFlood(next);
      expect(result.plan?.steps.map(({ type }) => type)).toEqual(['create', 'delete']);
      expect(result.plan?.exposure).toEqual([]);
      expect(passed).toEqual([]);
    }
  }, 60_000);
});

function probeTo(destination: string): { protocol: 'udp'; source: string; destination: string; port: number } {
  return { protocol: 'udp', source: client, destination, port: 9 };
}
