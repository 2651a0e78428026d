import { setFlagsFromString } from 'node:v8';
import { systemClock } from '../../adapters/clock.ts';
import { addProcessMetrics, type ControllerMetrics, createMetrics } from '../../adapters/metrics/metrics.ts';
import type { Listening } from '../../adapters/web/listen.ts';
import { createStalledStatus, createStatus, type Status } from '../../controller/status.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { Logger } from '../../ports.ts';
import { version } from '../../version.ts';
import { exitCodes } from '../exit-code.ts';
import { Failure } from '../failure.ts';
import { createLogger } from '../logger.ts';
import { nameVariable } from '../options.ts';
import type { Settings } from '../settings.ts';
import type { WatchInvocation } from '../watch/invocation.ts';
import type { PageSources } from '../watch/page.ts';
import { type Running, startWatching } from '../watch/start.ts';
import type { StatusServerView } from '../watch/status-server.ts';

/** How long bad settings are believed before they are read again. */
const rereadMs = 10_000;
/** After SIGTERM: requests in flight (15 s), open gaps (10 s), then the end, whatever hangs. */
const lastMs = 40_000;

/** Watches until told to stop. Exit 0 after an orderly end; with `--once` as the first pass went. */
export async function watch(invocation: WatchInvocation): Promise<number> {
  keepSmall();
  const { terminal } = invocation;
  const view = createView();
  const metrics = addProcessMetrics(createMetrics(version, view.status));
  const pages = async () => ({ view: (await import('../watch/page.ts')).createPages(view) });
  const front = keepStatusServer(invocation, { ...view, pages, metrics });
  const hup = hangUps();
  endInTime(terminal.stop);
  try {
    return await keepWatching(invocation, { view, metrics, hangUp: hup.next, serve: front.serve });
  } finally {
    hup.close();
    await front.close();
  }
}

/** What a controller is kept with. */
export interface Keeping {
  readonly view: WatchView;
  readonly metrics: ControllerMetrics;
  readonly hangUp: () => Promise<void>;
  /** Called with the settings before they are used, and with null where they cannot be. */
  readonly serve: (settings: Settings | null) => Promise<void>;
}

/** Runs one controller until it is told to stop; while its settings cannot be used it waits for better ones. */
export async function keepWatching(invocation: WatchInvocation, { view, metrics, hangUp, serve }: Keeping) {
  const { terminal } = invocation;
  for (;;) {
    const running = await attempt(invocation, async (settings) => {
      await serve(settings);
      return startWatching({ ...invocation, settings, metrics });
    });
    if (running.ok) {
      view.show(running.value);
      return await running.value.run(hangUp);
    }
    const failure = running.error;
    if (invocation.flags['once'] === true || terminal.stop.aborted) throw failure;
    await serve(null).catch(() => undefined); // without an address there is nothing to serve
    view.stall(failure);
    await report(invocation, failure);
    await Promise.race([systemClock.sleep(rereadMs, terminal.stop), hangUp()]);
    if (terminal.stop.aborted) return exitCodes.ok;
  }
}

/** A small heap, collected often. At 1,000 rules 101 MB resident instead of 145; at 10,000 an idle pass takes 125 ms, not 71. */
function keepSmall(): void {
  setFlagsFromString('--heap-growing-percent=20');
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** The same where a heap is large anyway: of 1,000 targets 400 MB resident instead of 560, at the same cost of CPU. */
export function keepModest(): void {
  setFlagsFromString('--heap-growing-percent=50');
}

async function attempt(
  invocation: WatchInvocation,
  start: (settings: Settings) => Promise<Running>,
): Promise<Result<Running, Failure>> {
  try {
    return ok(await start(await invocation.load()));
  } catch (error) {
    if (error instanceof Failure) return fail(error);
    throw error;
  }
}

/** What is known of one controller, also while there is none. */
export interface WatchView extends PageSources, Pick<StatusServerView, 'alive' | 'ready'> {
  /** The controller that runs; null: there is none. */
  running(): Running | null;
  show(running: Running): void;
  stall(failure: Failure): void;
}

/** What the status server shows: the loop's status, or why there is no loop yet. */
export function createView(): WatchView {
  const startedAt = systemClock.wallTime();
  let status: () => Status = () => createStatus(version, '', startedAt);
  let running: Running | null = null;
  return {
    status: () => status(),
    settings: () => running?.settings() ?? null,
    sight: () => running?.sight ?? null,
    alive: () => running === null || running.alive(),
    ready: () => running?.ready() ?? false,
    running: () => running,
    show(now) {
      running = now;
      status = now.status;
    },
    stall(failure) {
      const stalled = createStalledStatus(version, failure.message, systemClock.wallTime());
      status = () => stalled;
    },
  };
}

/** Serves the status at the first address that works; it stays there for the life of the process. */
export function keepStatusServer(invocation: WatchInvocation, view: StatusServerView) {
  let serving: Listening | null = null;
  return {
    async serve(settings: Settings | null): Promise<void> {
      const find = (name: EarlySetting): string | null => settings?.[name] ?? rawText(invocation, name);
      const listen = find('listen');
      if (serving !== null || listen === null) return;
      const [tokenFile, tlsCert, tlsKey] = [find('listenTokenFile'), find('listenTlsCert'), find('listenTlsKey')];
      const { serveStatus } = await import('../watch/status-server.ts');
      serving = await serveStatus({ listen, hosts: settings?.listenHost ?? [], tokenFile, tlsCert, tlsKey }, view);
      const logger =
        settings === null ? await earlyLogger(invocation) : await createLogger({ ...invocation, settings }, 'info');
      logger.info('Serving the status', { address: serving.url });
    },
    close: async (): Promise<void> => serving?.close(),
  };
}

type EarlySetting = 'listen' | 'listenTokenFile' | 'listenTlsCert' | 'listenTlsKey';

/** While the settings cannot be used, the address is taken from the flag or the variable alone. */
function rawText({ flags, terminal }: WatchInvocation, name: EarlySetting): string | null {
  const flag = flags[name];
  return typeof flag === 'string' ? flag : (terminal.env[nameVariable(name)] ?? null);
}

/** The log while the settings cannot be used: its form is taken from the flag or the variable alone. */
function earlyLogger({ flags, terminal }: WatchInvocation): Promise<Logger> {
  const logFormat = flags['logFormat'] === 'json' || terminal.env['RECONCILE_LOG_FORMAT'] === 'json' ? 'json' : 'text';
  return createLogger({ settings: { logFormat, verbose: false }, terminal }, 'info');
}

async function report(invocation: WatchInvocation, failure: Failure): Promise<void> {
  const logger = await earlyLogger(invocation);
  for (const { code, summary, hint } of failure.problems) {
    logger.error('The settings cannot be used; waiting for better ones', { code, summary, hint: hint ?? '' });
  }
}

/** SIGHUP as something to wait for. */
export function hangUps() {
  const bell = createBell();
  process.on('SIGHUP', bell.ring);
  return { next: bell.next, close: (): void => void process.off('SIGHUP', bell.ring) };
}

/** Something to wait for; a ring that comes while nobody waits is kept. */
export function createBell() {
  let pending = false;
  let waiting: (() => void) | null = null;
  return {
    ring(): void {
      if (waiting === null) pending = true;
      waiting?.();
      waiting = null;
    },
    next: () =>
      new Promise<void>((resolve) => {
        if (pending) {
          pending = false;
          resolve();
        } else waiting = resolve;
      }),
  };
}

/** Ends the process some time after it was asked to, whatever hangs. */
export function endInTime(stop: AbortSignal): void {
  const onStop = (): void => {
    setTimeout(() => process.exit(exitCodes.partial), lastMs).unref();
  };
  if (stop.aborted) onStop();
  else stop.addEventListener('abort', onStop, { once: true });
}
