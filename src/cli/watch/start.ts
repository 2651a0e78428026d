import path from 'node:path';
import type { ApiClient } from '../../adapters/api/client.ts';
import { systemClock } from '../../adapters/clock.ts';
import type { ControllerMetrics } from '../../adapters/metrics/metrics.ts';
import { createNotifier, type Notifier } from '../../adapters/notify/notifier.ts';
import { storeRecord, storeRecordIn } from '../../adapters/record-store.ts';
import type { GitSettings } from '../../adapters/source/git.ts';
import { findOwnFolder, makeTemporaryState, openState, type StateFolder } from '../../adapters/state-folder.ts';
import { guardApi } from '../../controller/lease.ts';
import { Loop, type LoopSettings } from '../../controller/loop.ts';
import { joinObservers } from '../../controller/observer.ts';
import type { Status } from '../../controller/status.ts';
import { createTriggers, type Trigger, type Triggers } from '../../controller/trigger.ts';
import type { Logger, Source } from '../../ports.ts';
import { version } from '../../version.ts';
import { findServer } from '../approval.ts';
import { chooseVerdictExitCode, exitCodes } from '../exit-code.ts';
import { Failure, makeFailure } from '../failure.ts';
import { createLogger } from '../logger.ts';
import { warnOfLittleMemory } from '../manifests.ts';
import { parseWithin, readConfirmWithin, readWindows } from '../plan-settings.ts';
import type { Settings } from '../settings.ts';
import { type TokenSource, warnOfOpenToken } from '../token.ts';
import { logProxy, openJournalAt, wireApi } from '../wire.ts';
import type { DirectoryWake } from './directory.ts';
import type { WatchContext } from './invocation.ts';
import { createLease } from './lease-settings.ts';
import { readNotifyTargets } from './notify-settings.ts';
import { createWatchPasses, type WatchPasses } from './pass.ts';
import { RecentApplies } from './recent-applies.ts';
import { waitForRestart } from './restart-only.ts';
import { Sight } from './sight.ts';
import { openSource } from './source.ts';
import { watchToken } from './token.ts';

/** A controller that was wired and has not run yet. */
export interface Running {
  /** Runs until the process is told to stop; settings are read again after each hang-up. Gives the exit code. */
  run(hangUp: () => Promise<void>): Promise<number>;
  status(): Status;
  /** The settings in force. */
  settings(): Settings;
  /** What passes saw; null: nothing is served. */
  readonly sight: Sight | null;
  alive(): boolean;
  ready(): boolean;
  /** Begins a pass, for this reason. */
  wake(trigger: Trigger): void;
}

export interface StartContext extends WatchContext {
  readonly metrics: ControllerMetrics;
}

/** Wires a controller; throws a `Failure` when the settings cannot work, and then leaves nothing behind. */
export async function startWatching(context: StartContext): Promise<Running> {
  checkSettings(context.settings);
  const closers: Closer[] = [];
  const close = async (): Promise<void> => {
    for (const one of closers.reverse()) await one();
  };
  try {
    let current: Current | null = null;
    const references: GitSettings['references'] = async (files) => (await current?.passes.references(files)) ?? [];
    const wiring = await openParts(context, references, closers);
    const sight = context.settings.listen === null ? null : new Sight();
    current = { settings: context.settings, passes: wirePasses(context, wiring, context.settings), sight };
    const loop = wireLoop(context, wiring, current, closers);
    const { logger, source, wake } = wiring;
    const { settings } = context;
    logger.info('Watching', {
      server: findServer(settings),
      source: source.description,
      version,
      interval: settings.interval,
      ...(wake === null ? {} : { rescan: settings.rescan }),
    });
    return runningOf(context, wiring, { current, loop }, close);
  } catch (error) {
    await close();
    throw error;
  }
}

type Closer = () => Promise<unknown> | undefined;

/** What a controller holds open. */
interface Wiring {
  readonly logger: Logger;
  readonly state: StateFolder;
  readonly triggers: Triggers;
  readonly api: ApiClient;
  readonly token: TokenSource;
  readonly source: Source;
  readonly root: string | null;
  readonly forget: () => void;
  readonly notifier: Notifier;
  readonly lease: Awaited<ReturnType<typeof createLease>>;
  readonly journal: Awaited<ReturnType<typeof openJournalAt>>;
  readonly wake: DirectoryWake | null;
  readonly recent: RecentApplies;
}

/** The settings in force, and what runs passes under them. */
interface Current {
  settings: Settings;
  passes: WatchPasses;
  readonly sight: Sight | null;
}

async function openParts(
  context: StartContext,
  references: GitSettings['references'],
  closers: Closer[],
): Promise<Wiring> {
  const { settings, terminal, metrics, shared } = context;
  const own = await createLogger({ ...context, settings }, 'info');
  const logger = shared?.label(own) ?? own;
  const state = await openStateOf(settings);
  closers.push(() => state.release());
  const triggers = createTriggers(systemClock);
  const { api, token } = wireApi({ ...context, settings });
  warnOfOpenToken(token, logger);
  warnOfLittleMemory(settings, process.constrainedMemory(), logger);
  logProxy({ ...context, settings }, logger);
  closers.push(() => api.close());
  const open = shared?.openSource ?? openSource;
  const { source, root, forget, follow } = await open(context, state.path, references);
  const targets = readNotifyTargets(settings.file);
  const notifier = createNotifier({ targets, clock: systemClock, logger, onResult: metrics.notified });
  closers.push(() => notifier.flush(3000));
  const wakeUp = (trigger: Trigger) => (): void => triggers.wake(trigger);
  if (settings.webhookListen !== null) {
    const { serveWebhooks } = await import('./webhooks.ts');
    const webhooks = { settings, logger, wake: wakeUp('webhook'), onResult: metrics.webhook };
    closers.push((await serveWebhooks(settings.webhookListen, webhooks)).close);
  }
  const lease = await createLease({
    settings,
    env: terminal.env,
    cwd: terminal.cwd,
    logger,
    onChange: wakeUp('lease'),
    onOverlap: () => metrics.overlapped(),
  });
  closers.push(() => lease.release());
  // The journal is always kept.
  const journal = await openJournalAt(settings.journal ?? path.join(state.path, 'journal.jsonl'));
  closers.push(() => journal.journal.close());
  const wake = follow({ rescanMs: settings.rescan, logger, wake: wakeUp('file') });
  closers.push(() => wake?.close());
  const recent = new RecentApplies(settings.stateDir === null ? null : findOwnFolder(settings.stateDir));
  return { logger, state, triggers, api, token, source, root, forget, notifier, lease, journal, wake, recent };
}

function wirePasses(context: StartContext, wiring: Wiring, settings: Settings): WatchPasses {
  const { api, token, journal, lease } = wiring;
  return createWatchPasses({
    ...wiring,
    ...journal,
    invocation: { ...context, settings },
    api: context.metrics.meter(guardApi(api, lease), systemClock),
    fingerprintKey: token.fingerprintKey,
  });
}

function wireLoop(context: StartContext, wiring: Wiring, current: Current, closers: Closer[]): Loop {
  const { source, logger, lease, triggers, state, wake, root, notifier } = wiring;
  const server = findServer(context.settings);
  const { shared } = context;
  const expiry = watchToken(wiring.token, triggers, logger, {
    everyMs: () => current.settings.interval,
    renew: async () => {
      const { file } = current.settings;
      if (file?.nested.secretsFrom !== undefined) await context.renewSecrets(file);
    },
  });
  closers.push(() => expiry.close());
  return new Loop({
    source,
    pass: (request) => {
      const { sight, passes } = current;
      const run: typeof passes.run = (one) => shared?.inTurn(() => passes.run(one)) ?? passes.run(one);
      return sight === null ? run(request) : sight.watch(request, run);
    },
    confirm: (timeoutMs, signal) => current.passes.confirm(timeoutMs, signal),
    build: (content, at) => current.passes.build(content, at),
    settings: () => loopSettingsOf(current.settings, root === null),
    ...(shared === undefined ? {} : { hold: shared.hold }),
    clock: systemClock,
    logger,
    lease,
    observer: joinObservers([context.metrics.observer, notifier.observer]),
    store:
      lease.record === null ? storeRecordIn(state.path, logger) : storeRecord(lease.record, logger, wiring.token.seal),
    triggers,
    version,
    ...(server === null ? {} : { server }),
    degraded: () => wake?.degraded() ?? false,
    tokenExpiresAt: () => expiry.expiresAt(),
  });
}

interface RunningLoop {
  readonly current: Current;
  readonly loop: Loop;
}

/** Reads the settings again; those that cannot be used leave the old ones in force. */
async function reload(context: StartContext, wiring: Wiring, { current, loop }: RunningLoop): Promise<void> {
  const { logger, token, triggers, forget } = wiring;
  try {
    const next = await context.load();
    checkSettings(next);
    current.passes = wirePasses(context, wiring, next);
    current.settings = next;
    token.reload();
    forget();
    logger.info('The settings were read again');
    const waiting = waitForRestart(context.settings, next);
    if (waiting.length > 0) logger.warn('Some settings take effect after a restart only', { settings: waiting });
    loop.complain(null);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    logger.error('The settings cannot be used; the old ones stay', { summary: error.message });
    loop.complain(error.message);
  }
  triggers.wake('settings');
}

function runningOf(context: StartContext, wiring: Wiring, running: RunningLoop, close: Closer): Running {
  const { current, loop } = running;
  const { terminal } = context;
  const { logger, triggers } = wiring;
  return {
    status: () => loop.status(),
    settings: () => current.settings,
    sight: current.sight,
    alive: () => loop.isAlive(),
    ready: () => loop.isReady(),
    wake: (trigger) => triggers.wake(trigger),
    async run(hangUp) {
      const onStop = (): void => loop.stop();
      if (terminal.stop.aborted) loop.stop();
      terminal.stop.addEventListener('abort', onStop, { once: true });
      let over = false;
      void (async () => {
        for (;;) {
          await hangUp();
          if (over) return;
          await reload(context, wiring, running);
        }
      })();
      const verdict = await loop.run(context.settings.once);
      over = true;
      logger.info('Stopped', { reason: verdict.reason });
      await close();
      if (!context.settings.once) return exitCodes.ok;
      const { conditions, passes } = loop.status();
      const enforced = conditions.Enforced?.status ?? 'True';
      const wrote = (passes[0]?.outcomes.done ?? 0) > 0;
      return chooseVerdictExitCode(verdict, { missing: enforced !== 'True', wrote });
    },
  };
}

function checkSettings(settings: Settings): void {
  if (settings.overrideWindow !== null)
    throw makeFailure('bad-setting', '--override-window is for a single apply: a watch waits for its windows');
  if (settings.snapshot !== null)
    throw makeFailure('bad-setting', '--snapshot goes with a plan only: the server itself is watched');
}

async function openStateOf(settings: Settings): Promise<StateFolder> {
  const opened = settings.stateDir === null ? makeTemporaryState() : await openState(settings.stateDir);
  if (!opened.ok) throw makeFailure('state', opened.error, 'check --state-dir');
  return opened.value;
}

function loopSettingsOf(settings: Settings, isGit: boolean): LoopSettings {
  return {
    intervalMs: settings.interval,
    quietMs: isGit ? 0 : settings.quiet,
    deleteQuietMs: isGit ? 0 : Math.max(settings.quiet, settings.deleteQuiet),
    onDrift: settings.onDrift,
    allowRewind: settings.allowRewind,
    suspended: settings.suspend,
    confirmWithinMs: readConfirmWithin(settings),
    windows: readWindows(settings),
    noticeMs: parseWithin(settings.file?.nested.notifyBefore ?? '24h'),
  };
}
