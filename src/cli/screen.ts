import { systemClock } from '../adapters/clock.ts';
import type { Outcome } from '../apply/outcome.ts';
import { problemsText } from '../report/problems.ts';
import type { RunReport } from '../report/run-report.ts';
import { planText } from '../report/text.ts';
import type { Invocation } from './command.ts';
import { Failure } from './failure.ts';
import { outputsOf, stdoutIsTaken, wantsColor } from './output.ts';
import { renderTo } from './render.ts';

/** What a planning run shows: the plan before it is applied, progress, and every output at the end. */
export interface Screen {
  /** Shows the plan on a terminal before a question or an apply. */
  readonly showPlan: (report: RunReport, aboutToAsk: boolean) => void;
  readonly onOutcome: (outcome: Outcome) => void;
  /** Writes every output; false when one could not be written, which is said, and keeps none of the others back. */
  readonly finish: (report: RunReport) => boolean;
}

/** Progress is said at most this often, ms: on a terminal one line that changes, else a line each. */
const progressEvery = { terminal: 100, log: 5000 };

/** The screen of one run; wrong outputs are a usage failure now, not after an apply. */
export function screenOf({ settings, terminal }: Invocation): Screen {
  const outputs = outputsOf(settings.output, terminal.cwd);
  const textOnStdout = outputs.some((output) => output.format === 'text' && output.file === null);
  const colorOn = (isTerminal: boolean): boolean => wantsColor(settings, terminal, isTerminal);
  let shown = false;
  let total = 0;
  let done = 0;
  let saidAt = systemClock.now();
  const clear = (): void => {
    if (terminal.stderrIsTerminal && done > 0) terminal.stderr('\r\u001b[K');
  };
  return {
    showPlan(report, aboutToAsk) {
      total = report.plan?.steps.length ?? 0;
      if (textOnStdout) {
        terminal.stdout(planText(report, { color: colorOn(terminal.stdoutIsTerminal) }));
        shown = true;
      } else if (aboutToAsk) terminal.stderr(planText(report, { color: colorOn(terminal.stderrIsTerminal) }));
    },
    onOutcome() {
      done++;
      const now = systemClock.now();
      if (now - saidAt < (terminal.stderrIsTerminal ? progressEvery.terminal : progressEvery.log)) return;
      saidAt = now;
      const text = `applying: ${done} of ${Math.max(total, done)} requests`;
      terminal.stderr(terminal.stderrIsTerminal ? `\r\u001b[K${text}` : `${text}\n`);
    },
    finish(report) {
      clear();
      const stdoutTaken = stdoutIsTaken(outputs);
      let written = true;
      for (const output of outputs) {
        const color = output.file === null && colorOn(terminal.stdoutIsTerminal);
        try {
          renderTo(output, report, { color, planShown: shown && output.file === null, stdoutTaken }, terminal);
        } catch (error) {
          if (!(error instanceof Failure)) throw error;
          terminal.stderr(problemsText(error.problems, colorOn(terminal.stderrIsTerminal)));
          written = false;
        }
      }
      return written;
    },
  };
}
