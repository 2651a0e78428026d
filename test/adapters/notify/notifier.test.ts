import { createHmac } from 'node:crypto';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type MakeDelivery, notifyGithub, notifySlack, notifyWebhook } from '../../../src/adapters/notify/message.ts';
import { createNotifier } from '../../../src/adapters/notify/notifier.ts';
import type { Turn } from '../../../src/controller/observer.ts';
import type { PassView } from '../../../src/controller/status.ts';
import type { Clock } from '../../../src/ports.ts';
import { someStatus } from '../../controller/support/some-status.ts';
import { desiredRules } from '../../plan/support.ts';
import { startReceiver } from './receiver.ts';

interface Seen {
  readonly path: string;
  readonly headers: Record<string, unknown>;
  readonly body: string;
}

let seen: Seen[];
let answers: number[];
let url: string;
let close: () => Promise<void>;

beforeEach(async () => {
  seen = [];
  answers = [];
  ({ url, close } = await startReceiver((request, body, response) => {
    seen.push({ path: request.url ?? '', headers: request.headers, body });
    const status = answers.shift() ?? 200;
    response.writeHead(status, status === 302 ? { location: `${url}/stolen` } : {}).end();
  }));
});

afterEach(() => close());

const immediate: Clock = {
  now: () => performance.now(),
  wallTime: () => 0,
  random: () => 0.5,
  sleep: (ms) => (ms === 3000 ? new Promise(() => undefined) : Promise.resolve()),
};

async function send(deliver: MakeDelivery, turns: readonly Turn[], timeoutMs = 10_000) {
  const results: string[] = [];
  const warnings: unknown[] = [];
  const notifier = createNotifier({
    targets: [{ name: 'hook', deliver }],
    clock: immediate,
    timeoutMs,
    logger: {
      debug: () => undefined,
      info: () => undefined,
      warn: (message, fields) => void warnings.push([message, fields]),
      error: () => undefined,
    },
    onResult: (name, result) => void results.push(`${name} ${result}`),
  });
  for (const turn of turns) notifier.turned(turn);
  await notifier.flush(3000);
  return { results, warnings };
}

const turn = (what: Turn['what'], text = 'hello'): Turn => {
  const status = someStatus(text);
  return { what, status };
};

const broken = (pass: Partial<PassView>, text = 'hello'): Turn => {
  const { what, status } = turn('broken', text);
  return { what, status: { ...status, passes: status.passes.map((one) => ({ ...one, ...pass })) } };
};

describe('notifications', () => {
  it('are sent whatever Node’s own fetch keeps for all requests of the process', async () => {
    const holder = globalThis as Record<symbol, unknown>;
    const place = Symbol.for('undici.globalDispatcher.1');
    const before = holder[place];
    // An older version refuses handlers that it does not know.
    holder[place] = {
      dispatch: () => {
        throw new TypeError('invalid onConnect method');
      },
    };
    try {
      const target = notifySlack(() => url);
      expect((await send(target, [turn('broken')])).results).toEqual(['hook sent']);
    } finally {
      holder[place] = before;
    }
  });

  it('a generic webhook gets JSON, signed over its exact bytes', async () => {
    const target = notifyWebhook(
      () => `${url}/hook`,
      () => 's',
    );
    const { results } = await send(target, [turn('broken')]);
    expect(results).toEqual(['hook sent']);
    const [call] = seen;
    expect(call?.headers['x-reconcile-signature']).toBe(
      `sha256=${createHmac('sha256', 's')
        .update(call?.body ?? '')
        .digest('hex')}`,
    );
    expect(JSON.parse(call?.body ?? '')).toMatchObject({
      format_version: 1,
      event: 'broken',
      condition: { type: 'Ready', reason: 'Refused', message: 'hello' },
    });
  });

  it('threat 22: Slack gets text in which nothing formats, mentions or controls', async () => {
    const hostile = '<!channel> `code` *bold* \u001b[31m \u202e a\rb\n<https://evil|click> |';
    await send(
      notifySlack(() => `${url}/slack`),
      [turn('broken', hostile)],
    );
    const { text } = JSON.parse(seen[0]?.body ?? '') as { text: string };
    expect(text.replace('*Broken*', '')).not.toMatch(/[<>`*|\p{Cf}]/u);
    expect(text).toContain('&lt;!channel&gt;');
    expect(text.split('\n').length).toBe(2);
  });

  it('GitHub gets a commit status: failure for the commit that is broken, success for the applied one', async () => {
    const target = notifyGithub({ api: url, repository: 'o/r', context: 'reconcile' }, () => 'tok');
    await send(target, [broken({ revision: 'a'.repeat(40) }, 'x'.repeat(300)), turn('applied')]);
    // A newer one has been observed meanwhile.
    await send(target, [broken({ revision: 'b'.repeat(40), failedRevision: 'c'.repeat(40) })]);
    expect(seen.map((call) => call.path)).toEqual([
      `/repos/o/r/statuses/${'a'.repeat(40)}`,
      `/repos/o/r/statuses/${'b'.repeat(40)}`,
      `/repos/o/r/statuses/${'c'.repeat(40)}`,
    ]);
    expect(seen[0]?.headers['authorization']).toBe('Bearer tok');
    const first = JSON.parse(seen[0]?.body ?? '') as { state: string; description: string };
    expect([first.state, first.description.length]).toEqual(['failure', 140]);
    expect(JSON.parse(seen[1]?.body ?? '')).toMatchObject({ state: 'success', context: 'reconcile' });
  });

  const gitHub = () => notifyGithub({ api: url, repository: 'o/r', context: 'c' }, () => 't');

  it('each names the server: a team may have several', async () => {
    const status = someStatus('hello', { server: 'https://vpn.example.com' });
    const one: Turn = { what: 'applied', status };
    await send(
      notifyWebhook(() => url, null),
      [one],
    );
    await send(
      notifySlack(() => url),
      [one],
    );
    const [pass] = status.passes.map((last) => ({ ...last, revision: 'a'.repeat(40) }));
    await send(gitHub(), [one, { what: 'broken', status: { ...status, passes: pass === undefined ? [] : [pass] } }]);
    const [generic, slack, good, bad] = seen.map(({ body }) => JSON.parse(body) as Record<string, string>);
    expect(generic?.['server']).toBe('https://vpn.example.com');
    expect(slack?.['text']).toBe('*Applied*: https://git.example.org/hello at bbbbbbbbbbbb on https://vpn.example.com');
    expect([good?.['description'], bad?.['description']]).toEqual([
      'in effect on vpn.example.com',
      'Refused on vpn.example.com: hello',
    ]);
  });

  it('says which rules begin and end, and when a window opens; a commit has nothing to do with it', async () => {
    const status = { ...someStatus('hello'), windowOpensAt: Date.parse('2026-12-01T08:00:00Z') };
    const [first, second] = desiredRules('accept 10.0.0.1', 'accept 10.0.0.2');
    if (first === undefined || second === undefined) throw new Error('two rules');
    const rules = [
      { rule: { ...first, name: 'a`*<b>' }, what: 'ends', at: Date.parse('2026-12-01T00:00:00Z') },
      { rule: { ...second, name: 'c' }, what: 'begins', at: Date.parse('2026-12-01T01:00:00Z') },
    ] as const;
    const soon: Turn = { what: 'boundary-soon', rules, status };
    const many = Array.from({ length: 25 }, () => rules[1]);
    await send(
      notifyWebhook(() => url, null),
      [soon],
    );
    await send(
      notifySlack(() => url),
      [soon, { ...soon, what: 'boundary-passed', rules: many }],
    );
    await send(gitHub(), [soon]);
    expect(seen).toHaveLength(3);
    const [generic, slack, passed] = seen.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
    expect(generic).toMatchObject({
      event: 'boundary-soon',
      windowOpensAt: '2026-12-01T08:00:00Z',
      rules: [
        { name: 'a`*<b>', what: 'ends', at: '2026-12-01T00:00:00Z' },
        { name: 'c', what: 'begins', at: '2026-12-01T01:00:00Z' },
      ],
    });
    const lines = String(slack?.['text']).split('\n');
    expect(lines[0]).toMatch(/^\*Soon\*: /);
    expect(lines.slice(1)).toEqual([
      'a\u02bc\u02bc&lt;b&gt; ends at 2026-12-01T00:00:00Z',
      'c begins at 2026-12-01T01:00:00Z',
    ]);
    expect(String(passed?.['text'])).toMatch(/^\*Done\*: [\s\S]*c began at 2026-12-01T01:00:00Z\nand 5 more$/);
  });

  it('is tried again after 429 and 5xx, in order, and given up after five attempts', async () => {
    answers = [500, 429, 200, 200];
    const target = notifyWebhook(() => url, null);
    expect((await send(target, [turn('broken'), turn('recovered')])).results).toEqual(['hook sent', 'hook sent']);
    expect(seen.map((call) => (JSON.parse(call.body) as { event: string }).event)).toEqual([
      'broken',
      'broken',
      'broken',
      'recovered',
    ]);
    seen = [];
    answers = [500, 500, 500, 500, 500];
    expect((await send(target, [turn('broken')])).results).toEqual(['hook failed']);
    expect(seen.length).toBe(5);
  });

  it('a refusal is not repeated, a redirect not followed, and the address never logged', async () => {
    const target = notifySlack(() => `${url}/canary-address`);
    answers = [404];
    const refused = await send(target, [turn('broken')]);
    expect(refused.results).toEqual(['hook failed']);
    answers = [302];
    const redirected = await send(target, [turn('broken')]);
    expect(redirected.results).toEqual(['hook failed']);
    expect(seen.map((call) => call.path)).toEqual(['/canary-address', '/canary-address']);
    expect(JSON.stringify([refused.warnings, redirected.warnings])).not.toContain('canary');
  });

  it('is sent once the receiver has said so, whatever else it sends; a receiver that says nothing is named for that', async () => {
    const receiver = await startReceiver((request, _body, response) => {
      if (request.url === '/silent') return;
      response.writeHead(200).write(request.url === '/endless' ? 'and so on'.repeat(20_000) : 'and so on');
    });
    const to = (path: string) => notifyWebhook(() => `${receiver.url}${path}`, null);
    expect((await send(to('/endless'), [turn('broken')])).results).toEqual(['hook sent']);
    expect((await send(to('/unfinished'), [turn('broken')], 2000)).results).toEqual(['hook sent']);
    const { results, warnings } = await send(to('/silent'), [turn('broken')], 100);
    expect(results).toEqual(['hook failed']);
    expect(warnings).toEqual([['A notification could not be delivered', { target: 'hook', code: 'timeout' }]]);
    await receiver.close();
  });

  it('is not delivered where no HTTP is answered, and the log says that with a word', async () => {
    const server = createServer((socket) => void socket.on('error', () => undefined).end('\0\xff'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
    const target = notifyWebhook(() => `http://127.0.0.1:${(server.address() as AddressInfo).port}`, null);
    const { warnings } = await send(target, [turn('broken')]);
    server.close();
    expect(warnings).toEqual([['A notification could not be delivered', { target: 'hook', code: expect.any(String) }]]);
    expect(JSON.stringify(warnings)).not.toContain('undefined');
  });

  it('a target that hangs holds back at most twenty, then drops', async () => {
    const target = notifyWebhook(() => url, null);
    const { results } = await send(
      target,
      Array.from({ length: 25 }, () => turn('broken')),
    );
    expect(results.filter((result) => result === 'hook dropped').length).toBe(5);
    expect(results.filter((result) => result === 'hook sent').length).toBe(20);
  });
});
