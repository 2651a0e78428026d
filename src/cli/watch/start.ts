import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import type { ControllerMetrics } from '../../adapters/metrics/metrics.ts';
import { createNotifier } from '../../adapters/notify/notifier.ts';
import { storeRecord, storeRecordIn } from '../../adapters/record-store.ts';
import { openState, type StateFolder, temporaryState } from '../../adapters/state-folder.ts';
import { defaultFight } from '../../controller/fight.ts';
import { guardApi } from '../../controller/lease.ts';
import type { Loop, LoopSettings } from '../../controller/loop.ts';
import { createLoop } from '../../controller/loop.ts';
import { joinObservers, silentObserver } from '../../controller/observer.ts';
import { defaultSchedule } from '../../controller/schedule.ts';
import type { Status } from '../../controller/status.ts';
import { createTriggers } from '../../controller/trigger.ts';
import type { Logger } from '../../ports.ts';
import { version } from '../../version.ts';
import { serverOf } from '../approval.ts';
import { exitCodeOfVerdict, exitCodes } from '../exit-code.ts';
import { Failure, failure } from '../failure.ts';
import { loggerOf } from '../logger.ts';
import { warnOfLittleMemory } from '../manifests.ts';
import type { Settings } from '../settings.ts';
import { warnOfOpenToken } from '../token.ts';
import { openJournalAt, tellOfProxy, wireApi } from '../wire.ts';
import { wakeOnChange } from './directory.ts';
import type { WatchContext } from './invocation.ts';
import { createLease } from './lease-settings.ts';
import { notifyTargetsOf } from './notify-settings.ts';
import { createWatchPasses, type WatchPasses } from './pass.ts';
import { waitForRestart } from './restart-only.ts';
import { sourceOf } from './source.ts';
import { watchToken } from './token.ts';
import { serveWebhooks } from './webhooks.ts';

/** A controller that was wired and has not run yet. */
export interface Running {
  /** Runs until the process is told to stop; settings are read again after each hang-up. Gives the exit code. */
  run(hangUp: () => Promise<void>): Promise<number>;
  status(): Status;
  alive(): boolean;
  ready(): boolean;
}

/** What a controller is started with. */
export interface StartContext extends WatchContext {
  readonly metrics: ControllerMetrics;
}

/** Wires a controller; throws a `Failure` when the settings cannot work, and then leaves nothing behind. */
export async function startWatching(context: StartContext): Promise<Running> {
  const { settings, terminal, metrics } = context;
  checkSettings(settings);
  const closers: (() => Promise<unknown> | undefined)[] = [];
  const close = async (): Promise<void> => {
    for (const one of closers.reverse()) await one();
  };
  try {
    const logger = await loggerOf({ ...context, settings }, 'info');
    const state = await stateOf(settings);
    closers.push(() => state.release());
    const triggers = createTriggers(systemClock);
    const { api, token } = wireApi({ ...context, settings });
    warnOfOpenToken(token, logger);
    warnOfLittleMemory(settings, process.constrainedMemory(), logger);
    tellOfProxy({ ...context, settings }, logger);
    closers.push(() => api.close());
    const { source, root, forget } = await sourceOf(context, state.path, (files) => current.runner.references(files));
    const targets = notifyTargetsOf(settings.file);
    const notifier = createNotifier({ targets, clock: systemClock, logger, onResult: metrics.notified });
    closers.push(() => notifier.flush(3000));
    const webhooks = await serveWebhooks({
      settings,
      logger,
      wake: () => triggers.wake('webhook'),
      onResult: metrics.webhook,
    });
    closers.push(() => webhooks?.close());
    const lease = await createLease({
      settings,
      env: terminal.env,
      cwd: terminal.cwd,
      logger,
      onChange: () => triggers.wake('lease'),
      onOverlap: () => metrics.overlapped(),
    });
    closers.push(() => lease.release());
    // The journal is always kept.
    const { journal, openGaps } = await openJournalAt(settings.journal ?? path.join(state.path, 'journal.jsonl'));
    closers.push(() => journal.close());
    const wake =
      root === null
        ? null
        : wakeOnChange(root, source, { rescanMs: settings.rescan, logger, wake: () => triggers.wake('file') });
    closers.push(() => wake?.close());

    const runnerFor = (now: Settings): WatchPasses =>
      createWatchPasses({
        invocation: { operands: context.operands, settings: now, terminal },
        api: metrics.meter(guardApi(api, lease), systemClock),
        fingerprintKey: token.fingerprintKey,
        journal,
        logger,
        lease,
        root,
        openGaps,
      });
    const current = { settings, runner: runnerFor(settings) };
    const expiry = watchToken(token, triggers, logger);
    closers.push(() => expiry.close());
    const loop = createLoop({
      source,
      pass: (request) => current.runner.run(request),
      build: (content) => current.runner.build(content),
      settings: () => loopSettingsOf(current.settings, root === null),
      clock: systemClock,
      logger,
      lease,
      observer: joinObservers([metrics.observer, { ...silentObserver, ...notifier.observer }]),
      store: lease.record === null ? storeRecordIn(state.path, logger) : storeRecord(lease.record, logger),
      triggers,
      version,
      degraded: () => wake?.degraded() ?? false,
      tokenExpiresAt: () => expiry.expiresAt(),
    });
    const reload = async (): Promise<void> => {
      try {
        const next = await context.load();
        checkSettings(next);
        current.runner = runnerFor(next);
        current.settings = next;
        token.reload();
        forget();
        logger.info('The settings were read again');
        const waiting = waitForRestart(settings, next);
        if (waiting.length > 0) logger.warn('Some settings take effect after a restart only', { settings: waiting });
        loop.complain(null);
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        logger.error('The settings cannot be used; the old ones stay', { summary: error.message });
        loop.complain(error.message);
      }
      triggers.wake('settings');
    };
    logger.info('Watching', {
      server: serverOf(settings),
      source: source.description,
      version,
      interval: settings.interval,
      ...(wake === null ? {} : { rescan: settings.rescan }),
    });
    return runningOf({ context, loop, logger, reload, close });
  } catch (error) {
    await close();
    throw error;
  }
}

interface RunningParts {
  readonly context: StartContext;
  readonly loop: Loop;
  readonly logger: Logger;
  readonly reload: () => Promise<void>;
  readonly close: () => Promise<void>;
}

function runningOf({ context, loop, logger, reload, close }: RunningParts): Running {
  const { terminal } = context;
  return {
    status: () => loop.status(),
    alive: () => loop.isAlive(),
    ready: () => loop.isReady(),
    async run(hangUp) {
      const onStop = (): void => loop.stop();
      if (terminal.stop.aborted) loop.stop();
      terminal.stop.addEventListener('abort', onStop, { once: true });
      let over = false;
      void (async () => {
        for (;;) {
          await hangUp();
          if (over) return;
          await reload();
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
      return exitCodeOfVerdict(verdict, { missing: enforced !== 'True', wrote });
    },
  };
}

function checkSettings(settings: Settings): void {
  if (settings.snapshot !== null)
    throw failure('bad-setting', '--snapshot goes with a plan only: the server itself is watched');
  for (const name of ['interval', 'rescan'] as const) {
    // No time at all would ask the server, or read the directory, without a pause.
    if (settings[name] <= 0) throw failure('bad-setting', `--${name} must be longer than 0`);
  }
}

async function stateOf(settings: Settings): Promise<StateFolder> {
  const opened = settings.stateDir === null ? temporaryState() : await openState(settings.stateDir);
  if (!opened.ok) throw failure('state', opened.error, 'check --state-dir');
  return opened.value;
}

function loopSettingsOf(settings: Settings, isGit: boolean): LoopSettings {
  return {
    schedule: { ...defaultSchedule, intervalMs: settings.interval },
    quietMs: isGit ? 0 : settings.quiet,
    deleteQuietMs: isGit ? 0 : Math.max(settings.quiet, settings.deleteQuiet),
    onDrift: settings.onDrift,
    allowRewind: settings.allowRewind,
    suspended: settings.suspend,
    fight: defaultFight,
    convergenceAttempts: 3,
  };
}
