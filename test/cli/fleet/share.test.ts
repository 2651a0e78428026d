import { describe, expect, it } from 'vitest';
import { createPool, shareSource } from '../../../src/cli/fleet/share.ts';
import type { FirstSeen, Source, SourceReading } from '../../../src/ports.ts';

/** Work that a test ends. */
function makeWork() {
  const state = { begun: false, end: (): void => undefined };
  const work = () =>
    new Promise<void>((resolve) => {
      state.begun = true;
      state.end = resolve;
    });
  return { state, work };
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
};

describe('a pool', () => {
  it('lets so many go on at once, in order', async () => {
    const inTurn = createPool(2, 60_000);
    const all = [makeWork(), makeWork(), makeWork()];
    const ends = all.map(({ work }) => inTurn(work));
    await turns();
    expect(all.map(({ state }) => state.begun)).toEqual([true, true, false]);
    all[0]?.state.end();
    await turns();
    expect(all[2]?.state.begun).toBe(true);
    for (const { state } of all) state.end();
    await Promise.all(ends);
  });

  it('goes on without one that hangs, and has no more room for it afterwards', async () => {
    const inTurn = createPool(1, 5);
    const [slow, next, last] = [makeWork(), makeWork(), makeWork()];
    const hanging = inTurn(slow.work);
    await inTurn(() => Promise.resolve());
    const running = inTurn(next.work);
    slow.state.end();
    await hanging;
    const waiting = inTurn(last.work);
    await turns();
    expect([next.state.begun, last.state.begun]).toEqual([true, false]);
    next.state.end();
    await running;
    await turns();
    last.state.end();
    await waiting;
  });

  it('gives its place back after work that failed', async () => {
    const inTurn = createPool(1, 60_000);
    await expect(inTurn(() => Promise.reject(new Error('x')))).rejects.toThrow('x');
    expect(await inTurn(() => Promise.resolve(7))).toBe(7);
  });
});

describe('a shared source', () => {
  it('counts a commit as first seen when the first of all targets saw it', async () => {
    const asked: FirstSeen[] = [];
    const answer = (seen: FirstSeen = {}): Promise<SourceReading> => {
      asked.push({ ...seen });
      return Promise.resolve({ content: null, problems: [] });
    };
    const source: Source = {
      description: '',
      read: (_signal, seen) => answer(seen),
      readAt: (_revision, _signal, seen) => answer(seen),
      descends: () => Promise.resolve('yes'),
    };
    const one = { source, root: null, follow: () => null, forget: () => undefined };
    const { signal } = new AbortController();
    const shared = shareSource(one, -1, signal).source;
    await shared.read(signal, { a: 5, b: 7 });
    await shared.read(signal, { a: 3, c: 9 });
    await shared.readAt?.('a', signal, { a: 4, b: 6 });
    expect(asked).toEqual([
      { a: 5, b: 7 },
      { a: 3, b: 7, c: 9 },
      { a: 3, b: 6, c: 9 },
    ]);
  });

  it('lets a target go on that has something else to do while Git hangs, and asks Git no second time meanwhile', async () => {
    const reads: ((reading: SourceReading) => void)[] = [];
    const hang = (): Promise<SourceReading> => new Promise((resolve) => void reads.push(resolve));
    const source: Source = { description: '', read: hang, readAt: hang, descends: async () => 'yes' };
    const one = { source, root: null, follow: () => null, forget: () => undefined };
    const shared = shareSource(one, -1, new AbortController().signal).source;
    const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
    const [reading, other] = [shared.read(first.signal), shared.read(second.signal)];
    first.abort();
    expect(await reading).toEqual({ content: null, problems: [] });
    const earlier = shared.readAt?.('a', third.signal);
    third.abort();
    expect(await earlier).toEqual({ content: null, problems: [] });
    const again = shared.read(new AbortController().signal);
    await turns();
    expect(reads).toHaveLength(1);
    const found = { content: null, problems: [], observed: 'a' };
    reads[0]?.(found);
    expect([await other, await again]).toEqual([found, found]);
  });

  it('gives a revision that one target has read to all, though Git hangs by then', async () => {
    const content = { revision: 'a', files: [] };
    let hangs = false;
    const read = (): Promise<SourceReading> =>
      hangs ? new Promise(() => undefined) : Promise.resolve({ content, problems: [] });
    const source: Source = { description: '', read, readAt: read, descends: async () => 'yes' };
    const one = { source, root: null, follow: () => null, forget: () => undefined };
    const { signal } = new AbortController();
    const shared = shareSource(one, -1, signal).source;
    await shared.read(signal);
    hangs = true;
    void shared.read(signal);
    const late = new AbortController();
    const found = shared.readAt?.('a', late.signal);
    await turns();
    late.abort();
    expect(await found).toEqual({ content, problems: [] });
  });
});
