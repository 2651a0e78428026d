import { growHeapSlowly } from '../../adapters/manifest-parser.ts';
import { formatFile } from '../../manifest/format.ts';
import type { Problem } from '../../model/problem.ts';
import { formatPath, renderProblems } from '../../report/problems.ts';
import { count } from '../../report/summary.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { readManifestFiles, readPathOperand } from '../path-operand.ts';
import { readProfile } from '../plan-settings.ts';
import { replaceNamed } from '../read-file.ts';

/** `reconcile fmt PATH…`: canonical form, in place; `-`: stdin to stdout. `--check`: exit 1 for a change or host bits. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { operands, settings } = invocation;
  readPathOperand(invocation, 'fmt');
  const files = await readManifestFiles(invocation);
  growHeapSlowly(files);
  const problems: Problem[] = [];
  const left: Problem[] = [];
  const changed: string[] = [];
  let printed = '';
  for (const { shown, path, bytes } of files) {
    const formatted = formatFile(shown, bytes, readProfile(settings));
    // Values of several environments lie beside the manifests.
    if (formatted.problems.some(({ code }) => code === 'not-a-manifest') && !operands.includes(shown)) continue;
    for (const problem of formatted.problems) problems.push(problem);
    for (const problem of formatted.left) left.push(problem);
    if (path === '-' && !settings.check) printed += formatted.text ?? '';
    else if (formatted.text !== null && formatted.text !== formatted.before) {
      changed.push(shown);
      if (!settings.check) await replaceNamed(path, formatted.text, 'PATH');
    }
  }
  const verb = settings.check ? 'would change' : 'changed';
  const byHand = left.length === 0 ? '' : `, ${left.length} to correct by hand`;
  return {
    exit: chooseExitCode({ invalid: problems.length > 0, failed: settings.check && changed.length + left.length > 0 }),
    text: () => printed + changed.map((path) => `${formatPath(path)}\n`).join(''),
    notes: (color) =>
      `${renderProblems([...problems, ...left], color)}${count(files.length, 'file')}, ${changed.length} ${verb}${byHand}.\n`,
  };
}
