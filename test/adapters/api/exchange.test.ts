import { getEventListeners } from 'node:events';
import { Dispatcher } from 'undici';
import { expect, it } from 'vitest';
import { exchange } from '../../../src/adapters/api/exchange.ts';

/** Takes requests and never has a connection for them. */
class Silent extends Dispatcher {
  readonly handlers: Dispatcher.DispatchHandler[] = [];

  override dispatch(_: unknown, handler: Dispatcher.DispatchHandler): boolean {
    return this.handlers.push(handler) > 0;
  }
}

const dispatcher = new Silent();
const controller = { aborted: false, paused: false, reason: null, abort() {}, pause() {}, resume() {} };

function start(signal: AbortSignal): ReturnType<typeof exchange> {
  const request = { origin: 'http://127.0.0.1', path: '/', method: 'GET' } as const;
  return exchange(dispatcher, { request, timeoutMs: 60_000, signal, maxBodyBytes: 1000 });
}

it('lets 64 requests at once wait for one signal without a warning of Node’s, and ends them all with it', async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning.name);
  process.on('warning', onWarning);
  const caller = new AbortController();
  const answers = Array.from({ length: 64 }, () => start(caller.signal));
  // A warning comes with the next tick.
  await new Promise((resolve) => setImmediate(resolve));
  caller.abort();
  process.off('warning', onWarning);
  expect(warnings).toEqual([]);
  for (const answer of answers) expect(await answer).toMatchObject({ error: { status: null, timedOut: false } });
});

it('keeps the bytes of an answer, not what they were read with, in one piece', async () => {
  const answer = start(new AbortController().signal);
  const handler = dispatcher.handlers.at(-1);
  handler?.onResponseStart?.(controller, 200, {});
  const read = Buffer.from(`\uFEFF${'ä'.repeat(400)}`);
  for (let at = 0; at < read.length; at += 101) {
    const chunk = read.subarray(at, at + 101);
    handler?.onResponseData?.(controller, Buffer.from(chunk));
  }
  const last = Buffer.from('zz');
  handler?.onResponseData?.(controller, last);
  last.fill('!');
  handler?.onResponseEnd?.(controller, {});
  expect(await answer).toMatchObject({ value: { status: 200, text: `${'ä'.repeat(400)}zz` } });
});

it('ends an answer of chunks of one byte long before they are as many as its limit has bytes', () => {
  void start(new AbortController().signal);
  const handler = dispatcher.handlers.at(-1);
  let [chunks, isOver] = [0, false];
  const abort = (): void => {
    isOver = true;
  };
  for (; !isOver && chunks < 1000; chunks++) handler?.onResponseData?.({ ...controller, abort }, Buffer.from(' '));
  expect(chunks).toBe(16);
});

it('leaves nothing on the signal of its caller once all requests have ended', async () => {
  const caller = new AbortController();
  const listeners = (): number => getEventListeners(caller.signal, 'abort').length;
  const answers = [start(caller.signal), start(caller.signal)];
  const [first, second] = dispatcher.handlers.slice(-2);
  first?.onResponseError?.(controller, new Error('lost'));
  expect(listeners()).toBe(1);
  second?.onResponseError?.(controller, new Error('lost'));
  expect(listeners()).toBe(0);
  expect(await Promise.all(answers)).toMatchObject([{ error: { timedOut: false } }, { error: { status: null } }]);
  const third = start(caller.signal);
  caller.abort();
  expect(await third).toMatchObject({ error: { timedOut: false } });
});
