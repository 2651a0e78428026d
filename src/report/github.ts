import { printable, shortened } from '../model/printable.ts';
import type { Problem } from '../model/problem.ts';
import type { Change } from '../plan/plan.ts';
import { changeWords, labelOf, symbolOf } from './change-words.ts';
import { withFailedSteps } from './failed-steps.ts';
import { trafficTexts } from './page.ts';
import { pathBelow } from './problems.ts';
import type { RunReport } from './run-report.ts';
import { leftOpenTitle } from './text.ts';
import { peopleOf } from './traffic/people.ts';

/** GitHub shows ten annotations of each level and step: what is left out is counted in the last of them. */
const shown = 10;

/** Workflow commands that annotate files and lines: problems, refusals, and what each changed line does. */
export function githubText(report: RunReport): string {
  const { plan, root } = report;
  const problems = withFailedSteps(report);
  const refusals = (report.approved ? [] : (plan?.refusals ?? [])).map(({ code, summary, hint }) =>
    command('error', { title: `refused: ${code}` }, [summary, `hint: ${hint}`]),
  );
  const changes = (plan?.changes ?? []).flatMap((change) => changeCommand(change, report));
  const of = (severity: Problem['severity']): readonly string[] =>
    problems.filter((one) => one.severity === severity).map((one) => problemCommand(one, root));
  return [
    ...some('error', [...leftOpen(report), ...refusals, ...of('error')]),
    ...some('warning', of('warning')),
    ...some('note', [...of('note'), ...changes]),
  ].join('');
}

function leftOpen(report: RunReport): readonly string[] {
  const { apply, plan } = report;
  if (apply === null || apply.leftOpen.length === 0) return [];
  return [
    command('error', { title: 'left open' }, [leftOpenTitle, ...trafficTexts(apply.leftOpen, peopleOf(plan, report))]),
  ];
}

const levels = { error: 'error', warning: 'warning', note: 'notice' } as const;

function problemCommand({ severity, code, summary, hint, place }: Problem, root: string | null): string {
  const where =
    place === undefined
      ? {}
      : { file: pathBelow(place.file, root), line: String(place.line), col: String(place.column) };
  return command(
    levels[severity],
    { ...where, title: code },
    hint === undefined ? [summary] : [summary, `hint: ${hint}`],
  );
}

function changeCommand(change: Change, { root, userNames }: RunReport): readonly string[] {
  // A deleted rule's place is a line of the base, not of the file that the annotation would stand beside.
  if (change.source === null || change.action === 'keep' || change.action === 'skip' || change.action === 'delete')
    return [];
  const [symbol] = symbolOf(change);
  const what = change.kind === 'Rule' ? ` ${changeWords(change, userNames)}` : '';
  const where = { file: pathBelow(change.source.file, root), line: String(change.source.line) };
  return [
    command('notice', { ...where, title: `${change.action} ${labelOf(change)}` }, [
      `${symbol} ${labelOf(change)}${what}`,
    ]),
  ];
}

function command(level: string, properties: Readonly<Record<string, string>>, lines: readonly string[]): string {
  const list = Object.entries(properties).map(
    ([name, value]) =>
      `${name}=${escapeProperty(name === 'title' ? shortened(printable(value), 250) : printable(value))}`,
  );
  return `::${level}${list.length === 0 ? '' : ` ${list.join(',')}`}::${lines.map((line) => escapeData(shortened(printable(line), 2000))).join('%0A')}\n`;
}

function some(severity: Problem['severity'], commands: readonly string[]): readonly string[] {
  if (commands.length <= shown) return commands;
  const left = commands.length - shown + 1;
  return [...commands.slice(0, shown - 1), command(levels[severity], {}, [`and ${left} more: see the job summary`])];
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}
