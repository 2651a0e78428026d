import { Hono } from 'hono';
import type { Status } from '../../controller/status.ts';
import { escapeControls } from '../../model/printable.ts';
import { isLoopback } from './listen.ts';
import { renderStatusPage } from './page.ts';
import { isSameSecret } from './secret.ts';

/** What the status server shows and whom it answers. */
export interface StatusAppSettings {
  readonly status: () => Status;
  /** Liveness: the loop made progress lately. */
  readonly alive: () => boolean;
  /** Readiness: settings are good, and a first pass was judged or another replica writes. */
  readonly ready: () => boolean;
  readonly metrics: () => Promise<{ readonly type: string; readonly text: string }>;
  /** Address it listens on; beyond loopback a token is required. */
  readonly host: string;
  /** More names under which it may be addressed. */
  readonly hosts: readonly string[];
  /** The token that callers must bring; null: none is required (loopback only). Read anew for each request. */
  readonly token: () => string | null;
}

/**
 * `/healthz` and `/readyz` answer everybody with one word. `/metrics`, `/status` and the page `/` need the token beyond
 * loopback, and are only given under a known Host (a page in a browser could otherwise read them by rebinding a name).
 * Nothing here acts, and nothing shown is secret.
 */
export function createStatusApp(settings: StatusAppSettings): Hono {
  const app = new Hono();
  app.use(async (context, next) => {
    await next();
    context.header(
      'content-security-policy',
      "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    );
    context.header('x-content-type-options', 'nosniff');
    context.header('referrer-policy', 'no-referrer');
    context.header('cache-control', 'no-store');
  });
  app.get('/healthz', (context) => (settings.alive() ? context.text('ok\n') : context.text('no progress\n', 503)));
  app.get('/readyz', (context) => (settings.ready() ? context.text('ready\n') : context.text('not ready\n', 503)));
  app.use(async (context, next) => {
    const expected = settings.token();
    if (!knownHost(context.req.header('host'), settings, expected !== null)) {
      return context.text('unknown Host: name it with --listen-host\n', 421);
    }
    if (expected === null) {
      return isLoopback(settings.host) ? next() : context.text('no token is configured\n', 403);
    }
    const given = /^Bearer +(\S+)$/i.exec(context.req.header('authorization') ?? '')?.[1] ?? '';
    if (isSameSecret(given, expected)) return next();
    context.header('www-authenticate', 'Bearer');
    return context.text('a token is required\n', 401);
  });
  app.get('/metrics', async (context) => {
    const { type, text } = await settings.metrics();
    return context.body(text, 200, { 'content-type': type });
  });
  app.get('/status', (context) => context.json(printableStatus(settings.status())));
  app.get('/', (context) => context.html(renderStatusPage(printableStatus(settings.status()))));
  app.notFound((context) => context.text('not found\n', 404));
  app.onError((_error, context) => context.text('internal error\n', 500));
  return app;
}

/** The status with every text safe to show: names and remote text may hold escapes and characters that change direction. */
function printableStatus(status: Status): Status {
  return JSON.parse(
    JSON.stringify(status, (_key, value: unknown) => (typeof value === 'string' ? escapeControls(value) : value)),
  );
}

/** With a token a browser cannot be tricked into asking, so that an address of its own (a pod's) is enough. */
function knownHost(header: string | undefined, settings: StatusAppSettings, hasToken: boolean): boolean {
  const name = (header ?? '')
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  if (isLoopback(name) || name === settings.host.toLowerCase() || settings.hosts.includes(name)) return true;
  return hasToken && settings.hosts.length === 0 && /^[0-9a-f:.]+$/.test(name);
}
