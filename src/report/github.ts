import { escapeControls, shortenText } from '../model/printable.ts';
import type { Problem } from '../model/problem.ts';
import type { Change } from '../plan/plan.ts';
import { chooseSymbol, describeChange, formatLabel } from './change-words.ts';
import { addFailedSteps } from './failed-steps.ts';
import { listLeftOpen } from './page.ts';
import { stripRoot } from './problems.ts';
import type { RunReport } from './run-report.ts';

/** GitHub shows ten annotations of each level and step: what is left out is counted in the last of them. */
const shown = 10;

/** Workflow commands that annotate files and lines: problems, refusals, and what each changed line does. */
export function renderGithub(report: RunReport): string {
  const { plan, root } = report;
  const problems = addFailedSteps(report);
  const open = listLeftOpen(report);
  const leftOpen = open.length === 0 ? [] : [command('error', { title: 'left open' }, open)];
  const refusals = (report.approved ? [] : (plan?.refusals ?? [])).map(({ code, summary, hint }) =>
    command('error', { title: `refused: ${code}` }, [summary, `hint: ${hint}`]),
  );
  const changes = (plan?.changes ?? []).flatMap((change) => changeCommand(change, report));
  const of = (severity: Problem['severity']): readonly string[] =>
    problems.filter((one) => one.severity === severity).map((one) => problemCommand(one, root));
  return [
    ...some('error', [...leftOpen, ...refusals, ...of('error')]),
    ...some('warning', of('warning')),
    ...some('note', [...of('note'), ...changes]),
  ].join('');
}

const levels = { error: 'error', warning: 'warning', note: 'notice' } as const;

function problemCommand({ severity, code, summary, hint, place }: Problem, root: string | null): string {
  const where = place && { file: stripRoot(place.file, root), line: String(place.line), col: String(place.column) };
  const lines = hint === undefined ? [summary] : [summary, `hint: ${hint}`];
  return command(levels[severity], { ...where, title: code }, lines);
}

function changeCommand(change: Change, { root, userNames }: RunReport): readonly string[] {
  // A deleted rule's place is a line of the base, not of the file that the annotation would stand beside.
  if (change.source === null || change.action === 'keep' || change.action === 'skip' || change.action === 'delete')
    return [];
  const [symbol] = chooseSymbol(change);
  const what = change.kind === 'Rule' ? ` ${describeChange(change, userNames)}` : '';
  const label = formatLabel(change);
  const where = { file: stripRoot(change.source.file, root), line: String(change.source.line) };
  return [command('notice', { ...where, title: `${change.action} ${label}` }, [`${symbol} ${label}${what}`])];
}

function command(level: string, properties: Readonly<Record<string, string>>, lines: readonly string[]): string {
  const list = Object.entries(properties).map(([name, value]) => {
    const text = escapeControls(value);
    const data = escapeData(name === 'title' ? shortenText(text, 250) : text);
    return `${name}=${data.replaceAll(':', '%3A').replaceAll(',', '%2C')}`;
  });
  const text = lines.map((line) => escapeData(shortenText(escapeControls(line), 2000))).join('%0A');
  return `::${level}${list.length === 0 ? '' : ` ${list.join(',')}`}::${text}\n`;
}

function some(severity: Problem['severity'], commands: readonly string[]): readonly string[] {
  if (commands.length <= shown) return commands;
  const left = commands.length - shown + 1;
  return [...commands.slice(0, shown - 1), command(levels[severity], {}, [`and ${left} more: see the job summary`])];
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}
