import type { Problem } from '../model/problem.ts';
import type { Change } from '../plan/plan.ts';
import { withFailedSteps } from './failed-steps.ts';
import { printable, shortened } from './printable.ts';
import { ruleText } from './rule-text.ts';
import type { RunReport } from './run-report.ts';
import { labelOf, symbolOf } from './text.ts';

/** GitHub shows ten annotations of each level and step; what is left out is counted. */
const shown = 10;

/** Workflow commands that annotate files and lines: problems, refusals, and what each changed line does. */
export function githubText(report: RunReport): string {
  const { plan, root } = report;
  const problems = withFailedSteps(report).map((problem) => problemCommand(problem, root));
  const refusals = (report.approved ? [] : (plan?.refusals ?? [])).map(({ code, summary, hint }) =>
    command('error', { title: `refused: ${code}` }, [summary, `hint: ${hint}`]),
  );
  const changes = (plan?.changes ?? []).flatMap((change) => changeCommand(change, report));
  return [...some(problems, 'problems'), ...some(refusals, 'refusals'), ...some(changes, 'changes')].join('');
}

const levels = { error: 'error', warning: 'warning', note: 'notice' } as const;

function problemCommand({ severity, code, summary, hint, place }: Problem, root: string | null): string {
  const where =
    place === undefined ? {} : { file: pathOf(place.file, root), line: String(place.line), col: String(place.column) };
  return command(
    levels[severity],
    { ...where, title: code },
    hint === undefined ? [summary] : [summary, `hint: ${hint}`],
  );
}

function changeCommand(change: Change, { root, userNames }: RunReport): readonly string[] {
  if (change.source === null || change.action === 'keep' || change.action === 'skip') return [];
  const [symbol] = symbolOf(change);
  const rule = change.kind === 'Rule' ? change.desired?.rule : undefined;
  const what = rule === undefined ? '' : ` ${ruleText(rule, userNames)}`;
  const where = { file: pathOf(change.source.file, root), line: String(change.source.line) };
  return [
    command('notice', { ...where, title: `${change.action} ${labelOf(change)}` }, [
      `${symbol} ${labelOf(change)}${what}`,
    ]),
  ];
}

/** Relative to the repository when PATH was: that is how annotations find their file. */
function pathOf(file: string, root: string | null): string {
  return root === null || root === '.' || root === ''
    ? file
    : `${root.replace(/^\.\//, '').replace(/\/$/, '')}/${file}`;
}

function command(level: string, properties: Readonly<Record<string, string>>, lines: readonly string[]): string {
  const list = Object.entries(properties).map(
    ([name, value]) =>
      `${name}=${escapeProperty(name === 'title' ? shortened(printable(value), 250) : printable(value))}`,
  );
  return `::${level}${list.length === 0 ? '' : ` ${list.join(',')}`}::${lines.map((line) => escapeData(shortened(printable(line), 2000))).join('%0A')}\n`;
}

function some(commands: readonly string[], noun: string): readonly string[] {
  const left = commands.length - shown;
  return left <= 0
    ? commands
    : [...commands.slice(0, shown), command('notice', {}, [`and ${left} more ${noun}: see the job summary`])];
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}
