import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type CliRun, runIn } from './harness.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'simulate-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

interface Running {
  readonly url: string;
  readonly stop: () => Promise<number>;
  readonly ended: Promise<CliRun>;
}

/** Runs the command until it has printed where it listens; rejects with what it said where it ended before. */
async function run(...args: readonly string[]): Promise<Running> {
  const controller = new AbortController();
  return await new Promise<Running>((resolve, reject) => {
    const ended = runIn(directory, ['simulate', '--port', '0', '--token-file', 'token', ...args], {
      stop: controller.signal,
      onStdout: (text) => {
        const url = /^listening (http:\/\/127\.0\.0\.1:\d+)\n$/.exec(text)?.[1];
        if (url !== undefined) resolve({ url, stop, ended });
      },
    });
    const stop = async (): Promise<number> => {
      controller.abort();
      return (await ended).code;
    };
    void ended.then(({ err }) => reject(new Error(err)));
  });
}

const get = async (url: string, token: string): Promise<number> =>
  (await fetch(`${url}/v0/rules`, { headers: { authorization: `Bearer ${token}`, accept: 'application/json' } }))
    .status;

test('a token file that is not there is made with a random token that only its owner can read', async () => {
  const running = await run();
  const path = join(directory, 'token');
  const token = readFileSync(path, 'utf8').trim();
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(token.split('.')).toHaveLength(3);
  expect([await get(running.url, token), await get(running.url, 'other')]).toEqual([200, 401]);
  expect(await running.stop()).toBe(0);
  await expect(fetch(running.url)).rejects.toThrow();
});

test('a token file that is there is read, and users, admin pages and data work as options', async () => {
  writeFileSync(join(directory, 'token'), 'opaque-token\n');
  const id = 'a1520c4b-adc3-4574-932a-94461cf85c07';
  const data = join(directory, 'data');
  const running = await run('--user', `alice=${id}`, '--admin', '--data', data);
  expect(await get(running.url, 'opaque-token')).toBe(200);
  expect((await fetch(`${running.url}/admin/verdict?destination=10.0.0.1&user=alice`)).status).toBe(200);
  expect(readFileSync(data, 'utf8')).toContain(id);
  expect(await running.stop()).toBe(0);
});

test('a server that its filter crashes end the command with 1 and the reason', async () => {
  writeFileSync(join(directory, 'token'), 'secret');
  const running = await run('--filter-rate', '2000', '--admin');
  const call = async (method: string, path: string, rule?: object): Promise<string> => {
    const headers = { authorization: 'Bearer secret', accept: 'application/json', 'content-type': 'application/json' };
    const body = rule === undefined ? {} : { body: JSON.stringify({ rule }) };
    const text = await (await fetch(`${running.url}${path}`, { method, headers, ...body })).text();
    return /"id":"([^"]+)"/.exec(text)?.[1] ?? text;
  };
  const settled = async (crashes: number): Promise<void> => {
    while (
      !(await call('GET', '/admin/filter')).startsWith(`{"state":{"pending":0,"rebuilding":false,"crashes":${crashes},`)
    );
  };
  const crash = async (number: number): Promise<void> => {
    const id = await call('POST', '/v0/rules', { destination: `10.${number}.0.0/16` });
    await settled(number);
    await call('PATCH', `/v0/rules/${id}`, { destination: `10.10${number}.0.0/16` });
    await call('DELETE', `/v0/rules/${id}`);
  };
  for (const number of [0, 1, 2, 3]) await crash(number).catch(() => {});
  const { code, err } = await running.ended;
  expect(code).toBe(1);
  expect(err).toContain('crashed 4 times within 5 s');
});

test('options that make no sense are refused with what to write instead', async () => {
  await expect(run('--user', 'alice')).rejects.toThrow('--user alice: write NAME=UUID');
  await expect(run('--discovery', 'maybe')).rejects.toThrow('accept');
  await expect(run('--filter-rate', '0')).rejects.toThrow('--filter-rate');
  writeFileSync(join(directory, 'empty'), '\n');
  await expect(run('--token-file', 'empty')).rejects.toThrow('is empty');
  await expect(run('--token-file', 'no/where')).rejects.toThrow('cannot be used');
});
