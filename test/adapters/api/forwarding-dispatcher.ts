import { Dispatcher } from 'undici';

/**
 * Sends a request through `globalThis.fetch`, which nock can intercept (it never sees undici's own requests). Only what
 * the client uses: `dispatch` with a text body.
 */
export class ForwardingDispatcher extends Dispatcher {
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const controller = { aborted: false, paused: false, reason: null, abort() {}, pause() {}, resume() {} };
    handler.onRequestStart?.(controller, {});
    this.#forward(controller, options, handler).catch((error: Error) => handler.onResponseError?.(controller, error));
    return true;
  }

  async #forward(
    controller: Dispatcher.DispatchController,
    { origin, path, method, headers, body }: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): Promise<void> {
    const response = await fetch(`${String(origin)}${path}`, {
      method,
      headers: headers as Record<string, string>,
      redirect: 'manual',
      ...(typeof body === 'string' ? { body } : {}),
    });
    handler.onResponseStart?.(controller, response.status, Object.fromEntries(response.headers));
    handler.onResponseData?.(controller, Buffer.from(await response.arrayBuffer()));
    handler.onResponseEnd?.(controller, {});
  }

  override destroy(): Promise<void> {
    return Promise.resolve();
  }
}
