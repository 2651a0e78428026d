import { appendFileSync } from 'node:fs';
import { enforcementText } from '../report/enforcement.ts';
import { githubText } from '../report/github.ts';
import { jsonText } from '../report/json.ts';
import { markdownText } from '../report/markdown.ts';
import type { RunReport } from '../report/run-report.ts';
import { applyText, planText } from '../report/text.ts';
import type { Terminal } from './command.ts';
import { failure } from './failure.ts';
import { emit, type Output } from './output.ts';

/** How an output is shown. */
export interface Rendering {
  readonly color: boolean;
  /** The plan was shown before it was applied: only what came of it is left to say. */
  readonly planShown: boolean;
  /** Another format has stdout: GitHub's commands go to stderr, which it reads too. */
  readonly stdoutTaken: boolean;
}

/** Writes one output of a run. */
export function renderTo(output: Output, report: RunReport, rendering: Rendering, terminal: Terminal): void {
  if (output.format !== 'github') {
    const text = render(output.format, report, rendering);
    // Without a plan there is only what went wrong, and that belongs on stderr.
    if (output.format === 'text' && output.file === null && report.plan === null) terminal.stderr(text);
    else emit(output, text, terminal);
    return;
  }
  const summary = output.file ?? terminal.env['GITHUB_STEP_SUMMARY'] ?? null;
  if (summary !== null && summary !== '') appendSummary(summary, markdownText(report));
  const write = rendering.stdoutTaken ? terminal.stderr : terminal.stdout;
  write(githubText(report));
}

function render(format: 'text' | 'json' | 'markdown', report: RunReport, { color, planShown }: Rendering): string {
  switch (format) {
    case 'json':
      return jsonText(report);
    case 'markdown':
      return markdownText(report);
    case 'text': {
      const plan = planShown ? '' : planText(report, { color });
      const applied = applyText(report, { color });
      const sections = [plan, applied, enforcementText(report, { color })];
      return sections.filter((section) => section !== '').join('\n');
    }
  }
}

/** The job summary belongs to every step of the job: it is added to. */
function appendSummary(file: string, text: string): void {
  try {
    appendFileSync(file, text);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    throw failure(
      'output',
      `the job summary ${file} cannot be written (${code})`,
      'check --output and GITHUB_STEP_SUMMARY',
    );
  }
}
