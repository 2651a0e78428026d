import { Readable } from 'node:stream';
import { Dispatcher } from 'undici';

/**
 * Sends a request through `globalThis.fetch`, which nock can intercept (it never sees undici's own requests). Only what
 * the client uses: `request` with a text body.
 */
export class ForwardingDispatcher extends Dispatcher {
  override async request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    const { origin, path, method, headers, body } = options;
    const response = await fetch(`${String(origin)}${path}`, {
      method,
      headers: headers as Record<string, string>,
      redirect: 'manual',
      ...(typeof body === 'string' ? { body } : {}),
    });
    const text = await response.text();
    const stream = Object.assign(Readable.from([text]), {
      text: () => Promise.resolve(text),
      dump: () => Promise.resolve(),
    });
    return {
      statusCode: response.status,
      headers: Object.fromEntries(response.headers),
      body: stream,
      trailers: {},
      opaque: null,
      context: {},
    } as unknown as Dispatcher.ResponseData;
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }
}
