import { describe, expect, it } from 'vitest';
import { RolloutGate } from '../../../src/cli/fleet/rollout.ts';
import type { Rollout } from '../../../src/cli/fleet/targets.ts';
import type { SharedWatch } from '../../../src/cli/watch/invocation.ts';
import { createStatus, type PassView, type Status } from '../../../src/controller/status.ts';

const none = { done: 0, failed: 0, skipped: 0, dropped: 0, unknown: 0 };
const [first, second] = ['a'.repeat(40), 'b'.repeat(40)];
const goes: Rollout = { soak: 0 };

type HoldStage = Parameters<SharedWatch['hold']>[1];

/** A target whose record was read. */
const known = (): Status => {
  const status = createStatus('1', '', 0);
  return { ...status, role: 'writer', revisions: { ...status.revisions, failed: [] } };
};
interface Member {
  readonly name: string;
  readonly wave: number;
  readonly keeper: { status(): Status };
}
type Gate = RolloutGate<Member> & {
  admitNamed(name: string, revision: string, now: number, stage?: HoldStage): string | null;
};
const mayBegin = (gate: Gate, now = 0) => gate.release(now).map(({ name }) => name);

/** A fleet of targets by wave, of which each ends its passes as a test says. */
function fleet(waves: Readonly<Record<string, number>>, rollout: Partial<Rollout> = {}) {
  const statuses = new Map(Object.keys(waves).map((name) => [name, known()]));
  const members = Object.entries(waves).map(
    ([name, wave]): Member => ({
      name,
      wave,
      keeper: { status: () => statuses.get(name) ?? known() },
    }),
  );
  const find = (name: string) => {
    const member = members.find((one) => one.name === name);
    if (member === undefined) throw new Error(`no target ${name}`);
    return member;
  };
  const makeGate = (): Gate => {
    const gate = new RolloutGate(members, { ...goes, ...rollout });
    return Object.assign(gate, {
      admitNamed: (name: string, revision: string, now: number, stage: HoldStage = 'chosen') =>
        gate.admit(find(name), revision, stage, now),
    });
  };
  const ends = (gate: Gate, name: string, pass: Partial<PassView>, change: Partial<Status> = {}, now = 0) => {
    const before = statuses.get(name) ?? known();
    const view: PassView = {
      ...{ startedAt: 0, durationMs: 1, triggers: [], revision: first, message: '', steps: 0, outcomes: none },
      ...{ failedRevision: undefined, result: 'good', reason: 'Applied' },
      ...pass,
    };
    const isGood = view.result === 'good';
    const isStuck = ['ApplyFailed', 'Refused'].includes(view.reason);
    const isTried = view.result !== 'held' && view.revision === before.revisions.stuck;
    const stuck = isStuck ? view.revision : isTried ? null : before.revisions.stuck;
    const conditions = {
      ...before.conditions,
      Ready: { ...before.conditions.Ready, status: isGood ? ('True' as const) : ('False' as const) },
      ...change.conditions,
    };
    const applied = isGood ? { applied: view.revision, appliedAt: now } : {};
    const lost = view.reason === 'ApplyFailed' && view.revision !== null ? [view.revision] : [];
    const failed = [...(before.revisions.failed ?? []), ...lost];
    const revisions = { ...before.revisions, attempted: view.revision, failed, stuck, ...applied };
    const status = { ...before, revisions, passes: [view, ...before.passes], ...change, conditions };
    statuses.set(name, status);
    gate.ended(find(name));
  };
  const show = (name: string, change: Partial<Status>): unknown => statuses.set(name, { ...known(), ...change });
  return { makeGate, ends, show };
}

describe('a roll-out', () => {
  it('begins a wave when every target of the waves before has converged', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 2 });
    const gate = makeGate();
    expect([gate.admitNamed('a', first, 0), gate.admitNamed('b', first, 0)]).toEqual([null, null]);
    expect(gate.admitNamed('c', first, 0)).toContain('waits for a of wave 1');
    ends(gate, 'a', {});
    expect(mayBegin(gate)).toEqual([]);
    expect(gate.admitNamed('c', first, 0)).toContain('waits for b of wave 1');
    ends(gate, 'b', { result: 'transient', reason: 'ApiUnreachable' });
    expect(gate.admitNamed('c', first, 0)).toContain('waits for b of wave 1');
    ends(gate, 'b', {});
    expect(mayBegin(gate)).toEqual(['c']);
    expect(gate.admitNamed('c', first, 0)).toBeNull();
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
    expect(gate.admitNamed('b', first, 0)).toContain('waits for a of wave 1');
    ends(gate, 'a', {}, enforced('True'));
    expect(gate.admitNamed('b', first, 0)).toBeNull();
  });

  it('lets a revision soak from when the last target of the wave had it', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 2 }, { soak: 1000 });
    const gate = makeGate();
    ends(gate, 'a', {}, {}, 100);
    ends(gate, 'b', {}, {}, 500);
    expect(gate.admitNamed('c', first, 600)).toContain('soaks in earlier waves until 1970-01-01T00:00:01.500Z');
    expect(mayBegin(gate, 1499)).toEqual([]);
    expect(mayBegin(gate, 1500)).toEqual(['c']);
    expect(gate.admitNamed('c', first, 1500)).toBeNull();
  });

  it('never goes on with a revision that failed, after a restart neither, and begins the next one', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 2 });
    const gate = makeGate();
    ends(gate, 'a', { result: 'terminal', reason: 'ApplyFailed', message: 'status 422' });
    expect(gate.admitNamed('b', first, 0)).toContain('failed at a and begins nowhere else: status 422');
    const later = makeGate();
    for (const name of ['a', 'b']) ends(later, name, {});
    expect(later.admitNamed('c', first, 0)).toContain('failed at a');
    for (const name of ['a', 'b']) ends(later, name, { revision: second });
    expect(later.admitNamed('c', second, 0)).toBeNull();
  });

  it('stops those that have not begun while a target refuses, and goes on when it does so no more', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    ends(gate, 'a', { result: 'terminal', reason: 'Refused', message: 'too many deletes' });
    expect(gate.admitNamed('b', first, 0)).toContain('waits for a: too many deletes');
    ends(gate, 'a', {});
    expect(gate.admitNamed('b', first, 0)).toBeNull();
  });

  it('lets a target that refuses try again by itself, and no other meanwhile, over a pause neither', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 1 });
    const gate = makeGate();
    for (const name of ['a', 'c']) ends(gate, name, { result: 'terminal', reason: 'Refused' });
    expect(gate.admitNamed('b', first, 0)).toContain('waits for a');
    for (const name of ['a', 'c']) expect(gate.admitNamed(name, first, 0)).toBeNull();
    gate.settings = { ...goes, paused: true };
    for (const name of ['a', 'b', 'c']) expect(gate.admitNamed(name, first, 0)).toContain('the fleet is paused');
    ends(gate, 'a', { result: 'held', reason: 'Waiting' });
    // What is wrong with the revision in effect is said instead.
    ends(gate, 'c', { result: 'terminal', reason: 'Unauthorized', revision: second });
    gate.settings = goes;
    expect(mayBegin(gate)).toEqual(['a', 'c']);
    for (const name of ['a', 'c']) {
      expect(gate.admitNamed(name, first, 0)).toBeNull();
      ends(gate, name, {});
    }
    expect(mayBegin(gate)).toContain('b');
  });

  it.each([
    ['is not known yet', { role: 'standby' as const }, 'waits until it is known whether it failed at a'],
    ['was lost with this replica', { role: 'writer' as const }, 'waits until it is known whether it failed at a'],
    ['is with another replica that writes', { role: 'standby' as const, holder: 'other' }, null],
  ])('begins nowhere while it may have failed before: the record of one target %s', (_, change, held) => {
    const { makeGate, show } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    show('a', { revisions: { ...known().revisions, failed: null }, ...change });
    expect(gate.admitNamed('b', first, 0)).toEqual(held === null ? null : expect.stringContaining(held));
    show('a', { revisions: { ...known().revisions, failed: [first] }, role: 'writer' });
    expect(gate.admitNamed('b', first, 0)).toContain('failed at a and begins nowhere else');
    show('a', known());
  });

  it('begins nowhere after a takeover on what it saw of a target before another replica wrote there', () => {
    const { makeGate, ends, show } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    ends(gate, 'a', {});
    show('a', { role: 'standby', holder: 'other', revisions: { ...known().revisions, failed: null } });
    expect(gate.admitNamed('b', second, 0)).toBeNull();
    show('a', { role: 'standby', holder: 'other', revisions: { ...known().revisions, failed: [second] } });
    expect(gate.admitNamed('b', second, 0)).toContain('failed at a and begins nowhere else');
    show('a', { role: 'writer', revisions: { ...known().revisions, failed: null } });
    expect(gate.admitNamed('b', second, 0)).toContain('waits until it is known whether it failed at a');
    show('a', { revisions: { ...known().revisions, failed: [second] } });
    expect(gate.admitNamed('b', second, 0)).toContain('failed at a and begins nowhere else');
  });

  it('begins nowhere after a restart or takeover what a target refused, or could not carry out, before that one tried again', () => {
    const { makeGate, ends, show } = fleet({ a: 1, b: 1 }, { maxParallel: 1 });
    const gate = makeGate();
    show('a', { revisions: { ...known().revisions, stuck: first } });
    expect(gate.admitNamed('b', first, 0)).toMatch(/^aaaaaaaaaaaa waits for a$/);
    expect(gate.admitNamed('b', second, 0)).toBeNull();
    ends(gate, 'b', { revision: second });
    expect(gate.admitNamed('a', first, 0)).toBeNull();
    ends(gate, 'a', { result: 'transient', reason: 'ApiUnreachable' });
    expect(gate.admitNamed('b', first, 0)).toBeNull();
  });

  it('keeps no target of the same wave from beginning while one cannot be reached', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    ends(gate, 'a', { result: 'transient', reason: 'ApiUnreachable' });
    expect(gate.admitNamed('b', first, 0)).toBeNull();
  });

  it('has at most maxParallel targets in their first pass, and counts no retries', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 1 }, { maxParallel: 1 });
    const gate = makeGate();
    expect(gate.admitNamed('a', first, 0)).toBeNull();
    expect(gate.admitNamed('b', first, 0)).toContain('maxParallel is 1');
    expect(gate.admitNamed('c', first, 0)).toContain('maxParallel is 1');
    ends(gate, 'a', { result: 'transient', reason: 'ApiUnreachable' });
    expect(mayBegin(gate)).toEqual(['b']);
    expect([gate.admitNamed('b', first, 0), gate.admitNamed('a', first, 0)]).toEqual([null, null]);
    ends(gate, 'b', {});
    expect(mayBegin(gate)).toEqual(['c']);
  });

  it.each(['OutsideWindow', 'ApiUnreachable'] as const)(
    'has at most maxParallel targets write at once after all of them waited: %s',
    (reason) => {
      const { makeGate, ends } = fleet({ a: 1, b: 1, c: 1 }, { maxParallel: 1 });
      const gate = makeGate();
      for (const name of ['a', 'b', 'c']) {
        expect(gate.admitNamed(name, first, 0)).toBeNull();
        ends(gate, name, { result: 'held', reason });
      }
      for (const name of ['a', 'b', 'c']) expect(gate.admitNamed(name, first, 0)).toBeNull();
      const write = (name: string) => gate.admitNamed(name, first, 0, 'first-write');
      // The second time is for the Configuration, in the same pass.
      expect([write('a'), write('a')]).toEqual([null, null]);
      for (const name of ['b', 'c']) expect(write(name)).toContain('maxParallel is 1');
      ends(gate, 'b', { result: 'held', reason: 'Waiting' });
      expect(gate.admitNamed('b', first, 0)).toContain('maxParallel is 1');
      expect(mayBegin(gate)).toEqual([]);
      ends(gate, 'a', {});
      expect(mayBegin(gate)).toEqual(['b']);
      expect([gate.admitNamed('b', first, 0), write('b')]).toEqual([null, null]);
      expect(write('c')).toContain('maxParallel is 1');
      ends(gate, 'b', {});
      expect(mayBegin(gate)).toEqual(['c']);
    },
  );

  it('wakes a target that waited once, until it asks again: its source may not let it for long', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1, c: 1 }, { paused: true });
    const gate = makeGate();
    for (const name of ['a', 'b']) expect(gate.admitNamed(name, first, 0)).toContain('paused');
    gate.settings = { ...goes, maxParallel: 1 };
    expect([mayBegin(gate), mayBegin(gate), mayBegin(gate)]).toEqual([['a'], ['b'], []]);
    ends(gate, 'a', { result: 'terminal', reason: 'RewindRefused' });
    expect(mayBegin(gate)).toEqual([]);
    expect([gate.admitNamed('c', first, 0), gate.admitNamed('a', first, 0)]).toEqual([
      null,
      expect.stringContaining('maxParallel is 1'),
    ]);
    ends(gate, 'c', {});
    expect(mayBegin(gate)).toEqual(['a']);
  });

  it('says of no target that it waits, and wakes none, once another replica leads it', () => {
    const { makeGate, show } = fleet({ a: 1 }, { paused: true });
    const gate = makeGate();
    expect(gate.admitNamed('a', first, 0)).toContain('paused');
    gate.settings = goes;
    show('a', { role: 'standby', holder: 'other' });
    expect(mayBegin(gate)).toEqual([]);
    gate.settings = { ...goes, abort: first };
    expect(gate.describe(0)).toBeNull();
  });

  it('keeps no room for a target whose lease was lost in its first pass', () => {
    const { makeGate, show } = fleet({ a: 1, b: 1 }, { maxParallel: 1 });
    const gate = makeGate();
    expect(gate.admitNamed('a', first, 0)).toBeNull();
    expect(gate.admitNamed('b', first, 0)).toContain('maxParallel is 1');
    show('a', { role: 'standby', holder: 'other' });
    expect(gate.admitNamed('b', first, 0)).toBeNull();
  });

  it('is paused and aborted by the operator, while what is begun goes on', () => {
    const { makeGate, ends } = fleet({ a: 1, b: 1 });
    const gate = makeGate();
    ends(gate, 'a', { result: 'transient', reason: 'Stopped' });
    gate.settings = { ...goes, paused: true };
    expect(gate.describe(0)).toBe('the fleet is paused');
    expect([gate.admitNamed('a', first, 0, 'in-force'), gate.admitNamed('b', first, 0)]).toEqual([
      null,
      expect.stringContaining('is paused'),
    ]);
    gate.settings = { ...goes, abort: first.slice(0, 7) };
    expect(gate.admitNamed('b', first, 0)).toContain('was aborted');
    expect(gate.admitNamed('b', second, 0)).toBeNull();
  });

  it('keeps an aborted revision from a target where it only waited, whatever was written beside it', () => {
    const { makeGate, ends } = fleet({ a: 1 });
    const gate = makeGate();
    expect(gate.admitNamed('a', first, 0)).toBeNull();
    ends(gate, 'a', { result: 'held', reason: 'OutsideWindow', outcomes: { ...none, done: 1 } });
    gate.settings = { ...goes, abort: first };
    expect(gate.admitNamed('a', first, 0)).toContain('was aborted');
  });
});
