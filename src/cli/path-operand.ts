import { resolve } from 'node:path';
import type { Invocation } from './command.ts';
import { failure } from './failure.ts';

/** The PATH operand as it was written and absolute. Throws a `Failure` that says what to do when there is none. */
export function pathOperand(
  { operands, terminal }: Invocation,
  command: string,
): { readonly written: string; readonly path: string } {
  const [written] = operands;
  if (written === undefined || written === '') {
    const example = command === '' ? 'reconcile --plan .' : `reconcile ${command} .`;
    const named = command === '' ? '' : `; if \`${command}\` is the directory, write ./${command}`;
    throw failure(
      'no-path',
      'PATH is missing',
      `name the directory that holds the manifests, such as \`${example}\`${named}`,
    );
  }
  return { written, path: resolve(terminal.cwd, written) };
}
