import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  apiToken,
  ensureBuilt,
  makeWorld,
  rules,
  type Sidecar,
  startSidecar,
  until,
  type World,
} from '../controller/support/sidecar.ts';
import { addNamespace, deleteNamespaces, kernelUnavailable, pathOf, runIn } from './support/namespace.ts';

const title = `the controller with --enforcement${kernelUnavailable === null ? '' : ` (skipped: ${kernelUnavailable})`}`;

describe.skipIf(kernelUnavailable !== null)(title, () => {
  let netns = '';
  let world: World;
  let sidecar: Sidecar;

  beforeAll(ensureBuilt);

  beforeEach(async () => {
    netns = addNamespace();
    world = await makeWorld({ nft: { netns: pathOf(netns) } });
    writeFileSync(path.join(world.manifests, 'rules.yaml'), rules('10.1.0.0/16', '10.2.0.0/16'));
  });

  afterEach(async () => {
    await sidecar.stop();
    expect(sidecar.output()).not.toContain(apiToken);
    await world.close();
    deleteNamespaces(netns);
  });

  const start = async (...args: readonly string[]): Promise<void> => {
    const look = ['--enforcement', 'nft', '--netns', pathOf(netns), '--interval', '1s', '--quiet', '50ms'];
    sidecar = await startSidecar(world, [world.manifests, ...look, ...args]);
  };

  it('has a condition Enforced that follows the kernel, and the revision that it holds', async () => {
    await start();
    const good = await sidecar.until(
      ({ conditions, revisions }) => conditions.Enforced?.status === 'True' && revisions.applied !== null,
    );
    expect(good.enforcement).toMatchObject({ missing: 0, stale: 0, extra: 0, structure: 0, elements: 2 });
    expect(good.enforcement?.enforcedRevision).toBe(good.revisions.applied);
    expect(good.enforcement?.lagMs).not.toBeNull();
    runIn(netns, 'nft', 'delete element inet firezone ip_accept { 10.2.0.0/16 }');
    const bad = await sidecar.until((status) => status.conditions.Enforced?.status === 'False');
    expect(bad.conditions.Enforced?.reason).toBe('NotEnforced');
    expect(bad.conditions.Ready.status).toBe('True');
    expect(bad.enforcement?.findings.join()).toContain('10.2.0.0/16');
  }, 60_000);

  it('repairs with --repair what the kernel lost (long)', async () => {
    await start('--repair');
    await sidecar.until((status) => status.conditions.Enforced?.status === 'True');
    runIn(netns, 'nft', 'delete element inet firezone ip_accept { 10.2.0.0/16 }');
    await until(() => world.sim.filter.state().crashes === 1);
    await until(() => world.sim.requests().at(-1)?.method === 'GET' && world.live().length === 2);
    await until(() => world.sim.filter.elements().length === 2);
    await sidecar.until((status) => status.conditions.Enforced?.status === 'True');
    expect(runIn(netns, 'nft', 'list set inet firezone ip_accept')).toContain('10.2.0.0/16');
    expect(world.live()).toEqual(['10.1.0.0/16', '10.2.0.0/16']);
  }, 60_000);
});
