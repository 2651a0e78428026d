import { setMaxListeners } from 'node:events';

/** A time limit around one request. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Whether the limit, not the caller, ended the request. */
  passed(): boolean;
  /** Releases the timer and the caller's signal. */
  end(): void;
}

const shared = new WeakSet<AbortSignal>();

/** As many requests at once as the settings allow wait for one signal; Node would warn people of a leak at eleven. */
function expectMany(caller: AbortSignal): void {
  if (shared.has(caller)) return;
  shared.add(caller);
  setMaxListeners(0, caller);
}

/**
 * Starts a limit of `ms` that also ends when the caller's signal aborts. Own timer instead of `AbortSignal.any` with
 * `AbortSignal.timeout`: their combination holds on to the caller's long-lived signal for each of thousands of requests, and with Node 20
 * it never fires once the garbage collector has seen it.
 */
export function startDeadline(ms: number, caller: AbortSignal): Deadline {
  const controller = new AbortController();
  let passed = false;
  const timer = setTimeout(() => {
    passed = true;
    controller.abort();
  }, ms);
  const abort = (): void => controller.abort();
  expectMany(caller);
  caller.addEventListener('abort', abort, { once: true });
  return {
    signal: controller.signal,
    passed: () => passed,
    end: () => {
      clearTimeout(timer);
      caller.removeEventListener('abort', abort);
    },
  };
}
