import { expect, test } from 'vitest';
import { createGate } from '../../src/apply/gate.ts';
import type { Clock } from '../../src/ports.ts';

const filter = { rate: 100, rebuildFloorMs: 3000 };

function at(): { readonly clock: Clock; now: number } {
  const time = { now: 5000, clock: {} as Clock };
  time.clock = { now: () => time.now, wallTime: () => 0, random: () => 0, sleep: () => Promise.resolve() };
  return time;
}

test('a pause holds back all but gaps; a rebuild holds back gaps too', () => {
  const time = at();
  const gate = createGate(time.clock, filter, null);
  gate.pause(700);
  expect([gate.waitMs('normal'), gate.waitMs('gap')]).toEqual([700, 0]);
  expect(gate.rebuild(1000, 'now')).toBe(10_000);
  expect([gate.waitMs('normal'), gate.waitMs('gap')]).toEqual([10_000, 10_000]);
  time.now += 10_000;
  expect([gate.waitMs('normal'), gate.waitMs('gap')]).toEqual([0, 0]);
});

test('the wait for a rebuild is at least three seconds', () => {
  expect(createGate(at().clock, filter, null).rebuild(5, 'after-backlog')).toBe(3000);
});

test('the backlog grows with what is stored, shrinks with time, and holds gaps back from one second on', () => {
  const time = at();
  const gate = createGate(time.clock, filter, null);
  for (let stored = 0; stored < 150; stored++) gate.stored();
  expect(gate.enforcedInMs()).toBe(1500);
  expect(gate.gapWaitMs()).toBe(500);
  time.now += 500;
  expect(gate.gapWaitMs()).toBe(0);
  expect(gate.backlogRising()).toBe(true);
  time.now += 5000;
  expect(gate.enforcedInMs()).toBe(0);
});

test('a pace spaces writes evenly, and without a filter nothing else waits', () => {
  const gate = createGate(at().clock, null, 4);
  gate.sent();
  expect(gate.waitMs('normal')).toBe(250);
  gate.sent();
  expect(gate.waitMs('normal')).toBe(500);
  gate.stored();
  expect([gate.enforcedInMs(), gate.rebuild(1000, 'now'), gate.gapWaitMs()]).toEqual([null, 0, 0]);
});

test('the filter comes to a delete only after its backlog, and a rebuild lasts as long from there; a restart has no backlog', () => {
  const time = at();
  const gate = createGate(time.clock, filter, null);
  for (let stored = 0; stored < 200; stored++) gate.stored();
  expect(gate.rebuild(400, 'after-backlog')).toBe(6000);
  expect([gate.waitMs('normal'), gate.enforcedInMs()]).toEqual([6000, 6000]);
  const restarted = createGate(time.clock, filter, null);
  for (let stored = 0; stored < 200; stored++) restarted.stored();
  expect(restarted.rebuild(400, 'now')).toBe(4000);
});

test('a create that may make the filter crash holds nothing back, and what is expected allows for the rebuild', () => {
  const time = at();
  const gate = createGate(time.clock, filter, null);
  gate.stored(1000);
  gate.stored();
  expect(gate.enforcedInMs()).toBe(10_020);
  expect([gate.waitMs('normal'), gate.gapWaitMs()]).toEqual([0, 0]);
  time.now += 10_020;
  expect(gate.enforcedInMs()).toBe(0);
});
