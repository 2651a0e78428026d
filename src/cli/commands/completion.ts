import type { Answer, Invocation } from '../command.ts';
import { writeCompletion } from '../completion.ts';
import { exitCodes } from '../exit-code.ts';
import { makeFailure } from '../failure.ts';

/** `reconcile completion bash|zsh|fish`: the script that the shell reads. */
export async function run({ operands }: Invocation): Promise<Answer> {
  const [shell = ''] = operands;
  const script = writeCompletion(shell);
  if (script === null)
    throw makeFailure(
      'usage',
      `there is no completion for the shell ${JSON.stringify(shell)}`,
      'the shells are bash, zsh and fish: source <(reconcile completion bash)',
    );
  return { exit: exitCodes.ok, text: () => script };
}
