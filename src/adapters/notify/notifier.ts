import { Agent } from 'undici';
import type { Turn } from '../../controller/observer.ts';
import { getErrorCode } from '../../model/result.ts';
import type { Clock, Logger } from '../../ports.ts';
import { exchange, locate } from '../api/exchange.ts';
import { createQueue } from '../queue.ts';
import type { Delivery, MakeDelivery } from './message.ts';

export type NotifyResult = 'sent' | 'failed' | 'dropped';

export interface NotifierSettings {
  readonly targets: readonly { readonly name: string; readonly deliver: MakeDelivery }[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onResult: (target: string, result: NotifyResult) => void;
  /** Deadline of one attempt, ms. */
  readonly timeoutMs?: number;
}

const attempts = 5;
const longestQueue = 20;
const largestAnswer = 65_536;
// Not the global one: Node's own `fetch` may have put an older version there, which takes no such requests.
const agent = new Agent();

/** Sends what people are told, with a queue for each target. Only configured addresses are called; redirects are not followed. */
export function createNotifier(settings: NotifierSettings) {
  const stop = new AbortController();
  const queues = settings.targets.map((target) => ({ ...target, length: 0, inTurn: createQueue() }));
  return {
    turned(turn: Turn): void {
      for (const queue of queues) {
        const { name } = queue;
        const delivery = queue.deliver(turn);
        if (delivery === null) continue;
        if (queue.length >= longestQueue) {
          settings.onResult(name, 'dropped');
          continue;
        }
        queue.length++;
        void queue.inTurn(() => deliver(settings, name, delivery, stop.signal)).finally(() => queue.length--);
      }
    },
    /** Waits until what is queued is sent, at most `ms`. */
    async flush(ms: number): Promise<void> {
      const sent = queues.map(({ inTurn }) => inTurn(() => Promise.resolve()));
      await Promise.race([Promise.all(sent), settings.clock.sleep(ms)]);
      stop.abort();
    },
  };
}

async function deliver(settings: NotifierSettings, target: string, delivery: Delivery, stop: AbortSignal) {
  const { clock, logger, onResult } = settings;
  let last = 'stopped';
  for (let attempt = 0; attempt < attempts && !stop.aborted; attempt++) {
    if (attempt > 0) await clock.sleep(1000 * 2 ** (attempt - 1) * (0.5 + clock.random()), stop);
    const { status, code, retry } = await send(delivery, settings.timeoutMs ?? 10_000, stop);
    last = code;
    if (status >= 200 && status < 300) return onResult(target, 'sent');
    if (!retry) break;
  }
  // The address may be a secret by itself (Slack's are): only the target's name is told.
  logger.warn('A notification could not be delivered', { target, code: last });
  onResult(target, 'failed');
}

async function send(delivery: Delivery, timeoutMs: number, stop: AbortSignal) {
  try {
    const headers = { 'content-type': 'application/json', 'user-agent': 'reconcile', ...delivery.headers() };
    const answer = await exchange(agent, {
      request: { ...locate(new URL(delivery.url())), method: 'POST', headers, body: delivery.body },
      ...{ timeoutMs, signal: stop, maxBodyBytes: largestAnswer },
    });
    if (!answer.ok && answer.error.status === null) {
      const { timedOut, error } = answer.error;
      const code = timedOut ? 'timeout' : stop.aborted ? 'stopped' : getErrorCode(error, 'failed');
      return { status: 0, code, retry: true };
    }
    // The status says what became of it. What follows may be anything.
    const status = (answer.ok ? answer.value : answer.error).status ?? 0;
    return { status, code: String(status), retry: status === 429 || status >= 500 };
  } catch (error) {
    return { status: 0, code: getErrorCode(error, 'failed'), retry: true };
  }
}
