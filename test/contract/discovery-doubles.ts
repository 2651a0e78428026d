import { createServer, type Server } from 'node:http';
import type { AddressInfo, LookupFunction } from 'node:net';
import type { Exchange } from './recorded.ts';

interface Double {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Servers in place of the recorded 127.0.0.1:18080 (documents named after what is wrong with them) and :18081 (silence). */
export class DiscoveryDoubles {
  /** True: every document answers 500. */
  down = false;
  readonly hits = new Map<string, number>();
  private readonly documents: Server;
  private readonly silence: Server;

  private constructor() {
    this.documents = createServer((request, response) => {
      const path = request.url ?? '/';
      this.hits.set(path, (this.hits.get(path) ?? 0) + 1);
      const { status = 200, headers = {}, body } = this.down ? { status: 500, body: '{}' } : this.double(path);
      response.writeHead(status, headers);
      response.end(body);
    });
    this.silence = createServer(() => {});
  }

  static async start(): Promise<DiscoveryDoubles> {
    const doubles = new DiscoveryDoubles();
    for (const server of [doubles.documents, doubles.silence]) {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    }
    return doubles;
  }

  /** No name is known: nothing leaves this machine. */
  readonly lookup: LookupFunction = (name, _options, callback) => {
    callback(Object.assign(new Error(`unknown name ${name}`), { code: 'ENOTFOUND' }), '', 4);
  };

  /** The exchange with the doubles' addresses in place of the recorded ones. */
  translate(item: Exchange): Exchange {
    const text = JSON.stringify(item)
      .replaceAll('127.0.0.1:18080', `127.0.0.1:${portOf(this.documents)}`)
      .replaceAll('127.0.0.1:18081', `127.0.0.1:${portOf(this.silence)}`);
    return JSON.parse(text) as Exchange;
  }

  async close(): Promise<void> {
    for (const server of [this.documents, this.silence]) {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    }
  }

  private double(path: string): Double {
    const base = `http://127.0.0.1:${portOf(this.documents)}`;
    const whole = {
      jwks_uri: `${base}/jwks`,
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      userinfo_endpoint: `${base}/userinfo`,
      response_types_supported: ['code'],
    };
    const without = (field: keyof typeof whole): Double => {
      const { [field]: _, ...rest } = whole;
      return { body: JSON.stringify(rest) };
    };
    const doubles: Readonly<Record<string, Double>> = {
      '/jwks': { body: '{"keys":[]}' },
      '/404': { status: 404, body: '{"e": 1}' },
      '/500': { status: 500, body: '{"e": 1}' },
      '/notjson': { body: '<html>' },
      '/nojwks': without('jwks_uri'),
      '/noauthz': without('authorization_endpoint'),
      '/nouserinfo': without('userinfo_endpoint'),
      '/noresponsetypes': without('response_types_supported'),
      '/badjwks': { body: JSON.stringify({ ...whole, jwks_uri: `${base}/404` }) },
      '/arraydoc': { body: '[]' },
      '/redirect': { status: 302, headers: { location: '/ok' }, body: '{}' },
      '/short': { headers: { 'cache-control': 'max-age=1' }, body: JSON.stringify(whole) },
    };
    if (/^\/ok/.test(path)) return { headers: { 'cache-control': 'max-age=3600' }, body: JSON.stringify(whole) };
    return doubles[path] ?? { status: 404, body: '{"e": 1}' };
  }
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;
