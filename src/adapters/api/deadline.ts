import { EventEmitter } from 'node:events';
import { getOrMake } from '../../model/group-by.ts';

/** A time limit around one request. */
export interface Deadline {
  readonly signal: EventEmitter & { readonly aborted: boolean };
  /** Whether the limit, not the caller, ended the request. */
  passed(): boolean;
  /** Releases the timer and the caller's signal. */
  end(): void;
}

/** What ends requests: an emitter, for an `AbortSignal` for each of thousands of requests costs as much as their JSON. */
class Cancellation extends EventEmitter {
  aborted = false;

  cancel(): void {
    this.aborted = true;
    this.emit('abort');
  }
}

/** All requests that wait for one signal of a caller, with the one listener on it. */
interface Waiting {
  readonly requests: Set<Cancellation>;
  readonly abort: () => void;
}

const waiting = new WeakMap<AbortSignal, Waiting>();

function startWaiting(caller: AbortSignal): Waiting {
  const requests = new Set<Cancellation>();
  const abort = (): void => {
    for (const one of requests) one.cancel();
  };
  caller.addEventListener('abort', abort, { once: true });
  return { requests, abort };
}

/**
 * Starts a limit of `ms` that also ends when the caller's signal aborts. Own timer instead of `AbortSignal.any` with
 * `AbortSignal.timeout`: their combination holds on to the caller's long-lived signal for each of thousands of requests, and with Node 20
 * it never fires once the garbage collector has seen it.
 */
export function startDeadline(ms: number, caller: AbortSignal): Deadline {
  const signal = new Cancellation();
  let passed = false;
  const timer = setTimeout(() => {
    passed = true;
    signal.cancel();
  }, ms);
  const { requests, abort } = getOrMake(waiting, caller, () => startWaiting(caller));
  requests.add(signal);
  return {
    signal,
    passed: () => passed,
    end: () => {
      clearTimeout(timer);
      requests.delete(signal);
      if (requests.size > 0) return;
      waiting.delete(caller);
      caller.removeEventListener('abort', abort);
    },
  };
}
