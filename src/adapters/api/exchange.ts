import type { Dispatcher } from 'undici';
import type { Deadline } from './deadline.ts';

type Controller = Dispatcher.DispatchController;
type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** An answer as it came. */
export interface RawAnswer {
  readonly headers: Headers;
  readonly text: string;
}

/** What is to be sent, and what bounds it. */
interface Exchange {
  readonly request: Dispatcher.DispatchOptions;
  readonly deadline: Deadline;
  readonly maxBodyBytes: number;
  /** Called when the headers have arrived. */
  readonly onStatus: (status: number) => void;
}

/**
 * Sends a request and reads its answer to the last byte: undici's `request` without a stream for each body, which costs as much
 * as all the rest. Rejects as that does, with an error that has a code.
 */
export function exchange(
  dispatcher: Dispatcher,
  { request, deadline: { signal }, maxBodyBytes, onStatus }: Exchange,
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    let controller: Controller | null = null;
    let headers: Headers = {};
    const chunks: Buffer[] = [];
    signal.once('abort', () => {
      if (controller === null) reject(new Error('stopped'));
      else controller.abort(new Error('stopped'));
    });
    dispatcher.dispatch(request, {
      onRequestStart: (started) => {
        controller = started;
        // It waited for its connection.
        if (signal.aborted) started.abort(new Error('stopped'));
      },
      onResponseStart: (started, status, heard) => {
        headers = heard;
        onStatus(status);
        if (Number(heard['content-length'] ?? 0) > maxBodyBytes) started.abort(tooLarge());
      },
      onResponseData: (_, chunk) => {
        chunks.push(chunk);
      },
      onResponseEnd: () => {
        const text = Buffer.concat(chunks).toString('utf8');
        resolve({ headers, text: text.charCodeAt(0) === byteOrderMark ? text.slice(1) : text });
      },
      onResponseError: (_, error) => reject(error),
    });
  });
}

const byteOrderMark = 0xfeff;

/** As undici says of an answer that did not tell its length. */
function tooLarge(): Error {
  return Object.assign(new Error('too large'), { code: 'UND_ERR_RES_EXCEEDED_MAX_SIZE' });
}
