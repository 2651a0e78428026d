import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { html } from 'hono/html';
import { systemClock } from '../../adapters/clock.ts';
import { type ControllerMetrics, createMetrics } from '../../adapters/metrics/metrics.ts';
import { storeRecordIn } from '../../adapters/record-store.ts';
import { findOwnFolder } from '../../adapters/state-folder.ts';
import { emptyRecord, viewRecord } from '../../controller/record.ts';
import type { PassView, Status } from '../../controller/status.ts';
import { escapeControls } from '../../model/printable.ts';
import { formatSafeJson, formatVersion } from '../../report/json.ts';
import { formatRevision } from '../../report/page.ts';
import { chooseHeadline } from '../../report/sidecar.ts';
import { renderLive } from '../../report/sidecar-html.ts';
import { version } from '../../version.ts';
import { explainEnd } from '../answer.ts';
import { exitCodes, Failure, makeFailure, type ParsedLine, type Settings, type Terminal } from '../command.ts';
import { Keeper, watchProcess } from '../commands/watch.ts';
import { makeWatch } from '../line.ts';
import { createLogger } from '../logger.ts';
import type { SharedWatch } from '../watch/invocation.ts';
import { createPages, frame, script } from '../watch/page.ts';
import type { Serve, WatchProcess } from '../watch/servers.ts';
import { openStateOf } from '../watch/start.ts';
import { pickWorstExit } from './report.ts';
import { RolloutGate } from './rollout.ts';
import { createPool, shareParsers, shareSources } from './share.ts';
import { adjustSettings, type ChosenFleet, makeTargetLine, readFleet, type Target } from './targets.ts';

/** Passes at once that do not wait for their server. */
const width = 64;
const slowMs = 500;
/** How often those that wait are looked at, beside the end of each pass. */
const releaseMs = 1000;

/** Watches every target of a fleet in one process, each by a controller of its own. Gives the worst exit code. */
export async function watchFleet(line: ParsedLine, terminal: Terminal): Promise<number> {
  // The heap of many targets is large anyway: of 1,000 400 MB resident instead of 560, at the same cost of CPU.
  setFlagsFromString('--heap-growing-percent=50');
  const invocation = makeWatch(line, terminal);
  const parts = await openFleet(line, terminal, await invocation.load());
  try {
    return await watchProcess(invocation, new FleetWatch(parts));
  } finally {
    await parts.state.release();
  }
}

async function openFleet(line: ParsedLine, terminal: Terminal, settings: Settings) {
  const read = (): ChosenFleet => readFleet(line.flags, terminal.cwd);
  const fleet = read();
  checkWaves(fleet, settings);
  const logger = await createLogger({ settings, terminal }, 'info');
  const state = await openStateOf(settings);
  const sources = shareSources(path.join(state.path, 'fleet', 'sources'), terminal.stop);
  const parser = shareParsers({ measure: 'together' });
  const shared = { parser, openSource: sources.open, inTurn: createPool(width, slowMs) };
  const makeKeeper = (target: Target, hold: SharedWatch['hold'], metrics: ControllerMetrics): Keeper => {
    const own = makeWatch(makeTargetLine(target, line), terminal);
    const load = async (): Promise<Settings> => adjustSettings(await own.load(), target, fleet.file);
    const { stateDir } = adjustSettings(settings, target, fleet.file);
    const record = stateDir === null ? null : storeRecordIn(findOwnFolder(stateDir), logger);
    const readStuck: SharedWatch['readStuck'] = async () => {
      const { failed, stuck } = viewRecord(record === null ? emptyRecord : await record.load());
      return { failed, stuck };
    };
    const parts = { ...shared, hold, readStuck, labels: { target: target.name } };
    return new Keeper({ ...own, load, shared: parts }, metrics);
  };
  return { settings, fleet, read, logger, state, sources, makeKeeper };
}

function checkWaves({ targets, rollout }: ChosenFleet, { stateDir, lease, gitUrl }: Settings): void {
  const [first, ...more] = targets;
  const isInWaves = more.some(({ wave }) => wave !== first?.wave);
  if ((isInWaves || rollout.maxParallel !== undefined) && stateDir === null && lease === 'none') {
    const summary = 'waves need --state-dir: after a restart nobody would know how far a roll-out has come';
    throw makeFailure('usage', summary, 'give --state-dir DIR; each target keeps its state below it');
  }
  const other = gitUrl === null ? more.find(({ path: folder }) => folder !== first?.path) : undefined;
  if (!isInWaves || other === undefined) return;
  const both = `${other.name} and ${first?.name} are in waves and have two paths`;
  const hint =
    'give all targets one `path`, with `overlay` or `values` for what differs; or read them from Git: --git-url';
  throw makeFailure('usage', `${both}: two folders never have the same revision`, hint);
}

type Member = Target & { readonly keeper: Keeper };

class FleetWatch implements WatchProcess {
  readonly #parts: Awaited<ReturnType<typeof openFleet>>;
  readonly #members: readonly Member[];
  readonly #gate: RolloutGate<Member>;
  /** Whether this replica led a target when it was last looked at. */
  #leads: boolean;
  /** What the fleet file says that is not in force. */
  #unheeded: string | null = null;
  readonly metrics: ControllerMetrics;

  constructor(parts: Awaited<ReturnType<typeof openFleet>>) {
    const { targets, rollout } = parts.fleet;
    this.#parts = parts;
    this.#leads = parts.settings.lease === 'none';
    const states = () => this.#members.map(({ name, keeper }) => [{ target: name }, keeper.status()] as const);
    this.metrics = createMetrics(version, states, ['target']);
    this.#members = targets.map((target) => {
      const hold: SharedWatch['hold'] = (...asked) => {
        // Only the replica that led before may have been told that the fleet is paused.
        if (!this.#leads) void this.hangUp();
        return this.#gate.admit(member, ...asked, systemClock.wallTime());
      };
      const passEnded = (pass: PassView): void => {
        this.metrics.observer.passEnded(pass);
        this.#gate.ended(member);
        this.#release();
      };
      const observer = { ...this.metrics.observer, passEnded };
      const member: Member = { ...target, keeper: parts.makeKeeper(target, hold, { ...this.metrics, observer }) };
      return member;
    });
    this.#gate = new RolloutGate(this.#members, rollout);
  }

  /** One line a target, each with the page of its own below /targets/NAME/. */
  async pages(): ReturnType<WatchProcess['pages']> {
    const lines = () => this.#members.map((one) => lineOf(one, one.keeper.status()));
    // What it waits for; null: nothing waits.
    const rollout = (): string | null =>
      [this.#gate.describe(systemClock.wallTime()), this.#unheeded].filter(Boolean).join('; ') || null;
    return {
      view: {
        ...frame,
        version: () => JSON.stringify([rollout(), lines()]),
        page: (_asked, { hasSession }) => renderFleet(lines(), rollout(), hasSession),
        document: (name) => {
          if (name !== 'status') return null;
          const state = { at: systemClock.wallTime(), rollout: rollout(), targets: lines() };
          return Buffer.from(formatSafeJson({ format_version: formatVersion, ...state }));
        },
      },
      below: (name) => {
        const keeper = this.#members.find((one) => one.name === name)?.keeper;
        return keeper === undefined ? null : createPages(keeper);
      },
    };
  }

  /** One that hangs is no reason to end the others. */
  alive(): boolean {
    return this.#members.some(({ keeper }) => keeper.alive());
  }

  ready(): boolean {
    return this.#members.every(({ keeper }) => keeper.ready());
  }

  async wake(): Promise<void> {
    await this.#parts.sources.renew();
    for (const { keeper } of this.#members) keeper.wake('webhook');
  }

  /** Runs until all have ended; gives the worst exit code of them with --once. */
  async run(serve: Serve): Promise<number> {
    const { settings, logger, fleet } = this.#parts;
    await serve(settings);
    logger.info('Watching a fleet', { file: fleet.file, targets: fleet.targets.length, version });
    // A soak may be over, or the last record read that others wait for.
    const releasing = setInterval(() => this.#release(), releaseMs);
    const ends = await Promise.all(this.#members.map((member) => this.#keep(member)));
    clearInterval(releasing);
    const exit = pickWorstExit(ends);
    const targets = fleet.targets.flatMap(({ name }, index) => (ends[index] === exit ? [name] : []));
    if (exit !== exitCodes.ok) logger.warn('The fleet ended as these targets did', { exit, targets });
    return exit;
  }

  async #keep({ name, keeper }: Member): Promise<number> {
    try {
      return await keeper.run(async () => undefined);
    } catch (error) {
      // A mistake of ours at one target must not end the others.
      const failure = await explainEnd(error);
      this.#parts.logger.error('A target is watched no more', { target: name, summary: failure.message });
      await keeper.stall(failure);
      return failure.exitCode;
    }
  }

  #release(): void {
    this.#leads &&= this.#members.some(({ keeper }) => keeper.status().role === 'writer');
    for (const { keeper } of this.#gate.release(systemClock.wallTime())) keeper.wake('released');
  }

  /** Reads the fleet file again, and has every target read its settings again. */
  async hangUp(): Promise<void> {
    const { logger, fleet, read, sources } = this.#parts;
    this.#leads = true;
    try {
      const { rollout, targets } = read();
      this.#gate.settings = rollout;
      logger.info('The fleet file was read again', { paused: rollout.paused === true, abort: rollout.abort ?? null });
      const isSame = isDeepStrictEqual(targets, fleet.targets);
      this.#unheeded = isSame ? null : 'the targets of the fleet file have changed: restart';
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.#unheeded = `the fleet file cannot be used, and the old one stays: ${error.message}`;
    }
    if (this.#unheeded !== null) logger.warn('The fleet file is not in force', { detail: this.#unheeded });
    // Before and after: what a source reads may follow from settings.
    await sources.renew();
    await Promise.all(this.#members.map(({ keeper }) => keeper.hangUp()));
    await sources.renew();
  }
}

function lineOf({ name, wave, labels }: Target, status: Status) {
  const { text, tone, detail } = chooseHeadline(status);
  const { conditions, revisions, server = null, drift } = status;
  return {
    ...{ name, wave, labels, server, drift },
    headline: { text, tone, detail: escapeControls(detail) },
    applied: revisions.applied,
    observed: revisions.observed,
    conditions,
  };
}

function renderFleet(lines: readonly ReturnType<typeof lineOf>[], rollout: string | null, isSignedIn: boolean): string {
  const good = lines.filter(({ headline }) => headline.tone === 'good').length;
  const title = `${good} of ${lines.length} targets in sync`;
  const rows = lines.map(({ name, wave, labels, server, headline, applied }) => {
    const words = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    return html`<tr><th scope="row"><a href="targets/${name}/">${name}</a></th><td>${wave}</td><td>${words.join(', ')}</td>
<td>${server ?? ''}</td><td>${headline.text}</td><td>${applied === null ? '' : formatRevision(applied)}</td>
<td>${headline.tone === 'good' ? '' : headline.detail}</td></tr>`;
  });
  return renderLive({
    ...{ title, script, isSignedIn },
    state: html`<div class="state ${good === lines.length ? 'good' : 'waiting'}" role="status"><h1>${title}</h1>
${rollout === null ? '' : html`<p class="summary">${rollout}</p>`}</div>`,
    main: html`<section id="targets" data-live><h2>Targets</h2><table class="plain"><thead><tr><th scope="col">Name</th>
<th scope="col">Wave</th><th scope="col">Labels</th><th scope="col">Server</th><th scope="col">State</th>
<th scope="col">In effect</th><th scope="col">Detail</th></tr></thead><tbody>${rows}</tbody></table></section>
<p class="note">The same for programs: <a href="api/v1/status">status</a>, <a href="/metrics">metrics</a>.</p>`,
  });
}
