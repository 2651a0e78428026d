import { expect, test } from 'vitest';
import { createThrottle } from '../../src/apply/throttle.ts';
import type { Clock } from '../../src/ports.ts';

const filter = { rate: 100, deleteRate: 50, rebuildFloorMs: 3000, patienceMs: 5000 };

function at(): { readonly clock: Clock; now: number } {
  const time = { now: 5000, clock: {} as Clock };
  time.clock = { now: () => time.now, wallTime: () => 0, random: () => 0, sleep: () => Promise.resolve() };
  return time;
}

test('a pause holds back all but gaps; a rebuild holds back gaps too', () => {
  const time = at();
  const throttle = createThrottle(time.clock, filter, null);
  throttle.pause(700);
  expect([throttle.waitMs('normal'), throttle.waitMs('gap')]).toEqual([700, 0]);
  expect(throttle.rebuild(1000, 'now')).toBe(10_000);
  expect([throttle.waitMs('normal'), throttle.waitMs('gap')]).toEqual([10_000, 10_000]);
  time.now += 10_000;
  expect([throttle.waitMs('normal'), throttle.waitMs('gap')]).toEqual([0, 0]);
});

test('the wait for a rebuild is at least three seconds', () => {
  expect(createThrottle(at().clock, filter, null).rebuild(5, 'after-backlog')).toBe(3000);
});

test('the backlog grows with what is stored, shrinks with time, and holds gaps back from one second on', () => {
  const time = at();
  const throttle = createThrottle(time.clock, filter, null);
  for (let stored = 0; stored < 150; stored++) throttle.stored('insert');
  expect(throttle.enforcedInMs()).toBe(1500);
  expect(throttle.gapWaitMs()).toBe(500);
  time.now += 500;
  expect(throttle.gapWaitMs()).toBe(0);
  expect(throttle.backlogRising()).toBe(true);
  time.now += 5000;
  expect(throttle.enforcedInMs()).toBe(0);
});

test('a pace spaces writes evenly, and without a filter nothing else waits', () => {
  const throttle = createThrottle(at().clock, null, 4);
  throttle.sent();
  expect(throttle.waitMs('normal')).toBe(250);
  throttle.sent();
  expect(throttle.waitMs('normal')).toBe(500);
  throttle.stored('insert');
  expect([throttle.enforcedInMs(), throttle.rebuild(1000, 'now'), throttle.gapWaitMs()]).toEqual([null, 0, 0]);
});

test('the filter comes to a delete only after its backlog, and a rebuild lasts as long from there; a restart has no backlog', () => {
  const time = at();
  const throttle = createThrottle(time.clock, filter, null);
  for (let stored = 0; stored < 200; stored++) throttle.stored('insert');
  expect(throttle.rebuild(400, 'after-backlog')).toBe(6000);
  expect([throttle.waitMs('normal'), throttle.enforcedInMs()]).toEqual([6000, 6000]);
  const restarted = createThrottle(time.clock, filter, null);
  for (let stored = 0; stored < 200; stored++) restarted.stored('insert');
  expect(restarted.rebuild(400, 'now')).toBe(4000);
});

test('a create that may make the filter crash holds nothing back, and what is expected allows for the rebuild', () => {
  const time = at();
  const throttle = createThrottle(time.clock, filter, null);
  throttle.stored('insert');
  throttle.mayCrash(1000);
  throttle.stored('insert');
  expect(throttle.enforcedInMs()).toBe(10_020);
  expect([throttle.waitMs('normal'), throttle.gapWaitMs()]).toEqual([0, 0]);
  time.now += 10_020;
  expect(throttle.enforcedInMs()).toBe(0);
});
