import { setTimeout as delay } from 'node:timers/promises';
import type { ChosenFault, Fault, Faults } from './faults.ts';
import { type Exchange, sendAnswer } from './http/listener.ts';
import type { RawRequest } from './http/request.ts';
import { crashAnswer, type HttpAnswer } from './http/response.ts';

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

export interface ExchangesOptions {
  readonly answer: (request: RawRequest) => Promise<HttpAnswer>;
  readonly faults: Faults;
  /** Told of a mistake of the simulator's own, which is then answered like the real server's: with an empty 500. */
  readonly onError?: (error: unknown) => void;
}

/** Takes requests from the socket, lets the faults have their way, answers, and keeps the log. */
export class Exchanges {
  /** Answers what is below `/admin`, past the faults and the log; without it those paths are the API's 404. */
  admin: ((request: RawRequest) => HttpAnswer) | undefined;
  readonly #options: ExchangesOptions;
  readonly #faults: Faults;
  readonly #calls: LoggedRequest[] = [];
  readonly #listeners = new Set<(call: LoggedRequest) => void>();

  constructor(options: ExchangesOptions) {
    this.#options = options;
    this.#faults = options.faults;
  }

  readonly log = (): readonly LoggedRequest[] => [...this.#calls];

  readonly onCall = (listener: (call: LoggedRequest) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly take = (exchange: Exchange): void => {
    const { method, target } = exchange.request;
    if (this.admin !== undefined && /^\/admin(?:[/?]|$)/.test(target)) {
      sendAnswer(exchange, this.admin(exchange.request));
      return;
    }
    const chosen = this.#faults.choose(method, target.replace(/\?.*$/, ''));
    if (chosen !== undefined) {
      void this.#spoil(exchange, chosen);
      return;
    }
    void this.#answer(exchange.request).then((answer) => {
      this.#record(exchange.request, answer.status);
      sendAnswer(exchange, answer);
    });
  };

  async #answer(request: RawRequest): Promise<HttpAnswer> {
    try {
      return await this.#options.answer(request);
    } catch (error) {
      if (this.#options.onError === undefined) throw error;
      this.#options.onError(error);
      return crashAnswer;
    }
  }

  #record({ method, target, body }: RawRequest, status: number): void {
    const text = body.length <= longestBody ? body.toString('utf8') : `(${body.length} bytes)`;
    const call: LoggedRequest = { method, path: target, status, body: text };
    this.#calls.push(call);
    if (this.#calls.length > longestLog) this.#calls.splice(0, longestLog / 2);
    for (const listener of this.#listeners) listener(call);
  }

  async #spoil(exchange: Exchange, { fault, staleList }: ChosenFault): Promise<void> {
    const { request } = exchange;
    if (fault.kind === 'delay') await delay(fault.milliseconds);
    const isBefore = fault.kind === 'reset-before' || (fault.kind === 'status' && fault.commit !== true);
    const answer = isBefore ? crashAnswer : await this.#answer(request);
    const status = fault.kind === 'status' ? fault.status : 0;
    this.#record(request, isBefore ? status : answer.status);
    spoilAnswer(exchange, answer, fault, staleList);
  }
}

function spoilAnswer(exchange: Exchange, answer: HttpAnswer, fault: Fault, staleList: Buffer): void {
  switch (fault.kind) {
    case 'delay':
      sendAnswer(exchange, answer);
      return;
    case 'reset-before':
    case 'reset-after':
      exchange.message.socket.resetAndDestroy();
      return;
    case 'torn':
      sendAnswer(exchange, answer, { torn: true });
      return;
    case 'wrong-date':
      sendAnswer(exchange, answer, { aheadMs: fault.milliseconds });
      return;
    case 'lost-answer':
      return;
    case 'stale-list':
      sendAnswer(exchange, answer.status === 200 ? { ...answer, body: staleList } : answer);
      return;
    case 'status':
      sendStatus(exchange, fault);
      return;
    default:
      fault satisfies never;
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
