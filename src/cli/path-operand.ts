import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { explainMisspeltCommand } from './arguments.ts';
import { exitCodes, type Invocation, makeFailure } from './command.ts';

/** PATH as it was written and absolute. */
export interface PathOperand {
  readonly written: string;
  readonly path: string;
}

/** The PATH operand. Throws a `Failure` that says what to do when there is none. */
export function readPathOperand({ operands, terminal }: Invocation, command: string): PathOperand {
  const [written = ''] = operands;
  if (written === '') {
    const named = command === '' ? '' : `; if \`${command}\` is the directory, write ./${command}`;
    const example = `\`reconcile ${command === '' ? 'plan' : command} .\``;
    const hint = `name the directory that holds the manifests, such as ${example}${named}`;
    throw makeFailure('no-path', 'PATH is missing', hint);
  }
  return { written, path: resolve(terminal.cwd, written) };
}

/** The PATH operand of a command that plans: a directory. One file would be the whole policy, and all other rules be deleted. */
export function readDirectoryOperand(invocation: Invocation, command: string): PathOperand {
  const operand = readPathOperand(invocation, command);
  const { written } = operand;
  const found = statSync(operand.path, { throwIfNoEntry: false });
  const misspelt =
    found === undefined && (command === '' || command === 'plan') ? explainMisspeltCommand(written) : null;
  if (misspelt !== null) throw misspelt;
  if (found?.isFile() !== true) return operand;
  const verb = command === '' ? 'apply' : command;
  const hint =
    command === 'apply' && written.endsWith('.json')
      ? `a saved plan is applied with: reconcile apply ${written} PATH`
      : `name its directory: reconcile ${verb} ${dirname(written)}; to check the file: reconcile validate ${written}`;
  const summary = `${written} is a file, not a directory: it would be the whole policy`;
  throw makeFailure('no-source', summary, hint, exitCodes.invalid);
}
