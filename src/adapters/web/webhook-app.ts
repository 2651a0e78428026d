import { createHmac } from 'node:crypto';
import { Hono } from 'hono';
import type { Clock } from '../../ports.ts';
import { createBucket, isSameSecret } from './secret.ts';

export type WebhookResult = 'woken' | 'ignored' | 'unsigned' | 'too-large' | 'too-many';

/** Who may wake the loop. */
export interface WebhookSettings {
  /** Read anew for each call; it must not be empty. */
  readonly secret: () => string;
  readonly wake: () => void;
  readonly clock: Clock;
  readonly onResult: (result: WebhookResult) => void;
}

/** Calls that may come at once, and how many a second are allowed after that; for junk and for real calls alike. */
const [burst, perSecond] = [30, 1];
/** Largest body, bytes. */
const largestBody = 5_000_000;
/** Largest body that is still looked at while junk comes in faster than it is let in, bytes; a push of 20 commits has 30,000. */
const largestInFlood = 250_000;

/**
 * `POST /webhook`: a signed call of GitHub, GitLab, Gitea, Forgejo, or anything that sends
 * `X-Reconcile-Signature: sha256=HMAC`. The body is only signed over as it comes in, never kept or parsed, and nothing in it
 * is used: a call wakes the loop, and what is in force still comes from the configured source alone. Calls that carry nothing
 * that could be a signature are refused unread; junk and real calls are counted apart, so that a flood of one holds up no other.
 */
export function createWebhookApp(settings: WebhookSettings): Hono {
  const app = new Hono();
  const real = createBucket(settings.clock, burst, perSecond);
  const junk = createBucket(settings.clock, burst, perSecond);
  const refuse = (result: WebhookResult, text: string, status: 401 | 413 | 429) => {
    settings.onResult(result);
    const headers = { 'content-type': 'text/plain', 'cache-control': 'no-store' };
    return new Response(`${text}\n`, { status, headers });
  };
  const tooMany = (): Response => refuse('too-many', 'too many calls', 429);
  app.post('/webhook', async (context) => {
    const header = (name: string): string | undefined => context.req.header(name);
    const claim = claimOf(header);
    const secret = settings.secret();
    if (claim === null || secret === '') return refuse('unsigned', 'no valid signature', 401);
    const maxBody = junk.left() ? largestBody : largestInFlood;
    const announced = Number(header('content-length') ?? 0);
    const signature = announced > maxBody ? null : await signatureOf(context.req.raw.body, secret, maxBody);
    if (signature === null) return maxBody < largestBody ? tooMany() : refuse('too-large', 'too large', 413);
    if (!isSameSecret(claim.value, claim.isToken ? secret : signature))
      return junk.take() ? refuse('unsigned', 'no valid signature', 401) : tooMany();
    if (!real.take()) return tooMany();
    const ping = header('x-github-event') === 'ping';
    settings.onResult(ping ? 'ignored' : 'woken');
    if (!ping) settings.wake();
    return context.text('accepted\n', 202);
  });
  app.notFound((context) => context.text('not found\n', 404));
  app.onError((_error, context) => context.text('bad request\n', 400));
  return app;
}

/** What a call is let in by: GitLab sends the secret itself, others an HMAC of the body in hexadecimal. Null: it has neither. */
function claimOf(header: (name: string) => string | undefined) {
  const token = header('x-gitlab-token');
  if (token !== undefined) return token === '' ? null : { isToken: true, value: token };
  const bare = header('x-gitea-signature') ?? header('x-forgejo-signature') ?? '';
  const prefixed = header('x-hub-signature-256') ?? header('x-reconcile-signature') ?? `sha256=${bare}`;
  const [, given] = /^sha256=([0-9a-f]{64})$/i.exec(prefixed) ?? [];
  return given === undefined ? null : { isToken: false, value: given.toLowerCase() };
}

/** The HMAC of a body, which is read chunk by chunk and not kept; null when it is larger than allowed. */
async function signatureOf(body: ReadableStream<Uint8Array> | null, secret: string, maxBody: number) {
  const hmac = createHmac('sha256', secret);
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > maxBody) return null;
    hmac.update(chunk);
  }
  return hmac.digest('hex');
}
