import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { holdKubernetesLease } from '../../src/adapters/lease/kubernetes.ts';
import type { Lease } from '../../src/controller/lease.ts';
import type { Answer, FakeLoop } from '../controller/support/fake-loop.ts';
import { fakeLoop, planOf } from '../controller/support/fake-loop.ts';
import { startLeaseServer } from '../controller/support/lease-server.ts';
import { virtualClock } from '../controller/support/virtual-clock.ts';
import { runs } from './runs.ts';

/** What happens to two replicas, their lease and their source. */
type Deed =
  | { readonly kind: 'publish'; readonly what: 'good' | 'bad' | 'gone' }
  | { readonly kind: 'restart'; readonly replica: 0 | 1 }
  | { readonly kind: 'wait'; readonly seconds: number }
  | { readonly kind: 'hand-over' | 'pause' | 'drift' | 'delete-lease' | 'edit-lease' | 'server-fails' };

const replica = fc.constantFrom<(0 | 1)[]>(0, 1);
const deed: fc.Arbitrary<Deed> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('publish' as const),
      what: fc.constantFrom('good' as const, 'bad' as const, 'gone' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('hand-over' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), replica }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), seconds: fc.integer({ min: 1, max: 100 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'pause' as const,
        'drift' as const,
        'delete-lease' as const,
        'edit-lease' as const,
        'server-fails' as const,
      ),
    }),
  },
);

const idOf = (revision: number): string => revision.toString(16).padStart(40, '0');

/** Two replicas in virtual time. `written` is every revision that was let through, in order; `both`: two could write at once. */
async function play(deeds: readonly Deed[], git: boolean) {
  const server = await startLeaseServer();
  const folder = mkdtempSync(path.join(tmpdir(), 'failovers-'));
  writeFileSync(path.join(folder, 'token'), 'token\n');
  const clock = virtualClock();
  const written: number[] = [];
  let newest = 1;
  let shown: FakeLoop['source'] = idOf(1);
  let isBad = false;
  let inForce = 0;
  let both = false;
  let names = 0;

  const answer = ({ content }: { readonly content: { readonly revision: string } }): Answer => {
    const revision = Number.parseInt(content.revision, 16);
    if (isBad && revision === newest) return { kind: 'invalid' };
    if (inForce === revision) return { kind: 'in-sync' };
    return {
      kind: 'apply',
      plan: planOf(['+10.0.0.1']),
      // Asked for once the plan was let through: this is the write.
      get end() {
        written.push(revision);
        inForce = revision;
        return 'converged' as const;
      },
    };
  };
  const startReplica = () => {
    const name = `replica-${names++}`;
    const found: Lease[] = [];
    const fake = fakeLoop({
      git,
      replica: {
        clock,
        lease(onChange) {
          const lease = holdKubernetesLease({
            ...{ server: server.url, namespace: 'net', name: 'reconcile', identity: name, clock, onChange },
            ...{ tokenFile: path.join(folder, 'token'), caFile: null, onOverlap: () => undefined },
            durationMs: 60_000,
            logger: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
          });
          found.push(lease);
          return lease;
        },
      },
    });
    fake.source = shown;
    fake.answer = answer;
    fake.running = fake.loop.run(false);
    const [lease] = found;
    if (lease === undefined) throw new Error('no lease was made');
    return { name, fake, lease };
  };
  const replicas = [startReplica(), startReplica()];
  const step = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed++) {
      await clock.pass(1000);
      await server.idle();
      both ||= replicas.every(({ lease }) => lease.mayWrite());
    }
  };
  const act = async (one: Deed): Promise<void> => {
    switch (one.kind) {
      case 'publish':
        if (one.what !== 'gone') newest += 1;
        isBad = one.what === 'bad';
        shown = one.what === 'gone' ? [{ code: 'no-manifests', severity: 'error', summary: 'gone' }] : idOf(newest);
        for (const { fake } of replicas) {
          fake.source = shown;
          fake.triggers.wake('file');
        }
        break;
      case 'hand-over': {
        const name = replicas.find(({ lease }) => lease.mayStart())?.name ?? '';
        server.refuse.add(name);
        await step(100);
        server.refuse.delete(name);
        break;
      }
      case 'restart': {
        const before = replicas[one.replica];
        before?.fake.stop();
        await Promise.all([step(1), before?.fake.running]);
        replicas[one.replica] = startReplica();
        break;
      }
      case 'pause':
        clock.skip(70_000);
        break;
      case 'wait':
        await step(one.seconds);
        break;
      case 'drift':
        inForce = 0;
        break;
      case 'delete-lease':
        server.remove();
        break;
      case 'edit-lease':
        server.label('edited', String(clock.now()));
        break;
      case 'server-fails':
        server.fault = 500;
        await step(20);
        server.fault = null;
        break;
    }
    await step(1);
  };
  try {
    for (const one of deeds) await act(one);
    await step(200);
    const rolledBack = written.filter((revision, index) => written.slice(0, index).some((before) => before > revision));
    return { written, rolledBack, both, newest, isBad, isGone: typeof shown !== 'string', inForce };
  } finally {
    for (const { fake } of replicas) fake.stop();
    await Promise.all([step(2), ...replicas.map(({ fake }) => fake.running)]);
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

describe('whatever happens to two replicas, their lease and their source', () => {
  it('no older policy is ever written after a newer one, never may two write, and a good newest revision comes into effect', async () => {
    const oneCase = fc.asyncProperty(
      fc.array(deed, { maxLength: 16, size: 'max' }),
      fc.boolean(),
      async (deeds, git) => {
        const end = await play(deeds, git);
        expect({ rolledBack: end.rolledBack, both: end.both }).toEqual({ rolledBack: [], both: false });
        if (!end.isBad && !end.isGone) expect(end.inForce).toBe(end.newest);
      },
    );
    await fc.assert(oneCase, { numRuns: runs(100) });
  }, 600_000);
});
