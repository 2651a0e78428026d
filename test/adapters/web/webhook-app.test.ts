import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookResult } from '../../../src/adapters/web/webhook-app.ts';
import { createWebhookApp } from '../../../src/adapters/web/webhook-app.ts';
import { virtualClock } from '../../controller/support/virtual-clock.ts';

const secret = 'a webhook secret';
const sign = (body: string, algorithm = 'sha256', key = secret): string =>
  createHmac(algorithm, key).update(body).digest('hex');

function hooks(overrides: { secret?: string } = {}) {
  const clock = virtualClock();
  const results: WebhookResult[] = [];
  let woken = 0;
  const app = createWebhookApp({
    secret: () => overrides.secret ?? secret,
    wake: () => {
      woken += 1;
    },
    clock,
    onResult: (result) => void results.push(result),
  });
  const post = async (body: string, headers: Record<string, string>) =>
    (await app.request('/webhook', { method: 'POST', body, headers })).status;
  return { app, clock, results, post, woken: () => woken };
}

const body = '{"ref":"refs/heads/main"}';

describe('webhooks', () => {
  it('are accepted from GitHub, GitLab, Gitea, Forgejo and generic senders', async () => {
    const { post, woken } = hooks();
    const good: Record<string, string>[] = [
      { 'x-hub-signature-256': `sha256=${sign(body)}`, 'x-github-event': 'push' },
      { 'x-gitlab-token': secret },
      { 'x-gitea-signature': sign(body) },
      { 'x-forgejo-signature': sign(body) },
      { 'x-reconcile-signature': `sha256=${sign(body)}` },
    ];
    for (const headers of good) expect([headers, await post(body, headers)]).toEqual([headers, 202]);
    expect(woken()).toBe(good.length);
  });

  it('threat 19: a forged call is refused: wrong, missing, SHA-1, truncated, another body, no secret', async () => {
    const { post, woken, results } = hooks();
    const bad: Record<string, string>[] = [
      {},
      { 'x-hub-signature-256': '' },
      { 'x-hub-signature-256': `sha256=${sign(body, 'sha256', 'other')}` },
      { 'x-hub-signature-256': `sha256=${sign(`${body} `)}` },
      { 'x-hub-signature-256': `sha256=${sign(body).slice(0, 32)}` },
      { 'x-hub-signature-256': sign(body) },
      { 'x-hub-signature': `sha1=${sign(body, 'sha1')}` },
      { 'x-hub-signature-256': `sha1=${sign(body, 'sha1')}` },
      { 'x-gitlab-token': '' },
      { 'x-gitlab-token': 'a webhook secre' },
      { 'x-gitlab-token': `${secret} `.trimEnd().toUpperCase() },
      { 'x-gitea-signature': `sha256=${sign(body)}` },
    ];
    for (const headers of bad) expect([headers, await post(body, headers)]).toEqual([headers, 401]);
    expect(woken()).toBe(0);
    expect(new Set(results)).toEqual(new Set(['unsigned']));
    const open = hooks({ secret: '' });
    expect(await open.post(body, { 'x-gitlab-token': '' })).toBe(401);
    expect(await open.post(body, { 'x-hub-signature-256': `sha256=${sign(body, 'sha256', '')}` })).toBe(401);
  });

  it('threat 20: ten thousand replays are limited, and only wake', async () => {
    const { post, woken, clock, results } = hooks();
    const headers = { 'x-gitlab-token': secret };
    for (let count = 0; count < 10_000; count++) await post(body, headers);
    expect(woken()).toBe(30);
    expect(results.filter((result) => result === 'too-many').length).toBe(9970);
    clock.skip(5000);
    expect(await post(body, headers)).toBe(202);
  });

  it('threat 20: a flood of junk starves no real call, and a flood of real calls no junk', async () => {
    const { post, woken, results } = hooks();
    const forged = { 'x-hub-signature-256': `sha256=${sign(body, 'sha256', 'other')}` };
    const real = { 'x-hub-signature-256': `sha256=${sign(body)}` };
    for (let count = 0; count < 100; count++) expect(await post(body, {})).toBe(401);
    for (let count = 0; count < 30; count++) expect(await post(body, forged)).toBe(401);
    expect([await post(body, forged), await post(body, { 'x-gitlab-token': 'other' })]).toEqual([429, 429]);
    for (let count = 0; count < 30; count++) expect(await post(body, real)).toBe(202);
    expect([await post(body, real), await post(body, {})]).toEqual([429, 401]);
    expect(woken()).toBe(30);
    expect(results.filter((result) => result === 'unsigned').length).toBe(131);
  });

  it('threat 20: in a flood of junk only small bodies are looked at', async () => {
    const { post, clock } = hooks();
    const large = 'x'.repeat(300_000);
    const real = { 'x-hub-signature-256': `sha256=${sign(large)}` };
    for (let count = 0; count < 30; count++) expect(await post(body, { 'x-gitlab-token': 'other' })).toBe(401);
    expect(await post(large, real)).toBe(429);
    clock.skip(1000);
    expect(await post(large, real)).toBe(202);
  });

  it('threat 20: a body past the cap is refused unread, and junk that is signed only wakes', async () => {
    const { post, woken } = hooks();
    const large = 'x'.repeat(5_000_001);
    expect(await post(large, { 'x-hub-signature-256': `sha256=${sign(large)}` })).toBe(413);
    const junk = '{"a":[[[[ \u0000 not json';
    expect(await post(junk, { 'x-hub-signature-256': `sha256=${sign(junk)}` })).toBe(202);
    expect(woken()).toBe(1);
  });

  it('threat 21: an address in a payload is never called: nothing of a payload is used', async () => {
    const { post, woken } = hooks();
    const payload = JSON.stringify({ repository: { clone_url: 'http://169.254.169.254/', url: 'file:///etc/passwd' } });
    const before = process.getActiveResourcesInfo().filter((kind) => kind.includes('TCP')).length;
    expect(await post(payload, { 'x-reconcile-signature': `sha256=${sign(payload)}` })).toBe(202);
    expect(process.getActiveResourcesInfo().filter((kind) => kind.includes('TCP')).length).toBe(before);
    expect(woken()).toBe(1);
  });

  it('answer GitHub’s ping without waking, and nothing on other paths and methods', async () => {
    const { app, post, woken } = hooks();
    expect(await post(body, { 'x-hub-signature-256': `sha256=${sign(body)}`, 'x-github-event': 'ping' })).toBe(202);
    expect(woken()).toBe(0);
    for (const path of ['/', '/status', '/metrics', '/healthz', '/webhook/x'])
      expect((await app.request(path)).status).toBe(404);
    expect((await app.request('/webhook')).status).toBe(404);
  });
});
