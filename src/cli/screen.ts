import { mergeNames } from '../model/known-users.ts';
import type { Problem } from '../model/problem.ts';
import { renderEnforcement } from '../report/enforcement.ts';
import { renderProblems } from '../report/problems.ts';
import type { RunReport } from '../report/run-report.ts';
import { renderApply, renderPlan } from '../report/text.ts';
import { openScreens } from './answer.ts';
import type { Answer, Invocation } from './command.ts';
import { isScreen, readOutputs } from './output.ts';
import { startProgress } from './progress.ts';

/** What a planning run shows: the plan before it is applied, progress, and the end. Throws a `Failure` for wrong outputs now. */
export function makeScreen(invocation: Invocation) {
  const { settings, terminal } = invocation;
  const showsText = readOutputs(settings.output, terminal.cwd).some(isScreen);
  const screens = openScreens(settings, terminal);
  const { full } = settings;
  let shown: string | null = null;
  const progress = startProgress(invocation);
  return {
    ...progress,
    /** Shows the plan on a terminal before a question or an apply. */
    showPlan(report: RunReport, aboutToAsk: boolean): void {
      progress.onPlan(report.plan?.steps.length ?? 0);
      const name = showsText ? 'stdout' : 'stderr';
      if ((showsText && shown !== report.digest) || aboutToAsk)
        screens[name]((display) => renderPlan(nameFor(report, terminal[`${name}IsTerminal`]), { ...display, full }));
      shown = showsText ? report.digest : null;
    },
    /** What the run came to, and what kept it from writing (`obstacle`). A plan that stands on stdout already is not repeated there. */
    answerWith(report: RunReport, exit: number, obstacle: Problem | null, declined: boolean): Answer {
      progress.end();
      const isShown = shown !== null && shown === report.digest;
      const said = obstacle === null && declined ? 'Nothing was written.\n' : '';
      return {
        exit,
        failed: report.plan === null,
        text({ onScreen = false, ...display }) {
          const named = nameFor(report, onScreen && terminal.stdoutIsTerminal);
          const shows = { ...display, full };
          const plan = isShown && onScreen ? '' : renderPlan(named, shows);
          const sections = [plan, renderApply(named, shows), renderEnforcement(named, shows)];
          return sections.filter((section) => section !== '').join('\n');
        },
        report: () => report,
        notes: (color) => (obstacle !== null && isShown ? renderProblems([obstacle], color) : said),
      };
    },
  };
}

/** With the addresses that only the server knows, where a person looks. */
function nameFor(report: RunReport, isTerminal: boolean): RunReport {
  if (!isTerminal || report.serverNames === undefined) return report;
  return { ...report, userNames: mergeNames(report.serverNames, report.userNames) };
}
