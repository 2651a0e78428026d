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
