import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { startDeadline } from '../../../src/adapters/api/deadline.ts';

it('lets 64 requests at once wait for one signal without a warning of Node’s, and ends them all with it', async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning.name);
  process.on('warning', onWarning);
  const caller = new AbortController();
  const deadlines = Array.from({ length: 64 }, () => startDeadline(60_000, caller.signal));
  // A warning comes with the next tick.
  await new Promise((resolve) => setImmediate(resolve));
  caller.abort();
  process.off('warning', onWarning);
  expect(warnings).toEqual([]);
  expect(deadlines.every(({ signal, passed }) => signal.aborted && !passed())).toBe(true);
  for (const deadline of deadlines) deadline.end();
});

it('leaves nothing on the signal of its caller once all requests have ended', () => {
  const caller = new AbortController();
  const listeners = (): number => getEventListeners(caller.signal, 'abort').length;
  const [first, second] = [startDeadline(60_000, caller.signal), startDeadline(60_000, caller.signal)];
  first.end();
  expect(listeners()).toBe(1);
  second.end();
  expect(listeners()).toBe(0);
  const third = startDeadline(60_000, caller.signal);
  caller.abort();
  expect([first, second, third].map(({ signal }) => signal.aborted)).toEqual([false, false, true]);
  third.end();
});
