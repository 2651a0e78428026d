import { describe, expect, test } from 'vitest';
import { Schedule } from '../../src/apply/schedule.ts';
import { groupSteps } from '../../src/apply/step-graph.ts';
import { formatRuleKey, type Rule } from '../../src/model/rule.ts';
import type { Step } from '../../src/plan/plan.ts';
import { rule } from './support.ts';

const anyRule = rule('drop 10.0.0.0/8');
const now = '2026-01-01T00:00:00.000000Z';

/** A step from a line like `d1 delete after c1 gap g1 rebuild`. */
function step(line: string, of: Rule = anyRule): Step {
  const words = line.split(' ');
  const word = (name: string): string | undefined =>
    words.includes(name) ? words[words.indexOf(name) + 1] : undefined;
  const common = { id: words[0] ?? '', change: 0, after: word('after')?.split(',') ?? [], gap: word('gap') ?? null };
  if (words[1] === 'create') return { ...common, type: 'create', rule: of };
  const live = { id: common.id, rule: of, destinationText: '10.0.0.0/8', insertedAt: now, updatedAt: now };
  return { ...common, type: 'delete', live, mayRebuild: words.includes('rebuild') };
}

function scheduleOf(steps: readonly Step[], closeFirst = new Set<string>()): Schedule {
  return new Schedule(steps, groupSteps({ steps, exposure: [] }), closeFirst);
}

const free = { idle: true, gapMayOpen: true, gapsFirst: false };

/** The ids in the order in which they are given out, one at a time. */
function orderOf(lines: readonly string[], options = free): readonly string[] {
  return drain(scheduleOf(lines.map((line) => step(line))), options);
}

function drain(schedule: Schedule, options = free): readonly string[] {
  const order: string[] = [];
  for (let next = schedule.take(options); next !== null; next = schedule.take(options)) {
    order.push(next.id);
    schedule.settle(next, true);
    if (schedule.gapEnded()) schedule.closed();
  }
  return order;
}

describe('a schedule', () => {
  test('gives out creates first, then gaps, then deletes, and last what may rebuild the filter', () => {
    const lines = ['x1 delete rebuild', 'd1 delete', 'g1 delete gap a', 'g2 create gap a after g1', 'c1 create'];
    expect(orderOf(lines)).toEqual(['c1', 'g1', 'g2', 'd1', 'x1']);
    expect(orderOf(lines, { ...free, gapsFirst: true })).toEqual(['g1', 'g2', 'c1', 'd1', 'x1']);
  });

  test('gives nothing out before what it waits for is done', () => {
    const schedule = scheduleOf([step('c1 create'), step('d1 delete after c1')]);
    const first = schedule.take(free);
    expect(first?.id).toBe('c1');
    expect(schedule.take(free)).toBeNull();
    if (first !== null) schedule.settle(first, true);
    expect(schedule.take(free)?.id).toBe('d1');
  });

  test('opens a gap only when all that its creates need outside of it is done', () => {
    const lines = ['g1 delete gap a', 'd1 delete', 'd2 delete after d1', 'g2 create gap a after g1,d2'];
    expect(orderOf(lines)).toEqual(['d1', 'd2', 'g1', 'g2']);
  });

  test('does before it opens a gap what its creates need by a detour, too', () => {
    const lines = [
      'g1 delete gap a',
      'd1 delete', // may fail or take long: better before
      'c1 create after g1,d1', // only possible inside
      'g2 create gap a after c1',
    ];
    expect(orderOf(lines, { ...free, gapsFirst: true })).toEqual(['d1', 'g1', 'c1', 'g2']);
  });

  test('runs an open gap to its end before anything else, except what it needs itself', () => {
    const lines = [
      'g1 delete gap a',
      'c1 create after g1', // needed by the gap's create, and only possible inside
      'c2 create after g1', // could run now, but is not needed
      'g2 create gap a after c1',
    ];
    expect(orderOf(lines)).toEqual(['g1', 'c1', 'g2', 'c2']);
  });

  test('opens gaps that wait for each other one inside the other instead of never', () => {
    const lines = ['a1 delete gap a', 'b1 delete gap b', 'a2 create gap a after a1,b1', 'b2 create gap b after a1,b1'];
    expect([...orderOf(lines)].sort()).toEqual(['a1', 'a2', 'b1', 'b2']);
  });

  test('waits for what is in flight before it opens a gap', () => {
    const schedule = scheduleOf(['g1 delete gap a', 'g2 create gap a after g1'].map((line) => step(line)));
    expect(schedule.take({ ...free, idle: false })).toBeNull();
    expect(schedule.take({ ...free, gapMayOpen: false })).toBeNull();
    expect(schedule.unfinished).toBe(2);
    expect(schedule.take(free)?.id).toBe('g1');
  });

  test('drops a gap as a whole when a step that its create needs fails', () => {
    const lines = ['d1 delete', 'g1 delete gap a', 'g2 create gap a after g1,d1', 'e1 delete after g2'];
    const schedule = scheduleOf(lines.map((line) => step(line)));
    const first = schedule.take(free);
    expect(first?.id).toBe('d1');
    const dropped = first === null ? [] : schedule.settle(first, false);
    expect(dropped.map(({ id }) => id).sort()).toEqual(['e1', 'g1', 'g2']);
    expect(schedule.unfinished).toBe(0);
  });

  test('drops the rest of an open gap when it is abandoned, and goes on with the others', () => {
    const lines = ['g1 delete gap a', 'g2 create gap a after g1', 'g3 create gap a after g1', 'd1 delete'];
    const schedule = scheduleOf(lines.map((line) => step(line)));
    const opener = schedule.take(free);
    if (opener !== null) schedule.settle(opener, true);
    const failing = schedule.take(free);
    if (failing !== null) schedule.settle(failing, false);
    expect(schedule.abandon().map(({ id }) => id)).toEqual(['g3']);
    expect(schedule.gapEnded()).toBe(true);
    schedule.closed();
    expect(drain(schedule)).toEqual(['d1']);
  });

  test('gives out first what a killed run owed, and what that waits for', () => {
    const owed = rule('drop 10.9.0.0/16');
    const steps = [step('c1 create'), step('d1 delete'), step('c2 create after d1', owed)];
    expect(drain(scheduleOf(steps, new Set([formatRuleKey(owed)])))).toEqual(['d1', 'c2', 'c1']);
  });
});
