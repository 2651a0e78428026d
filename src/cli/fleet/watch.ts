import path from 'node:path';
import { systemClock } from '../../adapters/clock.ts';
import { addProcessMetrics, type ControllerMetrics, createMetricsOfMany } from '../../adapters/metrics/metrics.ts';
import type { Listening } from '../../adapters/web/listen.ts';
import { joinObservers, type LoopObserver } from '../../controller/observer.ts';
import type { Trigger } from '../../controller/trigger.ts';
import type { Logger } from '../../ports.ts';
import { version } from '../../version.ts';
import type { Terminal } from '../command.ts';
import {
  createBell,
  createView,
  endInTime,
  hangUps,
  keepModest,
  keepStatusServer,
  keepWatching,
  type WatchView,
} from '../commands/watch.ts';
import { exitCodes } from '../exit-code.ts';
import { Failure, makeFailure } from '../failure.ts';
import { createLogger } from '../logger.ts';
import { keepSecrets } from '../secrets-from.ts';
import type { Settings } from '../settings.ts';
import type { WatchInvocation } from '../watch/invocation.ts';
import { createFleetPages } from './page.ts';
import { RolloutGate } from './rollout.ts';
import { createPool, shareParsers, shareSources } from './share.ts';
import { type FleetState, openFleetState } from './state.ts';
import {
  adjustSettings,
  type ChosenFleet,
  describeTarget,
  type ParsedLine,
  type Runner,
  readFleet,
  type Target,
} from './targets.ts';

/** Passes at once that do not wait for their server. */
const width = 64;
const slowMs = 500;

/** One target and its controller. */
interface Keeper {
  readonly target: Target;
  readonly view: WatchView;
  readonly bell: ReturnType<typeof createBell>;
}

/** Watches every target of a fleet in one process, each by a controller of its own. */
export async function watchFleet(
  line: ParsedLine,
  terminal: Terminal,
  loadSettings: Runner['loadSettings'],
): Promise<number> {
  keepModest();
  endInTime(terminal.stop);
  const fleet = readFleet(line.flags, terminal.cwd);
  const settings = await loadSettings(line.flags, terminal);
  checkFleet(fleet, settings, line);
  const logger = await createLogger({ settings, terminal }, 'info');
  const state = await openFleetState(settings);
  const keepers = fleet.targets.map((target): Keeper => ({ target, view: createView(), bell: createBell() }));
  const watch = new FleetWatch(line, terminal, { fleet, keepers, logger, state, loadSettings });
  const front = keepStatusServer(invocationOf(line, terminal, settings), watch.serverView());
  const hup = hangUps();
  let webhooks: Listening | null = null;
  try {
    await front.serve(settings);
    if (settings.webhookListen !== null) {
      const heard = { wake: () => void watch.wakeAll('webhook'), onResult: watch.metrics.webhook };
      webhooks = await (await import('../watch/webhooks.ts')).serveWebhooks(settings.webhookListen, {
        settings,
        logger,
        ...heard,
      });
    }
    logger.info('Watching a fleet', { file: fleet.file, targets: fleet.targets.length, version });
    return await watch.run(hup.next);
  } finally {
    hup.close();
    await Promise.all([front.close(), webhooks?.close()]);
    await state.release();
  }
}

function checkFleet({ targets, rollout }: ChosenFleet, { stateDir, lease }: Settings, { flags }: ParsedLine): void {
  if (flags.journal !== undefined)
    throw makeFailure('usage', '--journal is about one server', 'each target keeps one in its state folder');
  const hasWaves = new Set(targets.map(({ wave }) => wave)).size > 1 || rollout.maxParallel !== null;
  if (!hasWaves || stateDir !== null || lease !== 'none') return;
  throw makeFailure(
    'usage',
    'waves need --state-dir: after a restart nobody would know how far a roll-out has come',
    'give --state-dir DIR; each target keeps its state below it',
  );
}

function invocationOf({ flags, operands }: ParsedLine, terminal: Terminal, settings: Settings): WatchInvocation {
  return { operands, flags, load: () => Promise.resolve(settings), renewSecrets: async () => undefined, terminal };
}

interface FleetParts {
  readonly fleet: ChosenFleet;
  readonly keepers: readonly Keeper[];
  readonly logger: Logger;
  readonly state: FleetState;
  readonly loadSettings: Runner['loadSettings'];
}

class FleetWatch {
  readonly #line: ParsedLine;
  readonly #terminal: Terminal;
  readonly #parts: FleetParts;
  readonly #sources: ReturnType<typeof shareSources>;
  readonly #parser = shareParsers();
  readonly #inTurn = createPool(width, slowMs);
  readonly #gate: RolloutGate;
  readonly metrics: ControllerMetrics;
  #timer: NodeJS.Timeout | undefined;

  constructor(line: ParsedLine, terminal: Terminal, parts: FleetParts) {
    const { fleet, keepers, state } = parts;
    this.#line = line;
    this.#terminal = terminal;
    this.#parts = parts;
    this.#sources = shareSources(path.join(state.folder, 'sources'), terminal.stop);
    const members = keepers.map(({ target: { name, wave }, view: { status } }) => ({ name, wave, status }));
    this.#gate = new RolloutGate(members, fleet.rollout, state.failed);
    const states = () => keepers.map(({ target, view }) => [{ target: target.name }, view.status()] as const);
    this.metrics = addProcessMetrics(createMetricsOfMany(version, states, ['target']));
  }

  serverView(): Parameters<typeof keepStatusServer>[1] {
    const { keepers } = this.#parts;
    const targets = keepers.map(({ target, view }) => ({ target, sources: view }));
    const rollout = () => this.#gate.describe(systemClock.wallTime());
    return {
      pages: () => Promise.resolve(createFleetPages({ targets: () => targets, rollout })),
      // One that hangs is no reason to end the others.
      alive: () => keepers.some(({ view }) => view.alive()),
      ready: () => keepers.every(({ view }) => view.ready()),
      metrics: this.metrics,
    };
  }

  /** Runs until all have ended; gives the worst exit code of them with --once. */
  async run(hangUp: () => Promise<void>): Promise<number> {
    const { keepers } = this.#parts;
    let over = false;
    void (async () => {
      for (;;) {
        await hangUp();
        if (over) return;
        await this.#reload();
      }
    })();
    const ends = await Promise.all(keepers.map((keeper) => this.#keep(keeper)));
    over = true;
    clearTimeout(this.#timer);
    return ends.find((code) => code !== exitCodes.ok) ?? exitCodes.ok;
  }

  async wakeAll(trigger: Trigger): Promise<void> {
    await this.#sources.renew();
    for (const { view } of this.#parts.keepers) view.running()?.wake(trigger);
  }

  async #keep({ target, view, bell }: Keeper): Promise<number> {
    const { name } = target;
    const { terminal, renew } = keepSecrets(this.#terminal);
    try {
      const own = describeTarget(target, this.#line.command, this.#line.flags);
      const flags = { ...this.#line.flags, ...own.flags };
      const load = async (): Promise<Settings> => {
        const settings = adjustSettings(
          await this.#parts.loadSettings(flags, terminal, renew),
          target,
          this.#parts.fleet.file,
        );
        return { ...settings, webhookListen: null };
      };
      const invocation = { ...own, flags, load, renewSecrets: renew, terminal, shared: this.#shareWith(name) };
      const hears = { passEnded: this.#onPassEnded(name) };
      const metrics = { ...this.metrics, observer: joinObservers([this.metrics.observer, hears]) };
      return await keepWatching(invocation, { view, metrics, hangUp: bell.next, serve: async () => undefined });
    } catch (error) {
      // A mistake of ours at one target must not end the others.
      const kind = error instanceof Error ? error.name : typeof error;
      const failure =
        error instanceof Failure
          ? error
          : makeFailure('internal-error', `reconcile failed in a way it should not (${kind})`);
      this.#parts.logger.error('A target is watched no more', { target: name, summary: failure.message });
      view.stall(failure);
      return failure.exitCode;
    }
  }

  #shareWith(name: string): NonNullable<WatchInvocation['shared']> {
    return {
      parser: this.#parser,
      openSource: this.#sources.open,
      hold: (revision) => this.#gate.admit(name, revision, systemClock.wallTime()),
      inTurn: this.#inTurn,
      label: (logger) => labelLog(logger, name),
    };
  }

  #onPassEnded(name: string): LoopObserver['passEnded'] {
    return (pass, status) => {
      const { logger, state } = this.#parts;
      const failed = this.#gate.ended(name, pass, status, systemClock.wallTime());
      if (failed !== null) {
        logger.error('A revision failed and begins nowhere else', { target: name, revision: pass.revision });
        state.remember(failed, logger);
      }
      this.#release();
    };
  }

  /** Wakes those that waited and may begin. */
  #release(): void {
    const { names, inMs } = this.#gate.release(systemClock.wallTime());
    const woken = new Set(names);
    for (const { target, view } of names.length === 0 ? [] : this.#parts.keepers)
      if (woken.has(target.name)) view.running()?.wake('released');
    clearTimeout(this.#timer);
    if (inMs !== null) this.#timer = setTimeout(() => this.#release(), Math.min(inMs, 2 ** 31 - 1));
  }

  /** Reads the fleet file again, and has every target read its settings again. */
  async #reload(): Promise<void> {
    const { logger, keepers } = this.#parts;
    try {
      const { rollout, targets } = readFleet(this.#line.flags, this.#terminal.cwd);
      this.#gate.adopt(rollout);
      logger.info('The fleet file was read again', { paused: rollout.isPaused, abort: rollout.abort });
      const describe = (all: readonly Target[]): string => JSON.stringify(all);
      if (describe(targets) !== describe(keepers.map(({ target }) => target)))
        logger.warn('Other targets take effect after a restart only');
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      logger.error('The fleet file cannot be used; the old one stays', { summary: error.message });
    }
    for (const { bell } of keepers) bell.ring();
    this.#release();
  }
}

function labelLog(logger: Logger, target: string): Logger {
  return {
    debug: (message, fields) => logger.debug(message, { target, ...fields }),
    info: (message, fields) => logger.info(message, { target, ...fields }),
    warn: (message, fields) => logger.warn(message, { target, ...fields }),
    error: (message, fields) => logger.error(message, { target, ...fields }),
  };
}
