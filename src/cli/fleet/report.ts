import { escapeControls } from '../../model/printable.ts';
import { holdsBack } from '../../plan/plan.ts';
import { formatSafeJson } from '../../report/json.ts';
import { cutComment, escapeProse, marker } from '../../report/markdown.ts';
import type { RunReport } from '../../report/run-report.ts';
import { count, countOutcomes, listChangeCounts } from '../../report/summary.ts';
import { type Answer, exitCodes, exitTable, replaceExitCode } from '../command.ts';
import type { Target } from './targets.ts';

/** What a target's run came to, and what it said. */
export interface TargetOutcome {
  readonly target: Target;
  /** null: not begun. */
  readonly exit: number | null;
  /** In a line: `2 to create, 1 to delete`, `in sync`, `applied: 2 done`, or what went wrong. */
  readonly result: string;
  /** Objects that the plan creates, changes or deletes. */
  readonly changes: number;
  /** There is nothing to tell but the result. */
  readonly isPlain: boolean;
  readonly text: string;
  readonly documents: typeof noDocuments;
}

export const noDocuments = { json: '', markdown: '', annotations: '' };

/** Of a target that was kept from its turn. */
export const notBegun: Omit<TargetOutcome, 'target'> = {
  ...{ exit: null, result: 'not begun', changes: 0, isPlain: true, text: '' },
  documents: noDocuments,
};

/** What a run of a command came to. */
export function summariseAnswer(
  { report: makeReport, result = 'failed' }: Answer,
  command: string,
  exit: number,
): Pick<TargetOutcome, 'result' | 'changes' | 'isPlain'> {
  const report = makeReport?.();
  if (report === undefined) return { result, changes: 0, isPlain: command === 'status' && exit === exitCodes.ok };
  const { plan, problems } = report;
  const { create, update, delete: deleted } = plan?.summary ?? { create: 0, update: 0, delete: 0 };
  const changes = create + update + deleted;
  const isPlain = exit === exitCodes.ok && changes === 0 && problems.length === 0;
  return { result: describeResult(report, `reconcile ${command}: `), changes, isPlain };
}

function describeResult({ apply, approved, headline, plan, problems }: RunReport, title: string): string {
  if (apply !== null) return countOutcomes(apply).replace(/^./, (first) => first.toLowerCase());
  const [refusal] = approved ? [] : (plan?.refusals ?? []);
  if (refusal !== undefined) return `refused: ${refusal.summary}`;
  const error = problems.find(({ severity }) => severity === 'error');
  if (error !== undefined) return error.summary;
  if (headline !== undefined) return headline.replace(title, '');
  if (plan === null) return 'no plan';
  const { steps } = plan.summary;
  const changes = listChangeCounts(plan) || (steps > 0 ? count(steps, 'request') : '');
  if (changes !== '') return changes;
  return holdsBack(plan) ? 'not in sync, for want of a secret' : 'in sync';
}

/** The worst first: what was left half done counts more than what a single run may come to. */
const severity = [exitCodes.partial, ...exitTable.map(({ code }) => code)];

/** The exit code of all; one that was told to stop before all had begun has not gone well. */
export function pickWorstExit(outcomes: readonly TargetOutcome[]): number {
  const worst = severity.find((code) => outcomes.some(({ exit }) => exit === code)) ?? exitCodes.failed;
  return outcomes.some(({ exit }) => exit === null) ? replaceExitCode(worst) : worst;
}

function describeOutcome({ exit, result }: TargetOutcome): string {
  const line = escapeControls(result);
  return exit === null || exit === exitCodes.ok ? line : `${line} (exit ${exit})`;
}

const mostNames = 10;

function listNames(outcomes: readonly TargetOutcome[]): string {
  const names = outcomes.map(({ target }) => target.name);
  const left = names.length - mostNames;
  return `${names.slice(0, mostNames).join(', ')}${left > 0 ? ` and ${left} more` : ''}`;
}

function summarise(outcomes: readonly TargetOutcome[]): string {
  const worst = pickWorstExit(outcomes);
  const blamed = outcomes.filter(({ exit }) => exit === worst);
  const names = listNames(blamed.length > 0 ? blamed : outcomes.filter(({ exit }) => exit === null));
  return `${count(outcomes.length, 'target')}; exit ${worst}, for ${names}.`;
}

/** The targets that have more to tell than their line; those that said the same together, in the order of the first of each. */
function foldAlike(outcomes: readonly TargetOutcome[], text: (one: TargetOutcome) => string) {
  const said = new Map<string, [TargetOutcome, ...TargetOutcome[]]>();
  for (const outcome of outcomes) {
    if (outcome.isPlain) continue;
    const key = `${outcome.exit} ${withoutOwn(outcome.target, text(outcome))}`;
    const alike = said.get(key);
    if (alike === undefined) said.set(key, [outcome]);
    else alike.push(outcome);
  }
  return [...said.values()].map((alike) => {
    const [first] = alike;
    const same = ['the same', 'the same change'][first.changes] ?? `the same ${first.changes} changes`;
    const isOne = alike.length === 1;
    return { title: isOne ? first.target.name : `${alike.length} targets: ${same}: ${listNames(alike)}`, first, isOne };
  });
}

/** One line a target; then details of what differs, told once where several said the same. */
export function renderFleetText(outcomes: readonly TargetOutcome[]): string {
  const width = outcomes.reduce((most, { target }) => Math.max(most, target.name.length), 0);
  const lines = outcomes.map((one) => `${one.target.name.padEnd(width)}  ${describeOutcome(one)}\n`);
  const details = foldAlike(outcomes, ({ text }) => text).map(
    ({ title, first, isOne }) => `\n== ${title} ==\n${isOne ? '' : `As ${first.target.name} says it:\n`}${first.text}`,
  );
  return `${lines.join('')}${details.join('')}\n${summarise(outcomes)}\n`;
}

/** For a comment on a pull request: the targets, and what they said, told once where several said the same. */
export function renderFleetMarkdown(outcomes: readonly TargetOutcome[]): string {
  const rows = outcomes.map((one) => `| ${one.target.name} | ${escapeProse(describeOutcome(one))} |\n`).join('');
  const details = foldAlike(outcomes, ({ documents }) => documents.markdown).map(
    ({ title, first }) => `\n## ${title}\n\n${first.documents.markdown.replace(marker, '').trim()}\n`,
  );
  return cutComment(
    `${marker}\n# ${summarise(outcomes)}\n\n| target | result |\n|---|---|\n${rows}${details.join('')}`,
  );
}

/** What a target said, to be compared, without what is its own: its address, the files of its operator, ids, digests and times. */
function withoutOwn({ baseUrl, path }: Target, text: string): string {
  return text
    .replaceAll(baseUrl, 'the server')
    .replaceAll(baseUrl.replace(/^https?:\/\//, ''), 'the server')
    .replaceAll(path ?? '\0', 'PATH')
    .replace(/\b[0-9a-f]{32,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, '…')
    .replace(/\bDigest [0-9a-f]{12}|\bdigest `?[0-9a-f]{12}`?/g, '…')
    .replace(/\b[0-9.]+ (?:ms|s)\b/g, '…');
}

/** A document for each target. */
export function renderFleetJson(outcomes: readonly TargetOutcome[]): string {
  return formatSafeJson({
    format_version: '1.0',
    exit: pickWorstExit(outcomes),
    targets: outcomes.map(({ target: { name, labels }, exit, documents: { json } }) => {
      return { name, labels, exit, document: json === '' ? null : JSON.parse(json) };
    }),
  });
}
