import { setMaxListeners } from 'node:events';
import type { Dispatcher } from 'undici';
import { fail, ok, type Result } from '../../model/result.ts';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

interface Exchange {
  readonly request: Dispatcher.DispatchOptions;
  /** Limit from sending to the last byte. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly maxBodyBytes: number;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface CutAnswer {
  readonly error: unknown;
  /** Null: the headers had not arrived. */
  readonly status: number | null;
  readonly timedOut: boolean;
}

// undici's `request` makes a stream and an `AbortSignal` for each, which cost as much CPU as all the rest.
/** Sends a request and reads its answer. Never rejects. */
export function exchange(dispatcher: Dispatcher, { request, timeoutMs, signal, maxBodyBytes }: Exchange) {
  return new Promise<Result<RawAnswer, CutAnswer>>((resolve) => {
    if (signal.aborted) return resolve(fail({ error: new Error('stopped'), status: null, timedOut: false }));
    let [status, headers]: [number | null, Headers] = [null, {}];
    let [body, length, counted] = [Buffer.alloc(0), 0, 0];
    let controller: Dispatcher.DispatchController | null = null;
    let stopped: 'in-time' | 'late' | null = null;
    const end = (result: Result<RawAnswer, CutAnswer>): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      resolve(result);
    };
    const cut = (error: unknown): void => {
      // Nobody reads the body of a redirect.
      if (status !== null && status >= 300 && status < 400) end(ok({ status, headers, text: '' }));
      else end(fail({ error, status, timedOut: stopped === 'late' }));
    };
    const stop = (when: 'in-time' | 'late'): void => {
      stopped = when;
      if (controller === null) cut(new Error('stopped'));
      else controller.abort(new Error('stopped'));
    };
    const timer = setTimeout(() => stop('late'), timeoutMs);
    const onAbort = (): void => stop('in-time');
    setMaxListeners(0, signal); // Node warns of more than ten requests that wait for one signal
    signal.addEventListener('abort', onAbort, { once: true });
    dispatcher.dispatch(request, {
      onRequestStart: (started) => {
        controller = started;
        // It waited for its connection.
        if (stopped !== null) started.abort(new Error('stopped'));
      },
      onResponseStart: (started, code, heard) => {
        if (code < 200) return; // an interim answer: the real one follows
        [status, headers] = [code, heard];
        const announced = Number(heard['content-length'] ?? 0);
        if (announced > maxBodyBytes) started.abort(tooLarge());
        else if (announced > 0) body = Buffer.allocUnsafe(announced);
      },
      onResponseData: (started, chunk) => {
        // Copied: a slice of what undici read holds all of that. Each of millions of tiny chunks takes time, and counts for more.
        const needed = length + chunk.length;
        if (needed > body.length) body = Buffer.concat([body], Math.max(2 * length, needed));
        length += chunk.copy(body, length);
        counted += Math.max(chunk.length, 64);
        if (counted > maxBodyBytes) started.abort(tooLarge());
      },
      onResponseEnd: () => {
        const text = body.toString('utf8', 0, length);
        end(ok({ status: status ?? 0, headers, text: text.startsWith('\uFEFF') ? text.slice(1) : text }));
      },
      onResponseError: (_, error) => cut(error),
    });
  });
}

/** As undici names it. */
const tooLarge = (): Error => Object.assign(new Error('too large'), { code: 'UND_ERR_RES_EXCEEDED_MAX_SIZE' });

/** Where undici sends a request. */
export function locate({ origin, pathname, search }: URL): { readonly origin: string; readonly path: string } {
  return { origin, path: pathname + search };
}
