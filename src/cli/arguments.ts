import { Command, CommanderError, Option } from 'commander';
import { suggest } from '../manifest/suggest.ts';
import { joinSome } from '../model/printable.ts';
import type { Problem } from '../model/problem.ts';
import { version } from '../version.ts';
import { type CommandSpec, type Failure, listOptions, makeFailure, type ParsedLine, type Settings } from './command.ts';
import { commands } from './commands.ts';
import { describeProgram, topics, translateWord } from './help.ts';
import type { OptionName, OptionSpec } from './options.ts';
import { findGroup, findPlaceholder, formatFlag, listGroup, optionNames, options } from './options.ts';

export type ParsedArguments =
  | (ParsedLine & { readonly kind: 'run' })
  | { readonly kind: 'text'; readonly text: string };

/** Takes a command line apart; help and `--version` give text. Throws a `Failure` for wrong usage. */
export function parseArguments(argv: readonly string[]): ParsedArguments {
  const describeTopic = argv[0] === 'help' && argv.length === 2 ? topics.get(argv[1] ?? '') : undefined;
  if (describeTopic !== undefined) return { kind: 'text', text: describeTopic() };
  let parsed: ParsedArguments | null = null;
  const output: string[] = [];
  const { line, isNamed } = putCommandFirst(addWaitTime(argv));
  const program = new Command('reconcile')
    .version(version, '-V, --version', 'print the version')
    .showSuggestionAfterError(true)
    .helpCommand('help [COMMAND]', 'show the options of a command');
  program.helpInformation = describeProgram;
  for (const spec of commands) {
    const command = program.command(spec.name);
    // The options of a command are described only where the line can name it: describing all takes 10 ms of a start.
    if (!line.includes(spec.name)) continue;
    describe(command, spec)
      .description(`${spec.summary[0]?.toUpperCase()}${spec.summary.slice(1)}.`)
      .addHelpText('after', `\nExamples:\n${spec.examples.map((line) => `  ${line}\n`).join('')}`);
    command.action(() => {
      const [first = '', ...more] = command.args;
      const meant = more.find(isCommand);
      const hint = meant === undefined ? helpHint(first) : `The command comes first: reconcile ${meant} ${first}`;
      if (!isNamed && more.length > 0) throw makeFailure('usage', `there is no command \`${first}\``, hint);
      const given = Object.entries(command.opts<Record<string, unknown>>());
      const own = Object.fromEntries(given.filter(([name]) => command.getOptionValueSource(name) === 'cli'));
      const flags = planning.has(spec.name) ? own : { output: ['text'], ...own };
      parsed = { kind: 'run', command: spec, operands: command.args, flags };
    });
  }
  for (const command of [program, ...program.commands]) {
    command.exitOverride().configureOutput({ writeOut: (text) => output.push(text), writeErr: () => {} });
  }
  try {
    program.parse(line, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw usage(error, argv);
    return { kind: 'text', text: output.join('') };
  }
  if (parsed === null) throw new Error('no command was chosen');
  return parsed;
}

const commandNames = commands.map(({ name }) => name);
const isCommand = (word: string): boolean => commandNames.includes(word);

/** What takes `output` from settings and variables: another command would overwrite the file of the plan. */
const planning: ReadonlySet<string> = new Set(['plan', 'apply', 'undo', 'diff', 'drift']);

/** Flags that take the next word. */
const withValue: ReadonlySet<string> = new Set(
  optionNames.filter((name) => options[name].kind !== 'switch').map(formatFlag),
);

/** Puts the command first; without one a PATH is applied, or as the older spelling with `--plan` or `--watch` says. */
function putCommandFirst(words: readonly string[]): { readonly line: readonly string[]; readonly isNamed: boolean } {
  const [first = ''] = words;
  if (/^(?:help|--help|-h|--version|-V)$/.test(first) || isCommand(first)) return { line: words, isNamed: true };
  const before = words.slice(0, words.includes('--') ? words.indexOf('--') : words.length);
  // As the parser reads it, a flag that stands where a value is due is that value.
  const values = new Set<number>();
  for (const [index, word] of before.entries()) if (withValue.has(word) && !values.has(index)) values.add(index + 1);
  const operand = before.findIndex((word, index) => !word.startsWith('-') && !values.has(index));
  const named = isCommand(words[operand] ?? '') ? operand : before.findIndex((word) => /^--(plan|watch)$/.test(word));
  const verb = (words[named] ?? 'apply').replace(/^--/, '');
  // `--plan` keeps its promise as a value too; it is not taken out there, so that no other word becomes that value.
  return { line: [verb, ...words.filter((_, index) => index !== named || values.has(index))], isNamed: named >= 0 };
}

/** `--wait-enforced` without its time gets one: what follows is the PATH. */
function addWaitTime(argv: readonly string[]): readonly string[] {
  const isBare = (word: string, index: number): boolean =>
    word === '--wait-enforced' && !/^[0-9]+[a-z]+$/.test(argv[index + 1] ?? '');
  return argv.map((word, index) => (isBare(word, index) ? `${word}=60s` : word));
}

function describe(command: Command, spec: CommandSpec): Command {
  // All are optional to the parser: each command says better than it what is missing.
  for (const operand of spec.operands.replace(/ --.*/, '').split(' '))
    if (operand !== '') command.argument(`[${operand.replace(/[[\]]/g, '')}]`);
  for (const name of listOptions(spec)) command.addOption(optionOf(name, spec).helpGroup(`${findGroup(name)}:`));
  return command.allowExcessArguments(false).usage(`[options] ${spec.operands}`.trim());
}

function optionOf(name: OptionName, { formats }: CommandSpec): Option {
  const spec: OptionSpec = options[name];
  const flag = spec.short === undefined ? formatFlag(name) : `-${spec.short}, ${formatFlag(name)}`;
  const help = name === 'output' ? `${formats.join(', ')}; ${spec.help}` : helpOf(spec);
  const option = new Option(spec.kind === 'switch' ? flag : `${flag} <${findPlaceholder(spec)}>`, help);
  option.attributeName = () => name;
  if (spec.kind === 'list' || spec.kind === 'paths')
    option.argParser((text: string, before: unknown) => [...(Array.isArray(before) ? before : []), text]);
  return option;
}

function helpOf(spec: OptionSpec): string {
  if (!('default' in spec) || spec.default === undefined) return spec.help;
  if (spec.kind === 'switch') return `no ${spec.help}`;
  if (spec.kind !== 'duration') return `${spec.help} (default: ${spec.default})`;
  const shown = spec.default % 1000 === 0 ? `${spec.default / 1000}s` : `${spec.default}ms`;
  return `${spec.help} (default: ${shown})`;
}

function usage(error: CommanderError, argv: readonly string[]): Failure {
  const [word = '', second = ''] = argv;
  if (word === 'help') return makeFailure('usage', `there is no command \`${second}\``, helpHint(second));
  const [first = '', ...more] = error.message.replace(/^error: |\s+$/g, '').split('\n');
  const flag = /unknown option '([^'=]+)/.exec(first)?.[1] ?? '';
  const other = argv.find(isCommand) ?? 'NAME';
  if (/^--(plan|watch)$/.test(flag) && other !== 'watch')
    return makeFailure('usage', first, `give one command; write a directory as ./${other}`);
  if (error.code === 'commander.excessArguments')
    return makeFailure('usage', first.replace(/\. Expected.*/, ''), describeOperands(other));
  if (nearestCommand(word) !== null) return makeFailure('usage', `there is no command \`${word}\``, helpHint(word));
  const said = more.join(' ').replace(/[()]/g, '').trim();
  return makeFailure('usage', first, adviseOnFlag(flag, other, first, said) || said || helpHint(word, flag));
}

function describeOperands(command: string): string {
  const { operands = '', options: taken = [] } = commands.find(({ name }) => name === command) ?? {};
  return taken.includes('out') ? 'name where it writes with --out' : `it takes ${operands || 'none'}`;
}

function translateFlag(flag: string, command: string): string | null {
  if (flag === '--plan') return '--suspend to watch and write nothing';
  return flag === '--dry-run' && command === 'fmt' ? '--check' : translateWord(flag, 'flag');
}

/** What to type instead of a flag that the command does not take; null: nothing is known of it. `said`: what the parser suggests. */
function adviseOnFlag(flag: string, command: string, summary: string, said: string): string | null {
  // The parser knows the flags of this command alone.
  const near = said === '' ? (suggest(flag, optionNames.map(formatFlag)) ?? flag) : flag;
  const instead = translateFlag(flag, command) ?? translateFlag(near, command);
  if (instead !== null) return `Use ${instead}.`;
  const takes = (one: CommandSpec): boolean => listOptions(one).some((name) => formatFlag(name) === near);
  const takers = commands.filter(takes).map(({ name }) => `\`reconcile ${name}\``);
  if (takers.length === 0) return null;
  const isValued = summary.includes('=') && !withValue.has(near);
  const advice = isValued ? `${near} takes no value.` : `${near} goes with ${joinSome(takers, 5)}.`;
  return near === flag ? advice : `Did you mean ${near}? ${advice}`;
}

function helpHint(word: string, flag = ''): string {
  const meant = nearestCommand(word);
  if (meant !== null) return `Did you mean \`reconcile ${meant}\`?`;
  const older = isCommand(word) ? null : suggest(flag, ['--plan', '--watch']);
  return older === null ? 'reconcile --help shows the commands and their options' : `Did you mean ${older}?`;
}

/** The command that a word which is none looks like. */
function nearestCommand(word: string): string | null {
  if (word.startsWith('-') || isCommand(word)) return null;
  return translateWord(word, 'verb') ?? suggest(word, commandNames);
}

/** A PATH that is not there and looks like a misspelt command; null when it does not. */
export function explainMisspeltCommand(operand: string): Failure | null {
  const summary = `there is no directory and no command \`${operand}\``;
  return nearestCommand(operand) === null ? null : makeFailure('usage', summary, helpHint(operand));
}

/** A line to type next: a command's words, with the flags of this run that say which server and which state folder. */
export function lineToType(words: string, settings: Settings): string {
  const spec = commands.find(({ name }) => name === words.split(' ')[0]);
  const telling = (['config', ...listGroup('connection'), 'profile', 'stateDir'] as const).filter(
    (name) => spec && listOptions(spec).includes(name) && settings.origins.get(name) === formatFlag(name),
  );
  const flags = telling.map((name) => {
    const value = options[name].kind === 'switch' ? '' : String(settings[name]).replace(/\/\/[^/@]*@/, '//');
    return ` ${formatFlag(name)} ${/^[\w@%+=:,./-]*$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`}`.trimEnd();
  });
  return `reconcile ${words}${flags.join('')}`;
}

/** The problem, whose hint names each command that looks for a state folder as it is to be typed in this run. */
export function completeHint<P extends Problem>(problem: P, settings: Settings): P {
  const lines = /reconcile ((?:confirm|history|undo)\b(?: show \d+| N\b)?)/g;
  const hint = problem.hint?.replace(lines, (_, words: string) => lineToType(words, settings));
  return hint === undefined ? problem : { ...problem, hint };
}
