import { createHmac } from 'node:crypto';
import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import type { Clock } from '../../ports.ts';
import { sameSecret } from './secret.ts';

/** What became of a call. */
export type WebhookResult = 'woken' | 'ignored' | 'unsigned' | 'too-large' | 'too-many';

/** Who may wake the loop. */
export interface WebhookSettings {
  /** Read anew for each call; it must not be empty. */
  readonly secret: () => string;
  readonly wake: () => void;
  readonly clock: Clock;
  readonly onResult: (result: WebhookResult) => void;
  /** Largest body, bytes. */
  readonly maxBody: number;
  /** Calls that may come at once, and how many a second are allowed after that. */
  readonly burst: number;
  readonly perSecond: number;
}

export const defaultWebhook = { maxBody: 5_000_000, burst: 30, perSecond: 1 } as const;

/**
 * `POST /webhook`: a signed call of GitHub, GitLab, Gitea, Forgejo, or anything that sends
 * `X-Reconcile-Signature: sha256=HMAC`. The body is only signed over, never parsed, and nothing in it is used: a call wakes
 * the loop, and what is in force still comes from the configured source alone.
 */
export function webhookApp(settings: WebhookSettings): Hono {
  const app = new Hono();
  const allowed = bucket(settings);
  const refuse = (result: WebhookResult, text: string, status: 401 | 413 | 429) => {
    settings.onResult(result);
    return new Response(`${text}\n`, {
      status,
      headers: { 'content-type': 'text/plain', 'cache-control': 'no-store' },
    });
  };
  app.post(
    '/webhook',
    async (_context, next) => (allowed() ? next() : refuse('too-many', 'too many calls', 429)),
    bodyLimit({ maxSize: settings.maxBody, onError: () => refuse('too-large', 'too large', 413) }),
    async (context) => {
      const body = Buffer.from(await context.req.arrayBuffer());
      const header = (name: string): string | undefined => context.req.header(name);
      if (!isSigned(header, body, settings.secret())) return refuse('unsigned', 'no valid signature', 401);
      const ping = header('x-github-event') === 'ping';
      settings.onResult(ping ? 'ignored' : 'woken');
      if (!ping) settings.wake();
      return context.text('accepted\n', 202);
    },
  );
  app.notFound((context) => context.text('not found\n', 404));
  app.onError((_error, context) => context.text('bad request\n', 400));
  return app;
}

/** The sender's own header decides how the secret was used; without a secret nobody is let in. */
function isSigned(header: (name: string) => string | undefined, body: Buffer, secret: string): boolean {
  if (secret === '') return false;
  const gitlab = header('x-gitlab-token');
  if (gitlab !== undefined) return sameSecret(gitlab, secret);
  const given =
    header('x-hub-signature-256') ??
    header('x-reconcile-signature') ??
    prefixed(header('x-gitea-signature') ?? header('x-forgejo-signature'));
  if (given === undefined) return false;
  const expected = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  return sameSecret(given.toLowerCase(), expected);
}

function prefixed(hex: string | undefined): string | undefined {
  return hex === undefined ? undefined : `sha256=${hex}`;
}

/** A bucket of calls that fills by the monotonic clock. */
function bucket({ burst, perSecond, clock }: WebhookSettings): () => boolean {
  let level = burst;
  let at = clock.now();
  return () => {
    const now = clock.now();
    level = Math.min(burst, level + ((now - at) / 1000) * perSecond);
    at = now;
    if (level < 1) return false;
    level -= 1;
    return true;
  };
}
