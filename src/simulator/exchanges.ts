import { setTimeout as delay } from 'node:timers/promises';
import type { ChosenFault, Fault, Faults } from './faults.ts';
import { type Exchange, sendAnswer } from './http/listener.ts';
import type { RawRequest } from './http/request.ts';
import { crashAnswer, type HttpAnswer } from './http/response.ts';
import type { SimulatorOptions } from './options.ts';

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
export function createExchanges({ answer, faults, admin, onError }: ExchangesOptions) {
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
