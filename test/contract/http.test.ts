import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/server.ts';
import { TokenStore } from '../../src/simulator/tokens.ts';
import { EXCEPTIONS } from './exceptions.ts';
import { isObject, USERS } from './mapping.ts';
import { type Exchange, exchanges, load } from './recorded.ts';
import { Replay } from './replay.ts';

const DAVE = '61144798-3070-4781-b8cc-48a3ca03472e';
const FRANK = 'ae087a60-e323-4f78-b353-bf23779e7cea';

let simulator: Simulator;
let replay: Replay;
let named: Readonly<Record<string, string>>;

/** Doubles of the recorded tokens, by their names. */
function mint(tokens: TokenStore): Record<string, string> {
  const soon = Math.floor(Date.now() / 1000) + 3_600;
  const add = (name: string, userId: string, claims: object = {}, expiresAt?: number): string => {
    tokens.addRow(name, userId, expiresAt);
    return tokens.sign({ api: name, aud: 'fz_http', iss: 'fz_http', sub: userId, exp: soon, ...claims });
  };
  return {
    admin: add('admin', USERS.admin),
    unprivileged: add('unprivileged', USERS.alice),
    expired_db: add('expired_db', USERS.admin, {}, Date.now() - 1_000),
    expired_jwt: add('expired_jwt', USERS.admin, { exp: soon - 7_200 }),
    no_api_claim: tokens.sign({ sub: USERS.admin, exp: soon }),
    old_iat: add('old_iat', USERS.admin, { iat: soon - 100 * 86_400 }),
    deleted: tokens.sign({ api: 'deleted', sub: USERS.admin, exp: soon }),
    disabled_user: add('disabled_user', DAVE),
    user_deleted: add('user_deleted', '11111111-2222-3333-4444-555555555555'),
    demoted: add('demoted', FRANK),
  };
}

/** The header that a recorder wrote down by its beginning and length only, made again from what its step is called. */
function cutHeader(step: string, recorded: string): string {
  const token = named['admin'] ?? '';
  const payload = token.split('.')[1] ?? '';
  if (step === 'token_without_scheme') return token;
  if (step === 'bad_signature') return `Bearer ${token.slice(0, -4)}${token.endsWith('AAAA') ? 'BBBB' : 'AAAA'}`;
  if (step === 'truncated') return `Bearer ${token.slice(0, -10)}`;
  if (step === 'alg_none') return `Bearer ${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`;
  if (step.startsWith('two_tokens_comma')) return `Bearer ${token}, Bearer x`;
  const scheme = /^([A-Za-z]+ +)/.exec(recorded)?.[1] ?? '';
  return `${scheme}${token}${step === 'trailing_space' ? ' ' : ''}`;
}

beforeEach(async () => {
  const tokens = new TokenStore();
  named = mint(tokens);
  simulator = await startSimulator({
    token: named['admin'] ?? '',
    tokens,
    users: [
      { name: 'alice', id: USERS.alice },
      { name: 'bob', id: USERS.bob },
      { name: 'dave', id: DAVE, role: 'admin', disabled: true },
      { name: 'frank', id: FRANK },
    ],
  });
});

afterEach(async () => {
  replay.close();
  await simulator.close();
});

async function playAll(items: readonly Exchange[]): Promise<string[]> {
  let step = '';
  replay = new Replay(simulator.url, (recorded) =>
    recorded.includes('...<')
      ? cutHeader(step, recorded)
      : recorded.replace(/<token:(\w+)>/, (_, name) => named[name] ?? ''),
  );
  const differences: string[] = [];
  for (const item of items) {
    step = item.step;
    for (const difference of await replay.play(item)) differences.push(`${step}: ${difference}`);
  }
  return differences;
}

/** Sends bytes over a connection of its own and returns what arrives until the server is quiet or closes. */
function sendRaw(text: string, answers: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(simulator.url).port), '127.0.0.1', () => socket.write(text));
    let received = '';
    socket.on('data', (data) => {
      received += data.toString('latin1');
      if (!/connection: close/i.test(received) && parseAnswers(received).length >= answers) socket.end();
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(received));
  });
}

interface RawAnswer {
  readonly status: string;
  readonly headers: readonly string[];
  readonly body: string;
}

/** The answers in a stream, with varying header values left out and bodies reduced to their shape. */
function parseAnswers(stream: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = stream.replace(/<CLOSED>$/, '');
  while (rest.includes('\r\n\r\n')) {
    const split = rest.indexOf('\r\n\r\n');
    const [status = '', ...lines] = rest.slice(0, split).split('\r\n');
    const length = Number(lines.find((line) => /^content-length:/i.test(line))?.slice(15) ?? 0);
    const body = rest.slice(split + 4, split + 4 + length);
    if (body.length < length) break;
    const headers = lines.map((line) => line.replace(/^(date|x-request-id|location): .*/i, '$1')).sort();
    answers.push({ status, headers, body: body.replace(/"(id|inserted_at|updated_at)":"[^"]*"/g, '"$1"') });
    rest = rest.slice(split + 4 + length);
  }
  return answers;
}

describe('recordings of the HTTP layer', () => {
  test('auth: every kind of token and header is answered as recorded', async () => {
    expect(await playAll(exchanges('auth'))).toEqual([]);
  });

  test('errors_by_accept: what a request is answered for each Accept header', async () => {
    expect(await playAll(exchanges('errors_by_accept'))).toEqual([]);
  });

  test('http_transport: request ids, conditional and cross-origin headers', async () => {
    simulator.seed([{ destination: '10.1.0.0/16' }, { destination: '10.2.0.0/16' }]);
    expect(await playAll(exchanges('http_transport'))).toEqual([]);
  });

  const streams = load('http_transport').filter((item) => isObject(item.observation) && item.observation['received']);
  for (const { step, observation } of streams) {
    test(`http_transport: ${step} is answered byte for byte but for ids and dates`, async () => {
      replay = new Replay(simulator.url, () => '');
      const { sent, received } = observation as { sent: string; received: string };
      if (!step.startsWith('pipeline'))
        simulator.seed([{ destination: '10.1.0.0/16' }, { destination: '10.2.0.0/16' }]);
      const expected = parseAnswers(received);
      const actual = await sendRaw(sent.replaceAll('<token>', named['admin'] ?? ''), expected.length);
      const compared = step in EXCEPTIONS.lastAnswer ? -1 : expected.length;
      expect(parseAnswers(actual).slice(0, compared)).toEqual(expected.slice(0, compared));
    });
  }
});

describe('what the real server of version 0.7.36 was seen to answer', () => {
  /** The status line and body of an answer to these bytes. */
  function answerTo(text: string): Promise<{ readonly status: number; readonly body: string }> {
    return new Promise((resolve, reject) => {
      const socket = connect(Number(new URL(simulator.url).port), '127.0.0.1');
      let answer = '';
      socket.on('data', (chunk) => {
        answer += String(chunk);
        const [head = '', body = ''] = answer.split('\r\n\r\n');
        const length = /content-length: (\d+)/.exec(head)?.[1];
        if (answer.includes('\r\n\r\n') && Buffer.byteLength(body) >= Number(length)) socket.end();
      });
      socket.on('close', () =>
        resolve({ status: Number(answer.split(' ')[1]), body: answer.split('\r\n\r\n')[1] ?? '' }),
      );
      socket.on('error', reject);
      socket.write(text);
    });
  }
  const token = (): string => `authorization: Bearer ${named['admin']}\r\n`;
  const head = 'host: x\r\naccept: application/json\r\n';
  const missing = { status: 404, body: '{"error":"not_found"}' };

  test.each<[string, string, () => string, { readonly status: number; readonly body: string }]>([
    ['two Authorization headers', 'GET /v0/rules', () => token() + token(), { status: 500, body: '' }],
    [
      'a tab after Bearer',
      'GET /v0/rules',
      () => token().replace('Bearer ', 'Bearer\t'),
      { status: 401, body: '{"errors":{"auth":"unauthenticated"}}' },
    ],
    ['an id that is no UTF-8', 'GET /v0/rules/%ff', token, missing],
    ['raw UTF-8 in a path', 'GET /v0/rules/ü', token, missing],
    ['the devices', 'GET /v0/devices', token, { status: 200, body: '{"data":[]}' }],
    ['the start page', 'GET /', token, { status: 500, body: '' }],
    ['CONNECT', 'CONNECT example.org:443', token, { status: 501, body: '' }],
  ])('%s', async (_, line, headers, expected) => {
    expect(await answerTo(`${line} HTTP/1.1\r\n${head}${headers()}\r\n`)).toEqual(expected);
  });

  test('an empty list as the logo is taken, and stores nulls', async () => {
    const headers = { authorization: `Bearer ${named['admin']}`, 'content-type': 'application/json', accept: '*/*' };
    const body = JSON.stringify({ configuration: { logo: [] } });
    const answer = await fetch(`${simulator.url}/v0/configuration`, { method: 'PATCH', headers, body });
    expect(answer.status).toBe(200);
    const stored = (await answer.json()) as { readonly data: { readonly logo: unknown } };
    expect(stored.data.logo).toEqual({ data: null, type: null, url: null });
  });
});
