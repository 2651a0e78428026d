import { Client, type Received } from './client.ts';
import { isObject, Mapping } from './mapping.ts';
import { bodyText, type Exchange, type RecordedRequest } from './recorded.ts';

/** Headers whose value is another in every run. */
const VARYING = new Set(['date', 'x-request-id']);
/** Headers that a connection's end decides, not the answer. */
const HOP = new Set(['connection', 'keep-alive']);

/** Plays recorded exchanges to a server and tells what is different. */
export class Replay {
  readonly mapping = new Mapping();
  private readonly client: Client;
  private readonly authorization: (recorded: string) => string;

  constructor(url: string, authorization: (recorded: string) => string) {
    this.client = new Client(url);
    this.authorization = authorization;
  }

  close(): void {
    this.client.close();
  }

  /** Sends the recorded request and returns every difference of status, headers and body. */
  async play(exchange: Exchange): Promise<string[]> {
    const received = await this.send(exchange.request);
    const { response } = exchange;
    if (received.status !== response.status) {
      return [
        `status: recorded ${response.status} ${JSON.stringify(response.body)}, got ${received.status} ${received.text}`,
      ];
    }
    const body: unknown = received.text === '' ? null : JSON.parse(received.text);
    const recorded = response.body ?? null;
    const bodies = this.mapping.differences(...aligned(recorded, body, this.mapping));
    return [...bodies, ...this.headers(exchange, received)];
  }

  send(request: RecordedRequest): Promise<Received> {
    const { authorization, ...others } = request.headers;
    const auth = authorization === undefined ? {} : { authorization: this.authorization(authorization) };
    const path = this.mapping.apply(request.path);
    return this.client.send({
      method: request.method,
      path,
      headers: { ...others, ...auth },
      body: this.body(request),
    });
  }

  /** A call of our own, for what a recording takes for granted. */
  async call(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
    const headers = {
      accept: 'application/json',
      authorization: 'Bearer <token:admin>',
      'content-type': 'application/json',
    };
    const received = await this.send({ method, path, headers, ...(body === undefined ? {} : { body }) });
    return { status: received.status, body: received.text === '' ? null : JSON.parse(received.text) };
  }

  private body(request: RecordedRequest): Buffer | undefined {
    if (request.raw_body !== undefined) return rawBytes(this.mapping.apply(request.raw_body));
    if (request.body === undefined || request.body === null) return undefined;
    return Buffer.from(this.mapping.apply(bodyText(request.body)));
  }

  private headers({ response }: Exchange, received: Received): string[] {
    const names = new Set([...Object.keys(response.headers), ...Object.keys(received.headers)]);
    return [...names].flatMap((name) => {
      const [recorded, actual] = [response.headers[name], received.headers[name]];
      if (HOP.has(name) && response.status < 414) return [];
      if (VARYING.has(name) && recorded !== undefined && actual !== undefined) {
        return actual.length === recorded.length ? [] : [`header ${name}: recorded ${recorded}, got ${actual}`];
      }
      if (name === 'location' && recorded !== undefined && actual !== undefined) {
        return this.mapping.apply(recorded) === actual ? [] : [`header location: ${actual}`];
      }
      return recorded === actual ? [] : [`header ${name}: recorded ${recorded}, got ${actual}`];
    });
  }
}

/** A recorder's `a…a...<N bytes>` is N bytes again; a replacement character stands for a byte that is not UTF-8. */
function rawBytes(text: string): Buffer {
  const cut = /^([\s\S]*?)(\[*)\.\.\.<(\d+) bytes>$/.exec(text);
  if (cut !== null) return Buffer.from(fill(cut[1] ?? '', cut[2] !== '', Number(cut[3])));
  const parts = text.split('\ufffd').map((part) => Buffer.from(part));
  return Buffer.concat(parts.flatMap((part, index) => (index === 0 ? [part] : [Buffer.of(255), part])));
}

/** The body that was cut: nested arrays half as many as there is room for, or the last character over and over. */
function fill(head: string, nested: boolean, bytes: number): string {
  if (!nested) return `${head.padEnd(bytes - 3, head.at(-1))}"}}`;
  const depth = (bytes - head.length - 2) / 2;
  return `${head}${'['.repeat(depth)}${']'.repeat(depth)}}}`;
}

/** Lists have no order of their own: puts the actual items into the recorded order, by id, else by content. */
function aligned(recorded: unknown, actual: unknown, mapping: Mapping): [unknown, unknown] {
  const left = isObject(recorded) ? recorded['data'] : undefined;
  const right = isObject(actual) ? actual['data'] : undefined;
  if (!Array.isArray(left) || !Array.isArray(right) || !isObject(actual)) return [recorded, actual];
  const rest: unknown[] = [...right];
  const ordered = left.flatMap((item) => {
    const index = rest.findIndex((other) => sameItem(item, other, mapping));
    return index < 0 ? [] : rest.splice(index, 1);
  });
  return [recorded, { ...actual, data: [...ordered, ...rest] }];
}

function sameItem(recorded: unknown, actual: unknown, mapping: Mapping): boolean {
  if (!isObject(recorded) || !isObject(actual)) return false;
  const bound = mapping.bound(String(recorded['id'])) ?? recorded['id'];
  return (
    bound === actual['id'] ||
    (mapping.bound(String(recorded['id'])) === undefined && content(recorded) === content(actual))
  );
}

function content({ id: _, inserted_at: __, updated_at: ___, ...rest }: Record<string, unknown>): string {
  return JSON.stringify(rest);
}
