import { appendFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Problem } from '../model/problem.ts';
import { getErrorCode, isObject } from '../model/result.ts';
import { wrapText } from '../report/paint.ts';
import { renderProblems } from '../report/problems.ts';
import { makeProblemReport, type RunReport } from '../report/run-report.ts';
import { completeHint } from './arguments.ts';
import type { Answer, Format, Settings, Terminal, TextDisplay } from './command.ts';
import { exitCodes, Failure, makeFailure, replaceExitCode } from './command.ts';
import { isScreen, type Output, wantsColor } from './output.ts';
import { writeNamedFile } from './read-file.ts';
import { readForge, readRevision } from './revision.ts';

/** What ended a run before it had an answer: the problems, in words on stderr and in every other format asked for. */
export async function answerError(error: unknown, settings: Settings | null = null): Promise<Answer> {
  const { problems: all, exitCode } = await explainEnd(error);
  const problems = all.map((one) => (settings === null ? one : completeHint(one, settings)));
  return {
    exit: exitCode,
    failed: true,
    text: ({ color }) => renderProblems(problems, color),
    report: () => makeProblemReport(problems),
  };
}

/** Whatever ended a run, as a failure: a mistake in this program is one too. */
export async function explainEnd(error: unknown): Promise<Failure> {
  return error instanceof Failure ? error : new Failure([await internalError(error)]);
}

type Env = Terminal['env'];

/** How a format says an answer. A new format is one file in src/report and one line here. */
const formats: Readonly<Record<Exclude<Format, 'text'>, (answer: Answer, env: Env) => Promise<string>>> = {
  json: async ({ document, report }) =>
    document?.() ?? (await import('../report/json.ts')).renderJson(reportIn(report)),
  markdown: async ({ report, table }) => {
    if (table !== undefined) return (await import('../report/table.ts')).renderTableMarkdown(table());
    return (await import('../report/markdown.ts')).renderMarkdown(reportIn(report));
  },
  github: async ({ report }) => (await import('../report/github.ts')).renderGithub(reportIn(report)),
  csv: async ({ table }) => (await import('../report/table.ts')).renderTableCsv(table?.() ?? []),
  html: async ({ report, table, text }, env) => {
    const shown = reportIn(report);
    const plain = report === undefined && text !== undefined ? { text: text({ color: false }) } : {};
    const other = table === undefined ? plain : { table: table() };
    const { renderHtml } = await import('../report/html.ts');
    const revision = readRevision(env) ?? shown.revision;
    return renderHtml({ ...shown, revision, forge: readForge(env, shown.root) }, other);
  },
};

function reportIn(report: Answer['report']): RunReport {
  return report?.() ?? makeProblemReport([]);
}

export async function renderAnswer(format: keyof typeof formats, answer: Answer, env: Env): Promise<string> {
  return answer.rendered?.[format]?.() ?? (await formats[format](answer, env));
}

/** Writes an answer in every output and gives the exit code; an output that cannot be written makes a success a failure. */
export async function writeAnswer(
  answer: Answer,
  outputs: readonly Output[],
  settings: Settings | null,
  terminal: Terminal,
): Promise<number> {
  // Data such as a manifest is not wrapped.
  const screens = openScreens(settings, terminal, answer.document !== undefined || answer.report !== undefined);
  const said = new Set(answer.failed === true ? reportIn(answer.report).problems.map(({ summary }) => summary) : []);
  let { exit = exitCodes.ok } = answer;
  if (answer.failed === true && !outputs.some(isScreen)) screens.stderr((display) => answer.text?.(display));
  const documents = outputs.filter(({ format, file }) => file === null && format !== 'text' && format !== 'github');
  // GitHub's commands; it reads stderr too.
  const writeCommands = terminal[documents.length > 0 ? 'stderr' : 'stdout'];
  const writeOne = async ({ format, file }: Output): Promise<void> => {
    // What was reviewed before stays: an empty table would say that nobody has access.
    if (format === 'csv' && answer.failed === true) return;
    const write = (text: string) => (file === null ? terminal.stdout(text) : writeNamedFile(file, text, '--output'));
    if (format === 'github') await writeGithub(answer, file, terminal.env, writeCommands);
    else if (format !== 'text') write(await renderAnswer(format, answer, terminal.env));
    else if (file !== null) write(answer.text?.({ color: false }) ?? '');
    // What went wrong belongs on stderr, so that a pipe does not hide it.
    else screens[answer.failed === true ? 'stderr' : 'stdout']((display) => answer.text?.(display));
  };
  for (const output of outputs) {
    await writeOne(output).catch(async (error: unknown) => {
      const tooLong = makeFailure('output', `the output as ${output.format} is too long to be made`, 'ask for another');
      const failure = error instanceof RangeError ? tooLong : await explainEnd(error);
      exit = replaceExitCode(exit);
      const problems = failure.problems.filter(({ summary }) => !said.has(summary));
      screens.stderr(({ color }) => renderProblems(problems, color));
      for (const { summary } of problems) said.add(summary);
    });
  }
  screens.stderr(({ color }) => answer.notes?.(color));
  return exit;
}

/** Where a person reads: coloured where that is wanted, and wrapped. */
export function openScreens(settings: Settings | null, terminal: Terminal, wrapsStdout = true) {
  const open =
    (name: 'stdout' | 'stderr', wraps: boolean) =>
    (text: (display: TextDisplay) => string | undefined): void => {
      const isTerminal = terminal[`${name}IsTerminal`];
      const width = isTerminal ? terminal.columns : undefined;
      const color = wantsColor(settings?.color !== false, terminal, isTerminal);
      const lines = text({ color, onScreen: name === 'stdout', ...(width === undefined ? {} : { width }) }) ?? '';
      terminal[name](wraps ? wrapText(lines, width) : lines);
    };
  return { stdout: open('stdout', wrapsStdout), stderr: open('stderr', true) };
}

/** GitHub's commands, and the job summary, which belongs to every step of the job: it is added to. */
async function writeGithub(answer: Answer, file: string | null, env: Env, write: Terminal['stdout']): Promise<void> {
  const summary = file ?? env['GITHUB_STEP_SUMMARY'] ?? '';
  const text = summary === '' ? '' : await renderAnswer('markdown', answer, env);
  try {
    if (summary !== '') appendFileSync(summary, text);
  } catch (error) {
    const wrong = `the job summary ${summary} cannot be written (${getErrorCode(error)})`;
    throw makeFailure('output', wrong, 'check --output and GITHUB_STEP_SUMMARY');
  }
  write(await renderAnswer('github', answer, env));
}

/** A mistake in this program: its place, never its message or stack, which could hold anything. */
async function internalError(error: unknown): Promise<Problem> {
  const code = getErrorCode(error, '');
  if (code === 'EMFILE' || code === 'ENFILE') {
    const hint = 'raise the limit: ulimit -n, LimitNOFILE in a unit';
    return { code: 'open-files', severity: 'error', summary: `this process may open no more files (${code})`, hint };
  }
  const path = isObject(error) && /^E(?:ACCES|ROFS|LOOP|NAMETOOLONG|NOTDIR)$/.test(code) ? error['path'] : undefined;
  if (typeof path === 'string') {
    const hint = 'check the path, its links, and its permissions';
    const isReplaced = path.endsWith('.new');
    const summary = isReplaced ? `${dirname(path)} cannot be written (${code})` : `${path} cannot be read (${code})`;
    return { code: 'unreadable-file', severity: 'error', summary, hint };
  }
  const { name, stack, message } = error instanceof Error ? error : { name: typeof error, stack: '', message: '' };
  // As `process.ts` says why it was told to stop: whoever reads on then throws it.
  if (/^SIG[A-Z]+$/.test(message))
    return { code: 'stopped', severity: 'error', summary: `stopped (${message}) before it was done` };
  if (code === 'reader-died') {
    const { explainReadFailure } = await import('./read-failure.ts');
    return explainReadFailure({ code, status: null, message }, () => '', 0);
  }
  const [, frame] = /\(?(?:file:\/\/)?([^()\s]+:\d+:\d+)\)?/.exec(stack?.split('\n    at ')[1] ?? '') ?? [];
  const where = frame === undefined ? name : `${name} at ${frame}`;
  const hint = 'this is a mistake in reconcile: please report this line; the journal, if kept, has what was sent';
  const summary = `reconcile failed in a way it should not (${where})`;
  return { code: 'internal-error', severity: 'error', summary, hint };
}
