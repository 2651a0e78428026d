import { describe, expect, it } from 'vitest';
import { createTriggers } from '../../src/controller/trigger.ts';
import type { Clock } from '../../src/ports.ts';

/** A clock whose wall time may be another than its timers know; `jumps` are set after so many sleeps, in ms. */
function clockWith(jumps: Readonly<Record<number, number>>) {
  let [passed, wall, sleeps] = [0, 1_000_000, 0];
  const clock: Clock = {
    now: () => passed,
    wallTime: () => wall,
    random: () => 0.5,
    sleep: (ms) => {
      sleeps += 1;
      passed += ms;
      wall += ms + (jumps[sleeps] ?? 0);
      return Promise.resolve();
    },
  };
  return clock;
}

const hour = 3_600_000;

describe('waiting for a time on the wall', () => {
  it.each([
    ['nothing moves the clock', {}, 10_000, 10_000],
    ['the machine slept over it', { 3: hour }, 10_000, 3000],
    ['the clock was put forward to just before it', { 2: 7500 }, 10_000, 2500],
    ['the clock was put back', { 4: -6000 }, 10_000, 16_000],
    ['it has passed already', {}, -1, 0],
    ['it is further away than the wait', {}, 2 * hour, hour],
  ])('%s', async (_, jumps, ahead, expected) => {
    const clock = clockWith(jumps);
    const why = await createTriggers(clock).next(hour, 'interval', clock.wallTime() + ahead);
    expect([clock.now(), [...why]]).toEqual([expected, [ahead > hour ? 'interval' : 'time']]);
  });

  it('without one, a single timer is set', async () => {
    const clock = clockWith({ 1: hour });
    expect([...(await createTriggers(clock).next(5000, 'retry'))]).toEqual(['retry']);
    expect(clock.now()).toBe(5000);
  });
});
