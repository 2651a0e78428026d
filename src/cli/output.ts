import { accessSync, constants, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { attempt, getErrorCode } from '../model/result.ts';
import { type Format, makeFailure, type Terminal } from './command.ts';
import { options } from './options.ts';
import { explainUnwritable } from './read-file.ts';

const formats = options.output.words;

/** One output asked for; `file` null: stdout. */
export interface Output {
  readonly format: Format;
  readonly file: string | null;
}

export const textOnStdout: Output = { format: 'text', file: null };

/** The outputs of a run. Text goes to stdout unless another format does; two on stdout are wrong usage. */
export function readOutputs(list: readonly string[], cwd: string): readonly Output[] {
  const outputs = list.map((text) => parseOutput(text, cwd));
  const onStdout = outputs.filter((output) => output.file === null && output.format !== 'github');
  if (onStdout.length > 1)
    throw makeFailure('usage', 'two outputs on stdout', 'write one of them to a file: --output markdown=plan.md');
  const files = outputs.flatMap(({ format, file }) => (file === null || format === 'github' ? [] : [file]));
  const twice = files.find((file, index) => files.indexOf(file) < index);
  if (twice !== undefined) throw makeFailure('usage', `two outputs into ${twice}`, 'give each a file of its own');
  return onStdout.length === 1 ? outputs : [...outputs, textOnStdout];
}

/** The outputs of a command; throws a `Failure` for one that it does not have, or that could not be written: now, not after an apply. */
export function readCommandOutputs(
  { name, formats: known }: { readonly name: string; readonly formats: readonly Format[] },
  list: readonly string[],
  { cwd, env }: Terminal,
): readonly Output[] {
  if (known.length === 0) return [textOnStdout];
  const outputs = readOutputs(list, cwd);
  const wrong = outputs.find(({ format }) => !known.includes(format));
  const hint = `its formats are ${known.join(', ')}`;
  if (wrong !== undefined) throw makeFailure('usage', `\`reconcile ${name}\` has no output as ${wrong.format}`, hint);
  for (const { format, file } of outputs) {
    const target = file ?? (format === 'github' ? (env['GITHUB_STEP_SUMMARY'] ?? '') : '');
    if (target !== '') checkFile(target);
  }
  return outputs;
}

/** Whether it is what a person reads where the command runs. */
export function isScreen({ format, file }: Output): boolean {
  return format === 'text' && file === null;
}

function parseOutput(text: string, cwd: string): Output {
  const [, word = '', file] = /^([^=]*)(?:=(.*))?$/s.exec(text) ?? [];
  const format = formats.find((one) => one === word);
  if (format === undefined)
    throw makeFailure('usage', `--output ${word} is not a format`, `the formats are ${formats.join(', ')}`);
  if (file === '') throw makeFailure('usage', `--output ${format}= names no file`);
  return { format, file: file === undefined ? null : resolve(cwd, file) };
}

/** Whether text on stdout may be coloured: a terminal, no NO_COLOR, no `--no-color`. FORCE_COLOR turns it on. */
export function wantsColor(color: boolean, { env }: Terminal, isTerminal: boolean): boolean {
  if (!color || (env['NO_COLOR'] ?? '') !== '') return false;
  if ((env['FORCE_COLOR'] ?? '') !== '') return env['FORCE_COLOR'] !== '0';
  return isTerminal && env['TERM'] !== 'dumb';
}

function checkFile(file: string): void {
  let code = 'EISDIR';
  try {
    const exists = statSync(file, { throwIfNoEntry: false });
    if (exists?.isDirectory() !== true) {
      accessSync(exists === undefined ? dirname(file) : file, constants.W_OK);
      return;
    }
  } catch (error) {
    code = getErrorCode(error);
  }
  throw explainUnwritable(file, code, '--output');
}

/** The values of a flag in words that may be wrong. */
export function pickValues(words: readonly string[], flag: string): readonly string[] {
  return words.flatMap((word, index) => {
    if (word === flag) return [words[index + 1] ?? ''];
    return word.startsWith(`${flag}=`) ? [word.slice(flag.length + 1)] : [];
  });
}

/** Words as a shell splits them, with quotes and nothing else of a shell (as ci/plan-run.mjs); null where a quote is not closed. */
export function splitWords(text: string): readonly string[] | null {
  const word = /(?:[^\s'"]+|'[^']*'|"[^"]*")+/g;
  if (/['"]/.test(text.replace(word, ''))) return null;
  return (text.match(word) ?? []).map((one) => one.replace(/'([^']*)'|"([^"]*)"/g, '$1$2'));
}

/** The outputs of a run that may have failed: where they are what is wrong, text, or JSON where that was meant. */
export function readUsableOutputs(list: readonly string[], cwd: string): readonly Output[] {
  return attempt(() => readOutputs(list, cwd), [{ format: list.includes('json') ? 'json' : 'text', file: null }]);
}
