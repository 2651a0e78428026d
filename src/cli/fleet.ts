import { join } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { groupBy } from '../model/group-by.ts';
import { formatInstant } from '../model/instant.ts';
import { joinSome } from '../model/printable.ts';
import { renderAnswer, writeAnswer } from './answer.ts';
import { exitCodes, makeFailure, type ParsedLine, type Settings, type Terminal } from './command.ts';
import { answerFleet, notBegun, summariseAnswer, type TargetOutcome } from './fleet/report.ts';
import { createPool, shareParsers } from './fleet/share.ts';
import { adjustSettings, type ChosenFleet, makeTargetLine, readFleet, type Target } from './fleet/targets.ts';
import { answerLine } from './line.ts';
import { formatFlag } from './options.ts';
import { readCommandOutputs, textOnStdout } from './output.ts';
import { tellProgress } from './progress.ts';

/** Targets that are looked at together by commands that do not write; one that is slow counts no more. */
const together = 8;
const slowMs = 2000;
/** How often a person at a terminal is told which targets are waited for. */
const sayMs = 1000;

/** Runs the line at a target, or what `change` makes of it. */
type Visit = (target: Target, change?: (own: ParsedLine) => ParsedLine) => Promise<TargetOutcome>;

/** Runs a command line on each target of `--fleet`: as often as there are targets, each as if it were alone. Gives the worst exit code. */
export async function runFleet(line: ParsedLine, terminal: Terminal): Promise<number> {
  const { flags, command } = line;
  refuseOneServer(line);
  if (command.name === 'watch') return await (await import('./fleet/watch.ts')).watchFleet(line, terminal);
  const asked = Array.isArray(flags.output) ? flags.output.map(String) : [terminal.env['RECONCILE_OUTPUT'] ?? ''];
  const formats = command.formats.filter((format) => format !== 'html' && format !== 'csv');
  const outputs = readCommandOutputs({ name: `${command.name} --fleet`, formats }, asked.filter(Boolean), terminal);
  const isWriting = command.name === 'apply' && flags['dryRun'] !== true;
  const hint = 'review `reconcile plan --fleet FILE`, then add --yes';
  if (isWriting && flags.yes !== true) throw makeFailure('usage', 'an apply of a fleet asks nothing: give --yes', hint);
  const fleet = readFleet(flags, terminal.cwd);
  // What cannot be a line of a target is said before any runs.
  const lines = new Map(fleet.targets.map((target) => [target, makeTargetLine(target, nameOut(line, target))]));
  const shared = { parser: shareParsers() };
  const documents = outputs.every(({ format }) => format === 'text') ? [] : (['json', 'markdown', 'github'] as const);
  const open = new Set<string>();
  const visit: Visit = async (target, change = (own) => own) => {
    open.add(target.name);
    const { quiet, out, err } = keepQuiet(terminal);
    const adjust = (read: Settings): Settings => adjustSettings(read, target, fleet.file);
    const { answer, settings } = await answerLine(change(lines.get(target) ?? line), quiet, adjust, shared);
    const exit = await writeAnswer(answer, [textOnStdout], settings, quiet);
    const { isPlain, ...came } = summariseAnswer(answer, command.name, exit);
    // A warning that belongs to no answer is told too.
    const warnings = err.join('');
    const said = { ...notBegun.said, text: warnings + out.join('') };
    // All that an output may want: no more is kept of an answer, since targets are many.
    for (const format of documents) said[format] = await renderAnswer(format, answer, {});
    open.delete(target.name);
    return { target, exit, ...came, isPlain: isPlain && warnings === '', said };
  };
  const outcomes = await tellProgress(terminal, async (say) => {
    const looking = setInterval(() => say(`waiting for ${joinSome([...open], 3) || 'the next wave'}`), sayMs);
    const begin = async () =>
      (isWriting ? await settleAll(fleet, visit, terminal) : null) ?? visitAll(fleet, isWriting, visit, terminal);
    return await begin().finally(() => clearInterval(looking));
  });
  const isPaused = command.name === 'status' && fleet.rollout.paused === true;
  return await writeAnswer(answerFleet(outcomes, isPaused), outputs, null, terminal);
}

function refuseOneServer({ flags, operands, command }: ParsedLine): void {
  const ofOne = ['baseUrl', 'tokenFile', 'save', 'snapshot', 'live', 'probe'] as const;
  const single = ofOne.find((name) => flags[name] !== undefined);
  const hint = 'leave it out, or name one server instead of --fleet';
  if (single !== undefined) throw makeFailure('usage', `${formatFlag(single)} is about one server`, hint);
  if (operands.length > 0 && command.name !== 'status')
    throw makeFailure('usage', '--fleet and PATH exclude each other', 'the fleet file names the path of each target');
}

/**
 * Takes up what a killed apply left at each target, at all of them at once: each has its own deadline. Null: nothing of that is left; else
 * no target begins. An operator who pauses a roll-out pauses it for those at a terminal too, but not for what goes back.
 */
async function settleAll({ file, targets, rollout }: ChosenFleet, visit: Visit, { stderr }: Terminal) {
  const { paused, abort } = rollout;
  const inTurn = createPool(together, slowMs);
  const outcomes = await Promise.all(targets.map((target) => inTurn(() => visit(target, settleLine))));
  const isHeld = paused === true || abort !== undefined;
  for (const { target, exit, said } of outcomes)
    if (said.text !== '' && (isHeld || exit === exitCodes.ok)) stderr(`== ${target.name} ==\n${said.text}\n`);
  const hint = `nothing is applied until it is taken out of ${file}`;
  if (isHeld) throw makeFailure('usage', `the fleet file has \`${paused ? 'paused' : 'abort'}\``, hint);
  if (outcomes.every(({ exit }) => exit === exitCodes.ok)) return null;
  return outcomes.map((one) => (one.exit === exitCodes.ok ? { target: one.target, ...notBegun } : one));
}

/** The line that takes up what a killed apply left, and no more. What went back as a whole is no refusal of what comes next. */
function settleLine({ command, ...line }: ParsedLine): ParsedLine {
  const run: Awaited<ReturnType<typeof command.load>>['run'] = async (invocation) => {
    const back = (await (await import('./trial.ts')).settleEarlier(invocation)) ?? { text: () => '' };
    return back.exit === exitCodes.refused ? { ...back, exit: exitCodes.ok } : back;
  };
  return { ...line, command: { ...command, load: async () => ({ run }) } };
}

/** The line of a target says what it has to say as text; `--out` of a fleet is a folder with one file a target. */
function nameOut(line: ParsedLine, { name }: Target): ParsedLine {
  const { out, ...flags } = { ...line.flags, output: ['text'] };
  if (!line.command.options.includes('out')) return { ...line, flags };
  if (typeof out === 'string') return { ...line, flags: { ...flags, out: join(out, `${name}.json`) } };
  throw makeFailure('usage', 'one file a target is written', 'name the folder for them: --out FOLDER');
}

/** A terminal where nobody sits, and what is said to it. */
function keepQuiet(terminal: Terminal) {
  const [out, err]: [string[], string[]] = [[], []];
  const quiet: Terminal = {
    ...terminal,
    env: { ...terminal.env, GITHUB_STEP_SUMMARY: '' },
    stop: AbortSignal.any([terminal.stop]),
    ...{ stdoutIsTerminal: false, stderrIsTerminal: false, stdinIsTerminal: false },
    stdout: (text) => void out.push(text),
    stderr: (text) => void err.push(text),
  };
  return { quiet, out, err };
}

/**
 * Commands that do not write visit every target. Others go wave by wave, `maxParallel` targets at once, with the soak between two
 * waves. A target that was refused, or that was written to and is not as it should be, stops all that have not begun.
 * One that could not be read or planned lets its wave go on, and no later wave.
 */
async function visitAll({ targets, rollout }: ChosenFleet, isWriting: boolean, visit: Visit, terminal: Terminal) {
  const { stop, stderr, stderrIsTerminal } = terminal;
  const done = new Map<Target, TargetOutcome>();
  const byWave = [...groupBy(targets, ({ wave }) => wave)].sort(([a], [b]) => a - b);
  const waves = isWriting ? byWave.map(([, members]) => members) : [targets];
  // One target after the other, unless the fleet file says more.
  const inTurn = isWriting ? createPool(rollout.maxParallel ?? 1, null) : createPool(together, slowMs);
  let last = Number.POSITIVE_INFINITY;
  for (const [index, members] of waves.entries()) {
    if (index > 0 && last >= index) {
      const begins = formatInstant(Math.ceil((systemClock.wallTime() + rollout.soak) / 1000) * 1000);
      if (rollout.soak > 0 && !stderrIsTerminal) stderr(`Wave ${members[0]?.wave} begins at ${begins}.\n`);
      await systemClock.sleep(rollout.soak, stop);
    }
    const visitInTurn = async (target: Target): Promise<void> => {
      if (isWriting && (last < index || stop.aborted)) return;
      const outcome = await visit(target);
      done.set(target, outcome);
      const { exit, isApplied } = outcome;
      const stopsAll = isApplied || exit === exitCodes.refused || exit === exitCodes.partial;
      if (exit !== exitCodes.ok) last = stopsAll ? -1 : Math.min(last, index);
    };
    await Promise.all(members.map((target) => inTurn(() => visitInTurn(target))));
  }
  return targets.map((target): TargetOutcome => done.get(target) ?? { target, ...notBegun });
}
