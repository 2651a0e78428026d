import { describe, expect, it } from 'vitest';
import { RolloutGate } from '../../../src/cli/fleet/rollout.ts';
import type { Rollout } from '../../../src/cli/fleet/targets.ts';
import { createStatus, type PassView, type Status } from '../../../src/controller/status.ts';

const none = { done: 0, failed: 0, skipped: 0, dropped: 0, unknown: 0 };
const [first, second] = ['a'.repeat(40), 'b'.repeat(40)];
const goes: Rollout = { soakMs: 0, maxParallel: null, isPaused: false, abort: null };

/** A fleet of targets by wave, of which each ends its passes as a test says. */
function fleet(waves: Readonly<Record<string, number>>, rollout: Partial<Rollout> = {}) {
  const statuses = new Map(Object.keys(waves).map((name) => [name, createStatus('1', '', 0)]));
  const members = Object.entries(waves).map(([name, wave]) => ({
    name,
    wave,
    status: () => statuses.get(name) ?? createStatus('1', '', 0),
  }));
  const makeGate = (failed: ConstructorParameters<typeof RolloutGate>[2] = []) =>
    new RolloutGate(members, { ...goes, ...rollout }, failed);
  const ends = (gate: RolloutGate, name: string, pass: Partial<PassView>, change: Partial<Status> = {}, now = 0) => {
    const before = statuses.get(name) ?? createStatus('1', '', 0);
    const view: PassView = {
      ...{ startedAt: 0, durationMs: 1, triggers: [], revision: first, message: '', steps: 0, outcomes: none },
      ...{ result: 'good', reason: 'Applied' },
      ...pass,
    };
    const isGood = view.result === 'good';
    const conditions = {
      ...before.conditions,
      Ready: { ...before.conditions.Ready, status: isGood ? ('True' as const) : ('False' as const) },
      ...change.conditions,
    };
    const applied = isGood ? { applied: view.revision, appliedAt: now } : {};
    const revisions = { ...before.revisions, attempted: view.revision, ...applied };
    const status = { ...before, revisions, passes: [view, ...before.passes], ...change, conditions };
    statuses.set(name, status);
    return gate.ended(name, view, status, now);
  };
  return { makeGate, ends };
}

describe('a roll-out', () => {
  it('begins a wave when every target of the waves before has converged', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 2 });
    const gate = makeGate();
    expect([gate.admit('a', first, 0), gate.admit('b', first, 0)]).toEqual([null, null]);
    expect(gate.admit('c', first, 0)).toContain('waits for a of wave 1');
    ends(gate, 'a', {});
    expect(gate.release(0).names).toEqual([]);
    expect(gate.admit('c', first, 0)).toContain('waits for b of wave 1');
    ends(gate, 'b', { result: 'transient', reason: 'ApiUnreachable' });
    expect(gate.admit('c', first, 0)).toContain('waits for b of wave 1');
    ends(gate, 'b', {});
    expect(gate.release(0).names).toEqual(['c']);
    expect(gate.admit('c', first, 0)).toBeNull();
    expect(gate.describe(0)).toBeNull();
  });

  it('waits until the kernel holds it, where that is looked at', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 2 });
    const gate = makeGate();
    const enforced = (status: 'True' | 'False') => {
      const { conditions } = createStatus('1', '', 0);
      return {
        conditions: {
          ...conditions,
          Ready: { ...conditions.Ready, status: 'True' as const },
          Enforced: { ...conditions.Ready, type: 'Enforced' as const, status },
        },
      };
    };
    ends(gate, 'a', {}, enforced('False'));
    expect(gate.admit('b', first, 0)).toContain('waits for a of wave 1');
    ends(gate, 'a', {}, enforced('True'));
    expect(gate.admit('b', first, 0)).toBeNull();
  });

  it('lets a revision soak from when the last target of the wave had it', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 2 }, { soakMs: 1000 });
    const gate = makeGate();
    ends(gate, 'a', {}, {}, 100);
    ends(gate, 'b', {}, {}, 500);
    expect(gate.admit('c', first, 600)).toContain('soaks in earlier waves until 1970-01-01T00:00:01.500Z');
    expect(gate.release(600)).toEqual({ names: [], inMs: 900 });
    expect(gate.release(1500)).toEqual({ names: ['c'], inMs: null });
    expect(gate.admit('c', first, 1500)).toBeNull();
  });

  it('never goes on with a revision that failed, after a restart neither, and begins the next one', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 2 });
    const gate = makeGate();
    const failed = ends(gate, 'a', { result: 'terminal', reason: 'ApplyFailed', message: 'status 422' });
    expect(failed).toEqual([{ revision: first, target: 'a', message: 'status 422', at: 0 }]);
    expect(gate.admit('b', first, 0)).toContain('failed at a and begins nowhere else: status 422');
    const later = makeGate(failed ?? []);
    for (const name of ['a', 'b']) ends(later, name, {});
    expect(later.admit('c', first, 0)).toContain('failed at a');
    for (const name of ['a', 'b']) ends(later, name, { revision: second });
    expect(later.admit('c', second, 0)).toBeNull();
  });

  it('stops those that have not begun while a target refuses, and goes on when it does so no more', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    expect(ends(gate, 'a', { result: 'terminal', reason: 'Refused', message: 'too many deletes' })).toBeNull();
    expect(gate.admit('b', first, 0)).toContain('waits for a: too many deletes');
    ends(gate, 'a', {});
    expect(gate.admit('b', first, 0)).toBeNull();
  });

  it('keeps no target of the same wave from beginning while one cannot be reached', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    ends(gate, 'a', { result: 'transient', reason: 'ApiUnreachable' });
    expect(gate.admit('b', first, 0)).toBeNull();
  });

  it('has at most maxParallel targets in their first pass, and counts no retries', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 1 }, { maxParallel: 1 });
    const gate = makeGate();
    expect(gate.admit('a', first, 0)).toBeNull();
    expect(gate.admit('b', first, 0)).toContain('maxParallel is 1');
    expect(gate.admit('c', first, 0)).toContain('maxParallel is 1');
    ends(gate, 'a', { result: 'transient', reason: 'ApiUnreachable' });
    expect(gate.release(0).names).toEqual(['b']);
    expect([gate.admit('b', first, 0), gate.admit('a', first, 0)]).toEqual([null, null]);
    ends(gate, 'b', {});
    expect(gate.release(0).names).toEqual(['c']);
  });

  it('is paused and aborted by the operator, while what is begun goes on', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    const outcomes = { ...none, done: 1 };
    ends(gate, 'a', { result: 'transient', reason: 'Stopped', outcomes });
    gate.adopt({ ...goes, isPaused: true });
    expect([gate.admit('a', first, 0), gate.admit('b', first, 0)]).toEqual([
      null,
      expect.stringContaining('is paused'),
    ]);
    gate.adopt({ ...goes, abort: first.slice(0, 7) });
    expect(gate.admit('b', first, 0)).toContain('was aborted');
    expect(gate.admit('b', second, 0)).toBeNull();
  });
});
