import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { streamSSE } from 'hono/streaming';
import type { Clock } from '../../ports.ts';
import { readBytes } from '../read-bytes.ts';
import { isLoopback } from './listen.ts';
import { createBucket, isSameSecret } from './secret.ts';

/** What the status server shows and whom it answers. */
export interface StatusAppSettings {
  readonly view: PageView;
  /** What stands below /targets/NAME/; null: nothing does. */
  readonly below?: (name: string) => PageView | null;
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
  /** It answers over TLS. */
  readonly isSecure: boolean;
  readonly clock: Clock;
}

/** The pages and documents; nothing in them is secret. */
export interface PageView {
  /** What the pages may do in a browser. */
  readonly policy: string;
  /** A text that is another one as soon as there is something else to show. */
  readonly version: () => string;
  page(asked: URLSearchParams, reader: Reader): string;
  signIn(problem: string | null): string;
  /** JSON, the same bytes where nothing changed since; null: there is no document of this name. */
  document(name: string, asked: URLSearchParams, isSignedIn: boolean): Buffer<ArrayBuffer> | null;
}

interface App {
  readonly Bindings: Partial<HttpBindings>;
  readonly Variables: { readonly reader: Reader };
}

/** Who asks. `hasSession`: by the browser's cookie. */
type Reader = Readonly<Record<'isSignedIn' | 'hasSession', boolean>>;

/** Streams of events at once; others ask every few seconds instead. */
const mostStreams = 20;
const tickMs = 300;
const keepAliveTicks = 50;
/** From so many bytes on a document is large; so many different ones are on their way to slow readers at once. */
const largeDocument = 1_000_000;
const mostLarge = 3;
/** Largest form with a token, bytes. */
const largestForm = 4096;

/**
 * `/healthz` and `/readyz` answer everybody with one word. Everything else needs the token beyond loopback, as Bearer or by a
 * session that began with it, and is only given under a known Host (a page in a browser could otherwise read it by rebinding a
 * name) and to no page of another origin. Nothing here acts on the server, and nothing shown is secret.
 */
export function createStatusApp(settings: StatusAppSettings): Hono<App> {
  const app = new Hono<App>();
  const door = openDoor(settings);
  app.use(async (context, next) => {
    await next();
    context.header('content-security-policy', settings.view.policy);
    context.header('x-content-type-options', 'nosniff');
    context.header('x-frame-options', 'DENY');
    context.header('cross-origin-resource-policy', 'same-origin');
    context.header('referrer-policy', 'same-origin');
    context.header('cache-control', 'no-store');
  });
  app.get('/healthz', (context) => (settings.alive() ? context.text('ok\n') : context.text('no progress\n', 503)));
  app.get('/readyz', (context) => (settings.ready() ? context.text('ready\n') : context.text('not ready\n', 503)));
  app.use(async (context, next) => {
    const { host, origin } = context.req.header();
    if (!knownHost(host, settings, settings.token() !== null)) {
      return context.text('unknown Host: name it with --listen-host\n', 421);
    }
    const isForeign = origin !== undefined && (!URL.canParse(origin) || new URL(origin).host !== host);
    return isForeign ? context.text('a page of another origin asks\n', 403) : next();
  });
  app.post('/sign-in', (context) => door.signIn(context));
  app.post('/sign-out', (context) => door.signOut(context));
  app.use(async (context, next) => {
    const reader = door.readerOf(context);
    if (reader instanceof Response) return reader;
    context.set('reader', reader);
    return next();
  });
  addPages(app, settings, door);
  app.notFound((context) => context.text('not found\n', 404));
  app.onError((_error, context) => context.text('internal error\n', 500));
  return app;
}

function addPages(app: Hono<App>, settings: StatusAppSettings, door: ReturnType<typeof openDoor>): void {
  const { view, below, metrics, clock } = settings;
  const askedOf = (context: Context<App>): URLSearchParams => new URL(context.req.url).searchParams;
  const json = { 'content-type': 'application/json' };
  let streams = 0;
  app.get('/metrics', async (context) => {
    const { type, text } = await metrics();
    return context.body(text, 200, { 'content-type': type });
  });
  const get = (path: string, make: (context: Context<App>, shown: PageView) => Response): void => {
    app.on('GET', [path, `/targets/:target${path}`], (context) => {
      const name = context.req.param('target');
      const shown = name === undefined ? view : (below?.(name) ?? null);
      return shown === null ? context.text('not found\n', 404) : make(context, shown);
    });
  };
  // The links of a page are relative to its last slash.
  app.get('/targets/:target', (context) => context.redirect(`${context.req.path}/`));
  get('/', (context, shown) => context.html(shown.page(askedOf(context), context.get('reader'))));
  get('/api/v1/events', (context, shown) => {
    // Nobody reads what follows a HEAD, so that its stream would never end.
    if (context.req.method === 'HEAD') return context.body(null, 200, { 'content-type': 'text/event-stream' });
    if (streams >= mostStreams) return context.text('too many streams of events\n', 503);
    streams++;
    return streamSSE(context, async (stream) => {
      let told = '';
      try {
        for (let tick = 0; !stream.aborted && !(door.readerOf(context) instanceof Response); tick++) {
          const now = shown.version();
          if (now !== told || tick % keepAliveTicks === 0)
            await stream.writeSSE({ event: now === told ? 'alive' : 'state', data: '' });
          told = now;
          await clock.sleep(tickMs);
        }
      } finally {
        streams--;
      }
    });
  });
  const underWay = new Map<NonNullable<App['Bindings']['outgoing']>, Uint8Array>();
  const makeDocument = (context: Context<App>, shown: PageView, name: string): Response => {
    const bytes = shown.document(name, askedOf(context), context.get('reader').isSignedIn);
    if (bytes === null) return context.text('not found\n', 404);
    const [outgoing, large] = [context.env?.outgoing, new Set(underWay.values())];
    if (outgoing !== undefined && bytes.length >= largeDocument) {
      // A reader that stands still keeps nobody from what is new.
      const [oldest] = large.size >= mostLarge && !large.has(bytes) ? large : [];
      for (const [late, held] of underWay) if (held === oldest) late.destroy();
      underWay.set(outgoing, bytes);
      outgoing.once('close', () => underWay.delete(outgoing));
      return context.body(ReadableStream.from(cutPieces(bytes)), 200, json);
    }
    return context.body(bytes, 200, json);
  };
  get('/api/v1/:name', (context, shown) => makeDocument(context, shown, context.req.param('name') ?? ''));
  get('/status', (context, shown) => makeDocument(context, shown, 'status'));
}

/** The bytes as they are read: a body of all of them would be a copy for each reader. */
function* cutPieces(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
}

/** Lets in who brings the token, once for a session or with each request. */
function openDoor({ token, host, isSecure, view, clock }: StatusAppSettings) {
  const [sessions, guesses] = [createSessions(clock), createGuesses(clock)];
  const fromOf = (context: Context<App>): string => context.env?.incoming?.socket.remoteAddress ?? '';
  const cookie = isSecure ? '__Host-reconcile' : 'reconcile';
  const tooMany = (context: Context<App>): Response => {
    context.header('retry-after', '10');
    return context.text('too many wrong tokens: try again in ten seconds\n', 429);
  };
  return {
    /** Who asks, or the answer to somebody who may not. */
    readerOf(context: Context<App>): Reader | Response {
      const expected = token();
      if (expected === null) {
        return isLoopback(host)
          ? { isSignedIn: false, hasSession: false }
          : context.text('no token is configured\n', 403);
      }
      if (sessions.isOpen(getCookie(context, cookie) ?? '', expected)) return { isSignedIn: true, hasSession: true };
      const given = /^Bearer +(\S+)$/i.exec(context.req.header('authorization') ?? '')?.[1];
      if (given !== undefined) {
        if (!guesses.mayTry(fromOf(context))) return tooMany(context);
        if (isSameSecret(given, expected)) return { isSignedIn: true, hasSession: false };
        guesses.failed(fromOf(context));
      }
      context.header('www-authenticate', 'Bearer');
      const isPage =
        /^\/(?:targets\/[^/]+\/?)?$/.test(context.req.path) && context.req.header('accept')?.includes('text/html');
      return isPage ? context.html(view.signIn(null), 401) : context.text('a token is required\n', 401);
    },
    async signIn(context: Context<App>): Promise<Response> {
      const expected = token();
      if (expected === null) return context.text('not found\n', 404);
      if (!guesses.mayTry(fromOf(context))) return tooMany(context);
      const { body } = context.req.raw;
      const form = body === null ? new Uint8Array() : await readBytes(body, largestForm);
      if (form === null) return context.text('too large\n', 413);
      const given = new URLSearchParams(new TextDecoder().decode(form)).get('token') ?? '';
      if (!isSameSecret(given.trim(), expected)) {
        guesses.failed(fromOf(context));
        return context.html(view.signIn('This is not the token.'), 401);
      }
      sessions.end(getCookie(context, cookie) ?? '');
      // Behind a proxy that speaks TLS the browser may keep it for TLS too; whoever forges this header only harms themselves.
      const secure = isSecure || context.req.header('x-forwarded-proto') === 'https';
      setCookie(context, cookie, sessions.begin(expected), { httpOnly: true, sameSite: 'Strict', path: '/', secure });
      return context.redirect('/', 303);
    },
    signOut(context: Context<App>): Response {
      if (token() === null) return context.text('not found\n', 404);
      sessions.end(getCookie(context, cookie) ?? '');
      deleteCookie(context, cookie, { path: '/', secure: isSecure });
      return context.redirect('/', 303);
    },
  };
}

/** With a token a browser cannot be tricked into asking, so that an address of its own (a pod's) is enough. */
function knownHost(header: string | undefined, settings: StatusAppSettings, hasToken: boolean): boolean {
  const host = (header ?? '').replace(/:\d+$/, '');
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  if (isLoopback(name) || name === settings.host.toLowerCase() || settings.hosts.includes(name)) return true;
  return hasToken && settings.hosts.length === 0 && isIP(name) !== 0;
}

const sessionMs = 12 * 3_600_000;
const mostSessions = 100;
const mostAddresses = 1000;

/** Sessions of people who signed in with the token; a new token ends those of the old one. */
function createSessions(clock: Clock) {
  const open = new Map<string, { readonly token: string; readonly until: number }>();
  return {
    /** The new session's id, which only the browser learns. */
    begin(token: string): string {
      const id = randomBytes(32).toString('base64url');
      open.set(id, { token, until: clock.now() + sessionMs });
      for (const oldest of [...open.keys()].slice(0, -mostSessions)) open.delete(oldest);
      return id;
    },
    isOpen(id: string, token: string): boolean {
      const session = open.get(id);
      return session !== undefined && session.until > clock.now() && isSameSecret(session.token, token);
    },
    end: (id: string): boolean => open.delete(id),
  };
}

/** One network of IPv6 (its first 64 bits) counts as one address. */
function networkOf(address: string): string {
  if (address.includes('.')) return address;
  const [left = [], right = []] = address.split('::').map((half) => half.split(':'));
  // `::` stands for zeros, so that each address of `2001:db8::/64` would otherwise count by itself.
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}

/** Slows down who guesses the token: ten tries at once, then one every ten seconds, for each address that they come from. */
function createGuesses(clock: Clock) {
  const left = new Map<string, ReturnType<typeof createBucket>>();
  return {
    /** Whether what comes from there is still looked at. */
    mayTry: (address: string): boolean => left.get(networkOf(address))?.left() ?? true,
    failed(from: string): void {
      const address = networkOf(from);
      const bucket = left.get(address) ?? createBucket(clock, 10, 0.1);
      bucket.take();
      left.delete(address);
      left.set(address, bucket);
      for (const oldest of [...left.keys()].slice(0, -mostAddresses)) left.delete(oldest);
    },
  };
}
