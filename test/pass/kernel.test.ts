import { describe, expect, it } from 'vitest';
import { type Enforcement, reportUnreadable } from '../../src/enforcement/report.ts';
import { waitUntilEnforced, waitUntilStill } from '../../src/pass/kernel.ts';
import type { Clock } from '../../src/ports.ts';

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
