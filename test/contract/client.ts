import { Agent, request } from 'node:http';

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
}

export interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Sends requests one by one over one kept connection, byte for byte as they are. */
export class Client {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 1 });
  private readonly port: number;

  constructor(url: string) {
    this.port = Number(new URL(url).port);
  }

  send({ method, path, headers, body }: Sent): Promise<Received> {
    return new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { 'content-length': String(body.length) };
      const options = { agent: this.agent, host: '127.0.0.1', port: this.port, method, path };
      const call = request({ ...options, headers: { ...headers, ...length } }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({ status: response.statusCode ?? 0, headers: flat(response.headers), text });
        });
      });
      call.on('error', reject);
      call.end(body);
    });
  }

  close(): void {
    this.agent.destroy();
  }
}

function flat(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}
