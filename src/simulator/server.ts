import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { prettifyError } from 'zod';
import type { StoredUser } from './events.ts';
import { type ChosenFault, createFaults, type Fault, type Faults, faultSetting } from './faults.ts';
import type { PacketFilterView } from './filter/filter.ts';
import { connectFilter } from './filter/rated.ts';
import { type Exchange, listenHttp, sendAnswer } from './http/listener.ts';
import type { RawRequest } from './http/request.ts';
import { crashAnswer, type HttpAnswer, json } from './http/response.ts';
import type { SimulatorOptions } from './options.ts';
import { answerRequest } from './router.ts';
import { parseAddress } from './rules/address.ts';
import { formatNetwork } from './rules/inet.ts';
import { makeSeedRow, type RuleRow, type RuleSeed, type StoredRule } from './rules/rule.ts';
import { openTables } from './tables.ts';
import type { UserStore } from './users.ts';

export type { SimulatorOptions } from './options.ts';

/** A running server and everything a test may want to know about it. */
export type Simulator = Awaited<ReturnType<typeof startSimulator>>;

/** Starts the simulated API server on a real socket. Rejects when it cannot listen, or read its data file. */
export async function startSimulator(options: SimulatorOptions) {
  const tables = openTables(options);
  const { rules: store, users, tokens, configuration, newId, clock, events } = tables;
  let exit: (reason: string) => void = () => {};
  const filter = connectFilter(options, tables, (reason) => exit(reason));
  const faults = createFaults(options.random ?? Math.random, () => store.listBody());
  const admin = (request: RawRequest): HttpAnswer => answerAdmin(request, faults, filter.view, users);
  const exchanges = createExchanges({
    answer: (request) => answerRequest(tables, request),
    faults,
    ...(options.admin === true && { admin }),
    onError: options.onError,
  });
  const host = options.host ?? '127.0.0.1';
  const server = await listenHttp(host, options.port ?? 0, (exchange) => void exchanges.take(exchange));
  /** Resolves when no connection is left. */
  const stop = (): Promise<void> => {
    filter.close();
    tables.close();
    return new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  };
  const exited = new Promise<string>((resolve) => {
    exit = (reason) => void stop().then(() => resolve(reason));
  });
  const { port } = server.address() as AddressInfo;
  return {
    /** Without a slash at the end. */
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    rules: (): readonly StoredRule[] => [...store.rows()].map(({ shown }) => shown),
    users: () => users.all(),
    configuration: configuration.row,
    /** Puts rules straight into the store and the filter, without constraints or requests. Returns their ids. */
    seed: (seeds: readonly RuleSeed[]): readonly string[] =>
      seeds.map((seed) => {
        const row = makeSeedRow(seed, newId(), clock.now());
        store.load(row);
        events.emit('inserted', row);
        return row.id;
      }),
    /** Calls of the API, oldest first. */
    requests: exchanges.log,
    faults,
    filter: filter.view,
    tokens,
    /** Calls the listener, and waits for it, after each call of the API took effect, before its answer is sent. Returns an unsubscriber. */
    onCall: exchanges.onCall,
    /** Resolves with the reason when the server ends itself. */
    exited,
    close: stop,
  };
}

/** Answers a request below `/admin`, by the same objects as a test has in its hands. */
function answerAdmin(request: RawRequest, faults: Faults, filter: PacketFilterView, users: UserStore): HttpAnswer {
  const url = new URL(request.target, 'http://simulator');
  const [, page = '', argument] = url.pathname.split('/').filter((segment) => segment !== '');
  switch (`${request.method} ${page}`) {
    case 'GET verdict':
      return verdict(filter, users, url.searchParams);
    case 'GET filter':
      return json(200, { state: filter.state(), elements: filter.elements().map(showElement) });
    case 'GET faults':
      return json(200, faults.list());
    case 'POST faults':
      return setFault(faults, request);
    case 'DELETE faults':
      faults.clear(argument === undefined ? undefined : Number(argument));
      return { status: 204 };
    default:
      return json(404, { error: 'no such page: there are verdict, filter and faults' });
  }
}

function showElement({ id, userId, action, network, ports, shown }: RuleRow): Record<string, unknown> {
  const { port_range } = shown;
  const destination = formatNetwork(network);
  return { rule: id, user: userId, action, destination, port_type: ports?.type ?? null, port_range };
}

const protocols = ['tcp', 'udp', 'icmp', 'other'] as const;

function verdict(filter: PacketFilterView, users: UserStore, query: URLSearchParams): HttpAnswer {
  const destination = query.get('destination') ?? '';
  const protocol = protocols.find((name) => name === (query.get('protocol') ?? 'other'));
  const port = query.get('port');
  const named = query.get('user');
  const user = named === null ? null : findUser(users, named);
  if (parseAddress(destination) === undefined) return json(422, { error: 'destination must be an address' });
  if (protocol === undefined) return json(422, { error: `protocol must be one of ${protocols.join(', ')}` });
  if (port !== null && !/^[0-9]{1,5}$/.test(port)) return json(422, { error: 'port must be a number' });
  if (user === undefined) return json(422, { error: `no user ${named}` });
  const packet = { user: user?.id ?? null, destination, protocol, ...(port === null ? {} : { port: Number(port) }) };
  return json(200, { ...packet, verdict: filter.verdict(packet) });
}

/** By id, by e-mail address, or by the part before its `@`. */
function findUser(users: UserStore, name: string): StoredUser | undefined {
  return (
    users.get(name.toLowerCase()) ??
    users.byEmail(name) ??
    users.all().find((user) => user.email.toLowerCase().startsWith(`${name.toLowerCase()}@`))
  );
}

function setFault(faults: Faults, request: RawRequest): HttpAnswer {
  const parsed = faultSetting.safeParse(bodyOf(request));
  if (!parsed.success) return json(422, { error: prettifyError(parsed.error) });
  return json(201, { number: faults.inject(parsed.data) });
}

function bodyOf(request: RawRequest): unknown {
  try {
    return JSON.parse(request.body.toString('utf8'));
  } catch {
    return undefined;
  }
}

/** One call of the API; `status` is 0 for a call whose connection was cut before it was looked at. */
export interface LoggedRequest {
  readonly method: string;
  /** The request target, query included. */
  readonly path: string;
  readonly status: number;
  readonly body: string;
}

const longestLog = 200_000;
const longestBody = 4_096;

interface ExchangesOptions {
  readonly answer: (request: RawRequest) => Promise<HttpAnswer>;
  readonly faults: Faults;
  /** Answers what is below `/admin`, past the faults and the log; without it those paths are the API's 404. */
  readonly admin?: (request: RawRequest) => HttpAnswer;
  /** Told of a mistake of the simulator's own, which is then answered like the real server's: with an empty 500. */
  readonly onError: SimulatorOptions['onError'];
}

/** Takes requests from the socket, lets the faults have their way, answers, and keeps the log. */
function createExchanges({ answer, faults, admin, onError }: ExchangesOptions) {
  const calls: LoggedRequest[] = [];
  const listeners = new Set<(call: LoggedRequest) => unknown>();
  const answerOrCrash = (request: RawRequest): Promise<HttpAnswer> =>
    answer(request).catch((error: unknown) => {
      if (onError === undefined) throw error;
      onError(error);
      return crashAnswer;
    });
  const record = async ({ method, target, body }: RawRequest, status: number): Promise<void> => {
    const text = body.length <= longestBody ? body.toString('utf8') : `(${body.length} bytes)`;
    const call: LoggedRequest = { method, path: target, status, body: text };
    calls.push(call);
    if (calls.length > longestLog) calls.splice(0, longestLog / 2);
    for (const listener of listeners) await listener(call);
  };
  return {
    log: (): readonly LoggedRequest[] => [...calls],
    onCall: (listener: (call: LoggedRequest) => unknown): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async take(exchange: Exchange): Promise<void> {
      const { request } = exchange;
      if (admin !== undefined && /^\/admin(?:[/?]|$)/.test(request.target)) {
        sendAnswer(exchange, admin(request));
        return;
      }
      const chosen = faults.choose(request.method, request.target.replace(/\?.*$/, ''));
      const fault = chosen?.fault;
      if (fault?.kind === 'delay') await delay(fault.milliseconds);
      const isBefore = fault?.kind === 'reset-before' || (fault?.kind === 'status' && fault.commit !== true);
      const answered = isBefore ? crashAnswer : await answerOrCrash(request);
      const cutStatus = fault?.kind === 'status' ? fault.status : 0;
      await record(request, isBefore ? cutStatus : answered.status);
      if (chosen === undefined) sendAnswer(exchange, answered);
      else spoilAnswer(exchange, answered, chosen);
    },
  };
}

function spoilAnswer(exchange: Exchange, answer: HttpAnswer, { fault, staleList }: ChosenFault): void {
  if (fault.kind === 'lost-answer') return;
  if (fault.kind === 'status') sendStatus(exchange, fault);
  else if (fault.kind === 'reset-before' || fault.kind === 'reset-after') exchange.message.socket.resetAndDestroy();
  else {
    const isStale = fault.kind === 'stale-list' && answer.status === 200;
    const aheadMs = fault.kind === 'wrong-date' ? fault.milliseconds : 0;
    sendAnswer(exchange, isStale ? { ...answer, body: staleList } : answer, { torn: fault.kind === 'torn', aheadMs });
  }
}

function sendStatus({ response }: Exchange, fault: Extract<Fault, { kind: 'status' }>): void {
  const body = fault.body ?? '';
  response.writeHead(fault.status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    ...fault.headers,
  });
  response.end(body);
}
