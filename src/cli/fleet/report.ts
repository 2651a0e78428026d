import { groupBy } from '../../model/group-by.ts';
import { escapeControls, joinSome } from '../../model/printable.ts';
import { formatSafeJson } from '../../report/json.ts';
import { cutComment, marker } from '../../report/markdown.ts';
import type { RunReport } from '../../report/run-report.ts';
import { summarisePlan } from '../../report/summarise-plan.ts';
import { count, summariseApply } from '../../report/summary.ts';
import { renderTableMarkdown, renderTableText } from '../../report/table.ts';
import { type Answer, exitCodes, exitTable, replaceExitCode } from '../command.ts';
import type { Target } from './targets.ts';

/** What a target's run came to, and what it said. */
export interface TargetOutcome {
  readonly target: Target;
  /** null: not begun. */
  readonly exit: number | null;
  /** In a line: `2 to create, 5 unchanged. 2 requests.`, `In sync: …`, `Applied: …`, or what went wrong. */
  readonly result: string;
  /** It was written to, or that was tried. */
  readonly isApplied: boolean;
  /** Objects that the plan creates, changes or deletes. */
  readonly changes: number;
  /** There is nothing to tell but the result. */
  readonly isPlain: boolean;
  /** In each format that was asked for. */
  readonly said: Said;
}

type Said = Readonly<Record<'text' | 'json' | 'markdown' | 'github', string>>;

/** Of a target that was kept from its turn. */
export const notBegun: Omit<TargetOutcome, 'target'> = {
  ...{ exit: null, result: 'not begun', isApplied: false, changes: 0, isPlain: true },
  said: { text: '', json: '', markdown: '', github: '' },
};

/** What a run of a command came to. */
export function summariseAnswer({ report: makeReport, result }: Answer, command: string, exit: number) {
  const report = makeReport?.();
  const isGood = exit === exitCodes.ok;
  const isPlainStatus = isGood && command === 'status';
  if (report === undefined) return { result: result ?? 'failed', isApplied: false, changes: 0, isPlain: isPlainStatus };
  const { plan, problems, apply } = report;
  const changes = plan?.changes.filter(({ action }) => action !== 'keep' && action !== 'skip').length ?? 0;
  const isPlain = isGood && changes === 0 && problems.length === 0;
  return { result: result ?? describeResult(report), isApplied: apply !== null, changes, isPlain };
}

function describeResult(report: RunReport): string {
  const { apply, approved, headline, plan, problems } = report;
  if (apply !== null) return summariseApply(apply, plan);
  const [refusal] = approved ? [] : (plan?.refusals ?? []);
  const error = problems.find(({ severity }) => severity === 'error');
  if (refusal !== undefined) return `refused: ${refusal.summary}`;
  if (error !== undefined) return error.summary;
  if (headline !== undefined) return headline.replace(/^reconcile \w+: /, '');
  return plan === null ? 'no plan' : summarisePlan({ ...report, digest: null }, plan);
}

/** The worst first: what was left half done counts more than what a single run may come to. */
const severity = [exitCodes.partial, ...exitTable.map(({ code }) => code)];

/** The worst of these exit codes; null: not begun. */
export function pickWorstExit(codes: readonly (number | null)[]): number {
  return severity.find((code) => codes.includes(code)) ?? exitCodes.failed;
}

function listNames(outcomes: readonly TargetOutcome[]): string {
  const names = outcomes.map(({ target }) => target.name);
  return joinSome(names, 10);
}

/** The targets that have more to tell than their line; those that said the same together, in the words of the first of them. */
function foldAlike(outcomes: readonly TargetOutcome[]) {
  const told = outcomes.filter(({ isPlain }) => !isPlain);
  const groups = groupBy(told, ({ exit, target, said }) => `${exit} ${withoutOwn(target, said.text)}`);
  return [...groups.values()].flatMap((alike) =>
    alike.slice(0, 1).map(({ changes, target: { name }, said }) => {
      if (alike.length === 1) return { title: name, teller: '', said };
      const same = ['the same', 'the same change'][changes] ?? `the same ${changes} changes`;
      return { title: `${alike.length} targets: ${same}: ${listNames(alike)}`, teller: `As ${name} says it:\n`, said };
    }),
  );
}

/** What the targets came to: one line each; then details of what differs, told once where several said the same. */
export function answerFleet(outcomes: readonly TargetOutcome[], isPaused: boolean): Answer {
  const worst = pickWorstExit(outcomes.map((one) => one.exit));
  const left = outcomes.filter((one) => one.exit === null);
  // One that was told to stop before all had begun has not gone well.
  const end = left.length > 0 ? replaceExitCode(worst) : worst;
  const blamed = outcomes.filter((one) => one.exit === end);
  const folded = foldAlike(outcomes);
  const paused = isPaused ? 'The fleet file has `paused`: no target begins a revision. ' : '';
  const conclusion = `${paused}${count(outcomes.length, 'target')}; exit ${end}, for ${listNames(blamed.length > 0 ? blamed : left)}.`;
  const rows = outcomes.map(({ target, exit, result }) => {
    const line = escapeControls(result);
    return [target.name, exit === null || exit === exitCodes.ok ? line : `${line} (exit ${exit})`];
  });
  return {
    exit: end,
    text: () => {
      const details = folded.map(({ title, teller, said }) => `\n== ${title} ==\n${teller}${said.text}`);
      return `${renderTableText(rows)}${details.join('')}\n${conclusion}\n`;
    },
    document: () => {
      const targets = outcomes.map(({ target: { name, labels }, exit, result, said }) => {
        return { name, labels, exit, result, document: said.json === '' ? null : JSON.parse(said.json) };
      });
      return formatSafeJson({ format_version: '1.0', exit: end, targets });
    },
    rendered: {
      markdown: () => {
        const table = renderTableMarkdown([['target', 'result'], ...rows]);
        const details = folded.map(
          ({ title, said }) => `\n## ${title}\n\n${said.markdown.replace(marker, '').trim()}\n`,
        );
        return cutComment(`${marker}\n# ${conclusion}\n\n${table}${details.join('')}`);
      },
      // Each once.
      github: () => [...new Set(outcomes.flatMap(({ said }) => said.github.split(/(?<=\n)/)))].join(''),
    },
  };
}

/** What a target said, to be compared, without what is its own: its address, the files of its operator, ids, digests and times. */
function withoutOwn({ baseUrl, path }: Target, text: string): string {
  return text
    .replaceAll(baseUrl, 'the server')
    .replaceAll(baseUrl.replace(/^https?:\/\//, ''), 'the server')
    .replaceAll(path ?? '\0', 'PATH')
    .replace(/\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-)?[0-9a-f]{12,}\b|\b[0-9.]+ m?s\b/g, '…');
}
