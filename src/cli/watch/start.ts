import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import { runConfirmCommand } from '../../adapters/confirm-command.ts';
import { createNotifier } from '../../adapters/notify/notifier.ts';
import { storeRecord, storeRecordIn } from '../../adapters/record-store.ts';
import type { GitSettings } from '../../adapters/source/git.ts';
import { findOwnFolder, makeTemporaryState, openState, type StateFolder } from '../../adapters/state-folder.ts';
import { guardApi } from '../../controller/lease.ts';
import { Loop } from '../../controller/loop.ts';
import type { LoopPassRequest, LoopSettings } from '../../controller/loop-parts.ts';
import { joinTexts } from '../../controller/pass-ending.ts';
import { createTriggers, type Trigger } from '../../controller/trigger.ts';
import { compareText, type Problem } from '../../model/problem.ts';
import { formatPlace } from '../../report/problems.ts';
import { version } from '../../version.ts';
import { findServer } from '../approval.ts';
import { chooseVerdictExitCode, exitCodes, Failure, makeFailure, mustHave, type Settings } from '../command.ts';
import { createLogger } from '../logger.ts';
import { warnOfLittleMemory } from '../manifests.ts';
import { startOptions } from '../options.ts';
import { logAccess, openJournalAt, wireApi } from '../wire.ts';
import type { SharedWatch, WatchContext } from './invocation.ts';
import { createLease } from './lease-settings.ts';
import { readNotifyTargets } from './notify-settings.ts';
import { createRecentApplies, createWatchPasses, type WatchPasses } from './pass.ts';
import { Sight } from './sight.ts';
import { openSource } from './source.ts';
import { watchToken } from './token.ts';

/** Wires a controller; throws a `Failure` when the settings cannot work, and then leaves nothing behind. */
export async function startWatching(context: WatchContext): Promise<Running> {
  checkSettings(context.settings);
  const closers: Closer[] = [];
  try {
    let running: Running | null = null;
    const parts = await openParts(context, closers, async (files) => (await running?.passes.references(files)) ?? []);
    running = new Running(context, parts, closers);
    return running;
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

type Closer = () => Promise<unknown> | undefined;

async function closeAll(closers: Closer[]): Promise<void> {
  for (const close of closers.reverse()) await close();
}

/** What a controller holds open. */
type Parts = Awaited<ReturnType<typeof openParts>>;

async function openParts(context: WatchContext, closers: Closer[], references: GitSettings['references']) {
  const { settings, metrics, shared } = context;
  const logger = await createLogger(context, 'info');
  const state = await openStateOf(settings);
  closers.push(() => state.release());
  const triggers = createTriggers(systemClock);
  const wakeUp = (trigger: Trigger) => (): void => triggers.wake(trigger);
  const { api, token } = wireApi(context);
  warnOfLittleMemory(settings, process.constrainedMemory(), logger);
  logAccess(context, token, logger);
  closers.push(() => api.close());
  const open = shared?.openSource ?? openSource;
  const { source, root, forget, follow } = await open(context, state.path, references);
  const targets = readNotifyTargets(settings.file);
  const notifier = createNotifier({ targets, clock: systemClock, logger, onResult: metrics.notified });
  closers.push(() => notifier.flush(3000));
  const onOverlap = (): void => metrics.overlapped();
  const lease = await createLease(context, { logger, onChange: wakeUp('lease'), onOverlap });
  closers.push(() => lease.release());
  // The journal is always kept.
  const journal = await openJournalAt(settings.journal ?? path.join(state.path, 'journal.jsonl'));
  closers.push(() => journal.journal.close());
  const wake = follow({ rescanMs: settings.rescan, logger, wake: wakeUp('file') });
  closers.push(() => wake?.close());
  const recent = createRecentApplies(settings.stateDir === null ? null : findOwnFolder(settings.stateDir));
  const metered = metrics.meter(guardApi(api, lease), systemClock);
  const passing = { api: metered, logger, root, recent, fingerprintKey: token.fingerprintKey, ...journal };
  return { logger, state, triggers, token, source, root, forget, notifier, lease, wake, passing };
}

/** A controller that was wired, and runs once. */
export class Running {
  readonly #context: WatchContext;
  readonly #parts: Parts;
  readonly #closers: Closer[];
  readonly loop: Loop;
  /** Those in force. */
  settings: Settings;
  passes: WatchPasses;
  /** Why the newest ones are not. */
  #badSettings: string | null = null;
  #reloading: Promise<void> = Promise.resolve();
  /** What passes saw; null: nothing is served. */
  readonly sight: Sight | null;

  constructor(context: WatchContext, parts: Parts, closers: Closer[]) {
    const { settings } = context;
    this.#context = context;
    this.#parts = parts;
    this.#closers = closers;
    this.settings = settings;
    this.passes = this.#wirePasses(settings);
    this.sight = settings.listen === null ? null : new Sight();
    this.loop = this.#wireLoop();
    parts.logger.info('Watching', {
      server: findServer(settings),
      source: parts.source.description,
      version,
      interval: settings.interval,
      ...(parts.wake === null ? {} : { rescan: settings.rescan }),
    });
  }

  /** Begins a pass, for this reason. */
  wake(trigger: Trigger): void {
    this.#parts.triggers.wake(trigger);
  }

  /** Runs until the process is told to stop. Gives the exit code. */
  async run(): Promise<number> {
    const { settings } = this.#context;
    const verdict = await this.loop.run(settings.once);
    this.#parts.logger.info('Stopped', { reason: verdict.reason });
    await closeAll(this.#closers);
    if (!settings.once) return exitCodes.ok;
    const { conditions, passes } = this.loop.status();
    const enforced = conditions.Enforced?.status ?? 'True';
    return chooseVerdictExitCode(verdict, { missing: enforced !== 'True', wrote: (passes[0]?.outcomes.done ?? 0) > 0 });
  }

  /** Reads the settings again, one time after another; those that cannot be used leave the old ones in force. */
  reload(): Promise<void> {
    this.#reloading = this.#reloading.then(() => this.#reload());
    return this.#reloading;
  }

  async #reload(): Promise<void> {
    const { logger, token, triggers, forget } = this.#parts;
    const { load, settings } = this.#context;
    try {
      const next = await load();
      checkSettings(next);
      this.passes = this.#wirePasses(next);
      this.settings = next;
      token.reload();
      forget();
      logger.info('The settings were read again');
      const waiting = waitForRestart(settings, next);
      if (waiting.length > 0) logger.warn('Some settings take effect after a restart only', { settings: waiting });
      this.#badSettings = null;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.#badSettings = explainSettings(error);
      logger.error('The settings cannot be used; the old ones stay', { summary: this.#badSettings });
    }
    triggers.wake('settings');
  }

  #wirePasses(settings: Settings): WatchPasses {
    return createWatchPasses({ ...this.#parts.passing, invocation: { ...this.#context, settings } });
  }

  #wireLoop(): Loop {
    const { source, logger, lease, triggers, state, wake, root, notifier, token } = this.#parts;
    const { settings, shared, metrics, renewSecrets, terminal } = this.#context;
    const { inTurn = (go) => go() }: Partial<SharedWatch> = shared ?? {};
    const run = (request: LoopPassRequest) => inTurn(() => this.passes.run(request));
    const server = findServer(settings);
    const expiry = watchToken(token, triggers, logger, {
      everyMs: () => this.settings.interval,
      renew: async () => {
        const { file } = this.settings;
        if (file?.nested.secretsFrom !== undefined) await renewSecrets(file);
      },
    });
    this.#closers.push(() => expiry.close());
    return new Loop({
      ...{ source, clock: systemClock, logger, lease, triggers, version },
      // When there is room for it, and seen by the page.
      pass: (request) => this.sight?.watch(request, run) ?? run(request),
      confirm: (timeoutMs, signal) => {
        const command = this.settings.file?.nested.confirmWith?.command ?? [];
        return runConfirmCommand({ command, environment: terminal.env, cwd: terminal.cwd, timeoutMs, signal });
      },
      prepare: (content) => this.passes.prepare(content),
      build: (content, at) => this.passes.build(content, at),
      settings: () => loopSettingsOf(this.settings, root === null),
      badSettings: () => this.#badSettings,
      ...(shared === undefined ? {} : { hold: shared.hold }),
      observer: metrics.observer,
      notify: notifier.turned,
      store: lease.record === null ? storeRecordIn(state.path, logger) : storeRecord(lease.record, logger, token.seal),
      stop: terminal.stop,
      ...(server === null ? {} : { server }),
      degraded: () => wake?.degraded() ?? false,
      tokenExpiresAt: () => expiry.expiresAt(),
    });
  }
}

function checkSettings(settings: Settings): void {
  if (settings.overrideWindow !== null)
    throw makeFailure('bad-setting', '--override-window is for a single apply: a watch waits for its windows');
  if (settings.snapshot !== null)
    throw makeFailure('bad-setting', '--snapshot goes with a plan only: the server itself is watched');
}

/** What is wrong with settings, where, and what to do. */
export function explainSettings({ problems }: Failure): string {
  const placeOf = ({ place }: Problem): string => (place === undefined ? '' : `${formatPlace(place)}: `);
  return problems.map((one) => `${placeOf(one)}${joinTexts(one)}`).join('. ');
}

/** The state folder that these settings name, or a temporary one; throws a `Failure` where it cannot be used. */
export async function openStateOf({ stateDir }: Settings): Promise<StateFolder> {
  return mustHave(stateDir === null ? makeTemporaryState() : await openState(stateDir), 'state', 'check --state-dir');
}

/** Sections of the settings file that are read once, when the process starts. */
const startSections = ['notify', 'kubernetes', 'limits'] as const;

/** Names of settings that differ and take effect only when the process starts anew. */
function waitForRestart(running: Settings, read: Settings): readonly string[] {
  const differ = (a: unknown, b: unknown): boolean => JSON.stringify(a) !== JSON.stringify(b);
  return [
    ...startOptions.filter((name) => differ(running[name], read[name])),
    ...startSections.filter((name) => differ(running.file?.nested[name], read.file?.nested[name])),
  ].sort(compareText);
}

function loopSettingsOf(settings: Settings, isGit: boolean): LoopSettings {
  const { confirmWith, windows = [], notifyBefore: noticeMs = 86_400_000 } = settings.file?.nested ?? {};
  const { interval: intervalMs, quiet, deleteQuiet, onDrift, allowRewind, suspend: suspended } = settings;
  return {
    ...{ intervalMs, onDrift, allowRewind, suspended, windows, noticeMs },
    quietMs: isGit ? 0 : quiet,
    deleteQuietMs: isGit ? 0 : Math.max(quiet, deleteQuiet),
    requestTimeoutMs: settings.timeout,
    confirmWithinMs: confirmWith === undefined ? null : (confirmWith.within ?? 300_000),
  };
}
