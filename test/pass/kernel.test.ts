import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Enforcement, reportUnreadable } from '../../src/enforcement/report.ts';
import { waitUntilEnforced, waitUntilStill } from '../../src/pass/kernel.ts';
import type { PassDependencies } from '../../src/pass/pass.ts';
import type { Clock } from '../../src/ports.ts';
import { reconcile } from '../../src/reconcile.ts';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { rule } from '../cli/harness.ts';
import { type VirtualClock, virtualClock } from '../controller/support/virtual-clock.ts';
import { passOver } from '../enforcement/support/pass.ts';
import { token } from '../enforcement/support/server.ts';

/** Time that passes only while somebody sleeps. */
function fakeClock(): Clock {
  let now = 0;
  return {
    now: () => now,
    wallTime: () => now,
    random: () => 0.5,
    sleep: async (ms) => {
      now += ms;
    },
  };
}

/** A kernel that holds `elements(t)` of ten rules at time t. */
function kernel(clock: Clock, elements: (now: number) => number): Enforcement {
  return {
    check: async () => {
      const held = elements(clock.now());
      const base = reportUnreadable('', 10);
      return { ...base, message: null, elements: held, state: held === 10 ? 'enforced' : 'differs' };
    },
  };
}

function waitOf(clock: Clock, kernel: Enforcement, timeoutMs = 60_000): Parameters<typeof waitUntilEnforced>[0] {
  return { kernel, clock, live: [], names: new Map(), timeoutMs, stop: new AbortController().signal };
}

describe('waiting for the kernel', () => {
  it('returns soon after the kernel holds every rule, and says how long that took', async () => {
    const clock = fakeClock();
    let looks = 0;
    const growing = kernel(clock, (now) => {
      looks++;
      return Math.min(10, Math.floor(now / 500));
    });
    const { report, waitedMs } = await waitUntilEnforced(waitOf(clock, growing));
    expect(report.state).toBe('enforced');
    expect(waitedMs).toBeGreaterThanOrEqual(5000);
    expect(waitedMs).toBeLessThanOrEqual(6000);
    expect(looks).toBeGreaterThan(5);
  });

  it('gives up when the time is up, with what is still missing', async () => {
    const clock = fakeClock();
    const { report, waitedMs } = await waitUntilEnforced(
      waitOf(
        clock,
        kernel(clock, () => 9),
        3000,
      ),
    );
    expect(report.state).toBe('differs');
    expect(waitedMs).toBe(3000);
  });

  it('does not wait for a kernel that cannot be read', async () => {
    const clock = fakeClock();
    const { waitedMs } = await waitUntilEnforced(waitOf(clock, { check: async () => reportUnreadable('no nft', 10) }));
    expect(waitedMs).toBe(0);
  });

  it('waits while the number of elements grows, and no longer', async () => {
    const clock = fakeClock();
    const { report, waitedMs } = await waitUntilStill(
      waitOf(
        clock,
        kernel(clock, (now) => Math.min(9, Math.floor(now / 400))),
      ),
    );
    expect(report.elements).toBe(9);
    expect(waitedMs).toBeGreaterThanOrEqual(3600 + 1000);
    expect(waitedMs).toBeLessThanOrEqual(3600 + 3000);
  });
});

describe('a kernel whose looks take long holds up no sidecar', () => {
  let simulator: Simulator;
  let close: () => Promise<void>;
  /** What the first look found live, and how it ends: `hangs` until it is stopped. */
  let liveAtLook: number | null;
  let look: 'hangs' | 'differs' | 'unreadable';
  /** Stands still while the server answers, however long that takes. */
  let clock: VirtualClock;
  /** Told when a look begins, with the signal that ends it. */
  let onLook: (signal: AbortSignal) => void;

  beforeEach(async () => {
    clock = virtualClock();
    // The time of the server, which is this machine's; a rule ends at a whole second.
    clock.suspend(Math.floor(Date.now() / 1000) * 1000 - clock.wallTime());
    [liveAtLook, look, onLook] = [null, 'hangs', () => undefined];
    simulator = await startSimulator({ token });
    close = async () => undefined;
  });

  afterEach(async () => {
    await close();
    await simulator.close();
  });

  const slow: Enforcement = {
    check: async (_live, _names, signal = new AbortController().signal) => {
      liveAtLook ??= simulator.rules().length;
      onLook(signal);
      if (look === 'hangs' && !signal.aborted) await once(signal, 'abort');
      return { ...reportUnreadable('', 1), state: look === 'differs' ? 'differs' : 'unreadable' };
    },
  };

  /** One pass of a sidecar over a rule that is live already and one that ends then. */
  async function run(expires: number, change: Partial<PassDependencies> = {}, repair = false) {
    const times = `, expires: "${new Date(expires).toISOString()}"`;
    const text = rule('a', 'action: drop, destination: 10.1.0.0/16') + rule('b', `${ends}${times}`);
    const bytes = Buffer.from(text);
    const { pass, ...rest } = passOver({ simulator }, '', { repair, waitMs: 15_000 });
    close = rest.close;
    const enforcement = { kernel: slow, repair, waitMs: 15_000, waitInSync: false };
    const sidecar = { ...pass, clock, baseApplied: true, pendingUntil: null, enforcement, ...change };
    const content = { revision: 'r', files: [{ path: 'a.yaml', bytes, hash: text }] };
    return await reconcile(content, sidecar, async () => true);
  }

  /** What a pass comes to whose looks end when this much time has passed since the first began, and not before. */
  async function endsAfter(ms: number, ...asked: Parameters<typeof run>) {
    const looked = new Promise<AbortSignal>((resolve) => {
      onLook = resolve;
    });
    const running = run(...asked);
    const signal = await looked;
    await clock.pass(ms - 1);
    expect(signal.aborted).toBe(false);
    await clock.pass(1);
    expect(signal.aborted).toBe(true);
    const { end, kernel } = await running;
    return [end, kernel?.report.state];
  }

  const ends = 'action: accept, destination: 10.2.0.0/16';
  const both = ['10.1.0.0/16', '10.2.0.0/16'];
  const seed = (): void =>
    void simulator.seed(both.map((destination, index) => ({ destination, action: index === 0 ? 'drop' : 'accept' })));

  it.each([
    ['what has ended is deleted', {}],
    ['what has ended is deleted by a pass over times', { part: 'boundaries' as const }],
  ])('%s before anybody looks', async (_, change) => {
    seed();
    look = 'unreadable';
    const { apply } = await run(clock.wallTime() - 1000, { ...change, agreedAt: clock.wallTime() - 60_000 });
    expect([apply?.end, liveAtLook, simulator.rules().length]).toEqual(['converged', 1, 1]);
  });

  it.each([
    ['', false],
    [', with --repair too', true],
  ])('what is taken back is written before anybody looks%s', async (_, repair) => {
    look = 'unreadable';
    const { options } = passOver({ simulator }, '', { repair, waitMs: null }).pass;
    await run(clock.wallTime() + 60_000, { options: { ...options, goesBack: true } }, repair);
    expect([liveAtLook, simulator.rules().length]).toEqual([2, 2]);
  });

  it('a look that hangs ends when a rule ends', async () => {
    seed();
    expect(await endsAfter(1000, clock.wallTime() + 1000)).toEqual(['in-sync', 'unreadable']);
  });

  it('a look that hangs ends when it is time to go back, and is short once that is over', async () => {
    seed();
    const never = clock.wallTime() + 3_600_000;
    await endsAfter(1000, never, { pendingUntil: clock.wallTime() + 1000 });
    await close();
    await endsAfter(500, never, { pendingUntil: clock.wallTime() - 1000 });
  });

  it('the wait for the filter after an apply ends when a rule ends, with what was seen last', async () => {
    look = 'differs';
    expect(await endsAfter(2000, clock.wallTime() + 2000)).toEqual(['applied', 'differs']);
  });
});
