import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { renderAnswer } from './answer.ts';
import type { Answer, Companions, Terminal } from './command.ts';
import { exitCodes } from './exit-code.ts';
import { makeFailure } from './failure.ts';
import {
  notBegun,
  pickWorstExit,
  renderFleetJson,
  renderFleetMarkdown,
  renderFleetText,
  summariseRun,
  type TargetOutcome,
} from './fleet/report.ts';
import { createPool, shareParsers } from './fleet/share.ts';
import {
  adjustSettings,
  type ChosenFleet,
  choosingFlags,
  describeTarget,
  type ParsedLine,
  type Runner,
  readFleet,
  type Target,
  type TargetLine,
  withoutFlags,
} from './fleet/targets.ts';
import { formatFlag, optionNames } from './options.ts';
import {
  checkWritable,
  type Format,
  isStdoutTaken,
  type Output,
  readOutputs,
  textOnStdout,
  writeOutput,
} from './output.ts';

/** Targets that are looked at together by commands that do not write; one that is slow counts no more. */
const together = 8;
const slowMs = 2000;

/** Runs a command line on each target of `--fleet`: as often as there are targets, each as if it were alone. Gives the worst exit code. */
export async function runFleet(line: ParsedLine, terminal: Terminal, runner: Runner): Promise<number> {
  const { flags, command } = line;
  if (flags['watch'] === true) {
    refuseOneServer(line);
    return await (await import('./fleet/watch.ts')).watchFleet(line, terminal, runner.loadSettings);
  }
  if (command.name === 'status') return await showStatus(line, terminal, runner);
  const outputs = readFleetOutputs(line, terminal);
  refuseOneServer(line);
  const writes = command.name === 'apply' || (command.name === '' && flags['plan'] !== true);
  const isWriting = writes && flags['dryRun'] !== true;
  if (isWriting && flags.yes !== true)
    throw makeFailure(
      'usage',
      'an apply of a fleet asks nobody',
      'review `reconcile plan --fleet FILE`, then add --yes',
    );
  const fleet = readFleet(flags, terminal.cwd);
  if (isWriting) refuseHeld(fleet);
  const visit = makeVisit({ line, terminal, runOne: runner.runOne, fleet, outputs });
  const outcomes = isWriting
    ? await visitInWaves(fleet, visit, terminal.stop)
    : await visitTogether(fleet.targets, visit);
  writeOutcomes(outcomes, outputs, terminal);
  return pickWorstExit(outcomes.map(({ exit }) => exit));
}

/** One sidecar is asked, which knows of all. */
async function showStatus({ argv, flags }: ParsedLine, terminal: Terminal, { runOne }: Runner): Promise<number> {
  const targets = readFleet(flags, terminal.cwd).targets.map(({ name }) => name);
  const shared = { parser: shareParsers(), targets };
  return await runOne(withoutFlags(argv, choosingFlags), terminal, {
    shared,
    adjust: (settings) => settings,
    hear: () => undefined,
  });
}

function refuseOneServer({ flags, operands }: ParsedLine): void {
  const single = (['save', 'journal', 'snapshot', 'live', 'lease'] as const).find(
    (name) => flags[name] !== undefined && !(name === 'lease' && flags['watch'] === true),
  );
  if (single !== undefined)
    throw makeFailure(
      'usage',
      `${formatFlag(single)} is about one server`,
      'leave it out, or give --base-url and PATH instead of --fleet',
    );
  if (operands.length > 0)
    throw makeFailure('usage', '--fleet and PATH exclude each other', 'the fleet file names the path of each target');
}

/** An operator who pauses a roll-out pauses it for those at a terminal too. */
function refuseHeld({ file, rollout: { isPaused, abort } }: ChosenFleet): void {
  if (!isPaused && abort === null) return;
  const what = isPaused ? 'paused' : 'abort';
  throw makeFailure('usage', `the fleet file has \`${what}\``, `nothing is applied until it is taken out of ${file}`);
}

/** The outputs of a fleet; throws a `Failure` for one that it does not have. */
function readFleetOutputs({ flags: { output }, command }: ParsedLine, { cwd, env }: Terminal): readonly Output[] {
  if (command.formats.length === 0) return [textOnStdout];
  const asked = Array.isArray(output) ? output.map(String) : [env['RECONCILE_OUTPUT'] ?? ''].filter(Boolean);
  const outputs = readOutputs(asked, cwd);
  const known: readonly Format[] = command.formats.filter((format) => format !== 'html' && format !== 'csv');
  const wrong = outputs.find(({ format }) => format !== 'text' && !known.includes(format));
  if (wrong === undefined) {
    checkWritable(outputs, env['GITHUB_STEP_SUMMARY'] ?? '');
    return outputs;
  }
  const hint = `its formats are ${known.join(', ')}`;
  throw makeFailure('usage', `\`reconcile ${command.name}\` of a fleet has no output as ${wrong.format}`, hint);
}

interface Visit {
  readonly line: ParsedLine;
  readonly terminal: Terminal;
  readonly runOne: Runner['runOne'];
  readonly fleet: ChosenFleet;
  readonly outputs: readonly Output[];
}

/** Runs the command line on one target. */
function makeVisit({ line, terminal, runOne, fleet, outputs }: Visit): (target: Target) => Promise<TargetOutcome> {
  const { argv, command, flags } = line;
  const shared = { parser: shareParsers() };
  const has = (...formats: readonly Format[]): boolean => outputs.some(({ format }) => formats.includes(format));
  return async (target) => {
    const said = { out: '', err: '' };
    let answer: Answer | null = null;
    const quiet: Terminal = {
      ...terminal,
      env: { ...terminal.env, GITHUB_STEP_SUMMARY: '' },
      stop: AbortSignal.any([terminal.stop]),
      stdoutIsTerminal: false,
      stderrIsTerminal: false,
      stdinIsTerminal: false,
      stdout: (text) => {
        said.out += text;
      },
      stderr: (text) => {
        said.err += text;
      },
    };
    const words = [
      ...withoutFlags(argv, [...choosingFlags, '--output', '--out']),
      ...(command.formats.length === 0 ? [] : ['--output=text']),
      ...outArguments(line, target),
      ...argumentsOf(describeTarget(target, command, flags)),
    ];
    const adjust: Companions['adjust'] = (settings) => adjustSettings(settings, target, fleet.file);
    const hear = (one: Answer): void => {
      answer = one;
    };
    const exit = await runOne(words, quiet, { shared, adjust, hear });
    const kept = await keepAnswer(answer, command.name, exit, has);
    // A warning that belongs to no answer is told too.
    return { target, exit, text: said.err + said.out, ...kept, isPlain: kept.isPlain && said.err === '' };
  };
}

/** What a target's answer is needed for: no more of it is kept, since targets are many. */
async function keepAnswer(
  answer: Answer | null,
  command: string,
  exit: number,
  has: (...formats: readonly Format[]) => boolean,
): Promise<Omit<TargetOutcome, 'target' | 'exit' | 'text'>> {
  const report = answer?.report?.();
  const asked = async (format: 'json' | 'markdown', isAsked: boolean): Promise<string> =>
    answer !== null && isAsked ? await renderAnswer(format, answer, {}) : '';
  return {
    ...(report === undefined
      ? { result: answer?.result ?? 'failed', changes: 0, isPlain: false }
      : summariseRun(report, command, exit)),
    json: await asked('json', has('json')),
    markdown: await asked('markdown', has('markdown', 'github')),
    annotations:
      report !== undefined && has('github') ? (await import('../report/github.ts')).renderGithub(report) : '',
  };
}

/** The words that somebody would type. */
function argumentsOf({ flags, operands }: TargetLine): readonly string[] {
  const words = optionNames.flatMap((name) => {
    const value = flags[name];
    return value === undefined ? [] : [value].flat().map((one) => `${formatFlag(name)}=${String(one)}`);
  });
  return [...words, ...operands];
}

/** `--out` of a fleet is a folder with one file a target. */
function outArguments({ command, flags }: ParsedLine, { name }: Target): readonly string[] {
  if (!command.options.includes('out')) return [];
  if (typeof flags['out'] === 'string') return [`--out=${join(flags['out'], `${name}.json`)}`];
  throw makeFailure('usage', 'one file a target is written', 'name the folder for them: --out FOLDER');
}

function writeOutcomes(outcomes: readonly TargetOutcome[], outputs: readonly Output[], terminal: Terminal): void {
  for (const output of outputs) {
    if (output.format === 'json') writeOutput(output, renderFleetJson(outcomes), terminal);
    else if (output.format === 'markdown') writeOutput(output, renderFleetMarkdown(outcomes), terminal);
    else if (output.format === 'text') writeOutput(output, renderFleetText(outcomes), terminal);
    else {
      const summary = output.file ?? terminal.env['GITHUB_STEP_SUMMARY'] ?? '';
      if (summary !== '') appendFileSync(summary, renderFleetMarkdown(outcomes));
      // Each once.
      const lines = new Set(outcomes.flatMap(({ annotations }) => annotations.split(/(?<=\n)/)));
      (isStdoutTaken(outputs) ? terminal.stderr : terminal.stdout)([...lines].join(''));
    }
  }
}

/** Commands that do not write visit every target. */
async function visitTogether(targets: readonly Target[], visit: (target: Target) => Promise<TargetOutcome>) {
  const inTurn = createPool(together, slowMs);
  return await Promise.all(targets.map((target) => inTurn(() => visit(target))));
}

/**
 * Wave by wave, `maxParallel` targets at once, and the soak between two waves. A target that was refused, or that something was
 * written to and that is not as it should be, stops all that have not begun. One that could not be read or planned lets its wave
 * go on, and no later wave.
 */
async function visitInWaves(
  { targets, rollout }: ChosenFleet,
  visit: (target: Target) => Promise<TargetOutcome>,
  stop: AbortSignal,
) {
  const done = new Map<Target, TargetOutcome>();
  const waves = [...new Set(targets.map(({ wave }) => wave))].sort((a, b) => a - b);
  let lastWave = Number.POSITIVE_INFINITY;
  for (const [index, wave] of waves.entries()) {
    if (index > 0 && lastWave >= wave) await systemClock.sleep(rollout.soakMs, stop);
    const left = targets.filter((target) => target.wave === wave);
    const work = async (): Promise<void> => {
      while (lastWave >= wave && !stop.aborted) {
        const target = left.shift();
        if (target === undefined) return;
        const outcome = await visit(target);
        done.set(target, outcome);
        if (outcome.exit === exitCodes.refused || outcome.exit === exitCodes.partial) lastWave = 0;
        else if (outcome.exit !== exitCodes.ok) lastWave = Math.min(lastWave, wave);
      }
    };
    // One target after the other, unless the fleet file says more.
    await Promise.all(Array.from({ length: rollout.maxParallel ?? 1 }, work));
  }
  return targets.map((target): TargetOutcome => done.get(target) ?? { target, ...notBegun });
}
