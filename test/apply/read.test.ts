import { describe, expect, it } from 'vitest';
import { type ReadContext, readLive } from '../../src/apply/read.ts';
import { wholeScope } from '../../src/model/state.ts';
import type { ApiResult, LiveApi } from '../../src/ports.ts';
import { createFakeClock } from './fake-clock.ts';

const answer = (body: unknown): Promise<ApiResult> =>
  Promise.resolve({ kind: 'answer', status: 200, body, retryAfterMs: null });
const unused = (): never => {
  throw new Error('reading makes no other call');
};

const api: LiveApi = {
  listRules: () => answer({ data: [] }),
  getConfiguration: () => answer({ data: { id: '47a1cbf3-207d-4b70-b9ef-a1aa0a73e744', local_auth_enabled: true } }),
  listUsers: unused,
  createRule: unused,
  updateRule: unused,
  deleteRule: unused,
  updateConfiguration: unused,
};

function context(configurationManaged: boolean): ReadContext {
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  const { signal } = new AbortController();
  return { api, clock: createFakeClock(), logger, attempts: 1, signal, configurationManaged };
}

it.each([203, 206])('a list with status %d may be half of it, and does not count', async (status) => {
  const part: ApiResult = { kind: 'answer', status, body: { data: [] }, retryAfterMs: null };
  const read = await readLive({ ...context(false), api: { ...api, listRules: async () => part } }, wholeScope, null);
  expect(read).toMatchObject({ ok: false, error: { code: 'unreadable', status } });
});

describe('a server that asks for patience', () => {
  it('is not waited for beyond the limit of the whole run (--total-timeout)', async () => {
    const later: ApiResult = { kind: 'answer', status: 503, body: undefined, retryAfterMs: 20_000 };
    const clock = createFakeClock();
    const busy = { ...context(false), clock, attempts: 10, api: { ...api, listRules: () => Promise.resolve(later) } };
    const read = await readLive({ ...busy, until: clock.now() + 50_000 }, wholeScope, null);
    expect([read, clock.now()]).toMatchObject([{ ok: false, error: { status: 503 } }, 41_000]);
    await readLive(busy, wholeScope, null);
    expect(clock.now()).toBeGreaterThan(200_000);
  });
});

describe('a server that never ends its answer', () => {
  it('is cut off when the time for all reading is over (--total-timeout), and by a stop before that', async () => {
    const clock = createFakeClock();
    const silent = (signal: AbortSignal): Promise<ApiResult> =>
      new Promise((resolve) => {
        const cut = { kind: 'no-answer', sent: 'maybe', code: 'aborted', message: 'stopped', status: null } as const;
        signal.addEventListener('abort', () => resolve(cut), { once: true });
      });
    const hanging = { ...context(false), clock, attempts: 10, api: { ...api, listRules: silent } };
    const read = await readLive({ ...hanging, until: clock.now() + 50_000 }, wholeScope, null);
    expect([read, clock.now()]).toMatchObject([
      { ok: false, error: { code: 'timeout', message: expect.stringContaining('--total-timeout') } },
      51_000,
    ]);
    const stop = new AbortController();
    const stopped = readLive({ ...hanging, signal: stop.signal, until: clock.now() + 50_000 }, wholeScope, null);
    stop.abort();
    expect([await stopped, clock.now()]).toMatchObject([{ ok: false, error: { code: 'aborted' } }, 51_000]);
  });
});

describe('a Configuration that cannot be understood', () => {
  it('ends the pass when a manifest manages it', async () => {
    const read = await readLive(context(true), wholeScope, null);
    expect(read).toMatchObject({ ok: false, error: { code: 'unreadable' } });
  });

  it('does not keep a server’s rules from being planned when none does', async () => {
    const read = await readLive(context(false), wholeScope, null);
    expect(read).toMatchObject({ ok: true, value: { live: { rules: [], configuration: null } } });
  });
});

describe('an error that quotes what the server holds', () => {
  it('is told of the Configuration without its words: a stored secret of a provider may stand in them', async () => {
    const body = { errors: { detail: ['cannot load {client_secret: "CANARY"}'] } };
    const quoting: ApiResult = { kind: 'answer', status: 422, body, retryAfterMs: null };
    const scope = { ...wholeScope, rules: false };
    const failing = { ...context(true), api: { ...api, getConfiguration: () => Promise.resolve(quoting) } };
    const read = await readLive(failing, scope, null);
    expect(read).toMatchObject({ ok: false, error: { status: 422, message: 'GET /v0/configuration: 422' } });
  });
});
