import { setFlagsFromString } from 'node:v8';
import { systemClock } from '../../adapters/clock.ts';
import { type ControllerMetrics, createMetrics } from '../../adapters/metrics/metrics.ts';
import type { Listening } from '../../adapters/web/listen.ts';
import { createStalledStatus, createStatus, type Status } from '../../controller/status.ts';
import type { Trigger } from '../../controller/trigger.ts';
import type { ProblemCode } from '../../model/problem-code.ts';
import { version } from '../../version.ts';
import { exitCodes, Failure, type Settings } from '../command.ts';
import { createLogger } from '../logger.ts';
import { nameVariable } from '../options.ts';
import { settle } from '../settings.ts';
import type { WatchInvocation } from '../watch/invocation.ts';
import type { PageSources } from '../watch/page.ts';
import type { Serve, WatchProcess } from '../watch/servers.ts';
import { explainSettings, type Running, startWatching } from '../watch/start.ts';

/** How long bad settings are believed before they are read again. */
const rereadMs = 10_000;
/** After SIGTERM: requests in flight (15 s), open gaps (10 s), then the end, whatever hangs. */
const lastMs = 40_000;

/** Watches until told to stop. Exit 0 after an orderly end; with `--once` as the first pass went. */
export async function watch(invocation: WatchInvocation): Promise<number> {
  // A small heap. At 1,000 rules 96 MB resident instead of 145, 124 without the second line; collected more often than at 50%,
  // a change of 10,000 rules takes a sixth more CPU and no less memory.
  setFlagsFromString('--heap-growing-percent=50');
  setFlagsFromString('--semi-space-growth-factor=1');
  return await watchProcess(invocation, new Keeper(invocation));
}

/** Runs what watches, beside what a process has once: SIGHUP, an end in time, the status page and webhooks. */
export async function watchProcess(invocation: WatchInvocation, work: WatchProcess): Promise<number> {
  const { stop, onHangUp } = invocation.terminal;
  const open: { page?: Listening | null; webhooks?: Listening | null } = {};
  const serve: Serve = async (settings) => {
    if (settings.listen === null && settings.webhookListen === null) return;
    const servers = await import('../watch/servers.ts');
    const logger = await createLogger({ ...invocation, settings }, 'info');
    // The first addresses that work are served for the life of the process.
    open.page ??= await servers.servePage(settings, work, logger);
    open.webhooks ??= await servers.serveWebhooks(settings, work, logger);
  };
  const ignoreHangUps = onHangUp?.(() => void work.hangUp());
  // Whatever hangs.
  const onStop = (): void => void setTimeout(() => process.exit(exitCodes.partial), lastMs).unref();
  if (stop.aborted) onStop();
  else stop.addEventListener('abort', onStop, { once: true });
  try {
    return await work.run(serve);
  } finally {
    ignoreHangUps?.();
    await Promise.all([open.page?.close(), open.webhooks?.close()]);
  }
}

const early = ['listen', 'listenTokenFile', 'listenTlsCert', 'listenTlsKey', 'logFormat'] as const;

/** While the settings cannot be used, the page and the form of the log are as the flags or the variables alone say. */
function readEarly({ flags, terminal: { env, cwd } }: WatchInvocation): Settings {
  const given = early.map((name) => [name, flags[name] ?? env[nameVariable(name)]] as const);
  const usable = given.filter(([name, value]) => value !== '' && (name !== 'logFormat' || value === 'json'));
  return settle({ flags: Object.fromEntries(usable), env: {}, cwd, file: null });
}

const given = new Set<ProblemCode>(['usage', 'no-path', 'no-base-url']);

/** One controller for the life of the process: while its settings cannot be used it waits for better ones. */
export class Keeper implements PageSources, WatchProcess {
  readonly #invocation: WatchInvocation;
  readonly metrics: ControllerMetrics;
  readonly #startedAt = systemClock.wallTime();
  running: Running | null = null;
  /** Why there is no controller yet. */
  #stalled: Status | null = null;
  /** Aborts when somebody wants the settings to be read again while none could be used. */
  #again = new AbortController();

  /** `metrics`: those of a process that has several controllers. */
  constructor(invocation: WatchInvocation, metrics?: ControllerMetrics) {
    this.#invocation = invocation;
    this.metrics = metrics ?? createMetrics(version, () => [[{}, this.status()]]);
  }

  async pages(): ReturnType<WatchProcess['pages']> {
    return { view: (await import('../watch/page.ts')).createPages(this) };
  }

  status(): Status {
    return this.#stalled ?? this.running?.loop.status() ?? createStatus(version, '', this.#startedAt);
  }

  alive(): boolean {
    return this.running?.loop.isAlive() ?? true;
  }

  ready(): boolean {
    return this.running?.loop.isReady() ?? false;
  }

  wake(trigger: Trigger = 'webhook'): void {
    this.running?.wake(trigger);
  }

  async stall(failure: Failure): Promise<void> {
    const status = createStalledStatus(version, explainSettings(failure), systemClock.wallTime());
    const known = await this.#invocation.shared?.readStuck();
    this.#stalled = { ...status, revisions: { ...status.revisions, failed: null, ...known } };
  }

  async hangUp(): Promise<void> {
    this.#again.abort();
    await this.running?.reload();
  }

  /** Runs until told to stop; gives the exit code. */
  async run(serve: Serve): Promise<number> {
    const { metrics } = this;
    const invocation = this.#invocation;
    const { stop } = invocation.terminal;
    for (;;) {
      let settings: Settings | null = null;
      try {
        settings = await invocation.load();
        await serve(settings);
        this.running = await startWatching({ ...invocation, settings, metrics });
      } catch (error) {
        if (!(error instanceof Failure) || invocation.flags['once'] === true || stop.aborted) throw error;
        // Wrong flags and variables are what they are; a file can be mended.
        const isGiven = settings === null || error.problems.every(({ code }) => given.has(code));
        if (isGiven && !invocation.flags['config'] && !invocation.terminal.env['RECONCILE_CONFIG']) throw error;
        await this.#wait(error, serve);
        if (stop.aborted) return exitCodes.ok;
        continue;
      }
      this.#stalled = null;
      if (this.#again.signal.aborted) await this.running.reload();
      return await this.running.run();
    }
  }

  async #wait(failure: Failure, serve: Serve): Promise<void> {
    const { terminal } = this.#invocation;
    const settings = readEarly(this.#invocation);
    await serve(settings).catch(() => undefined); // without an address there is nothing to serve
    await this.stall(failure);
    const logger = await createLogger({ ...this.#invocation, settings }, 'info');
    logger.error('The settings cannot be used; waiting for better ones', { summary: explainSettings(failure) });
    await systemClock.sleep(rereadMs, AbortSignal.any([terminal.stop, this.#again.signal]));
    this.#again = new AbortController();
  }
}
