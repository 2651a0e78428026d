import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server on loopback that notifications are sent to. */
export interface Receiver {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Starts one; `answer` is called with each whole call. */
export async function startReceiver(
  answer: (request: IncomingMessage, body: string, response: ServerResponse) => void,
): Promise<Receiver> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += String(chunk);
    });
    request.on('end', () => answer(request, body, response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
