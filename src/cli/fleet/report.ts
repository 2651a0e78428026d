import { formatSafeJson } from '../../report/json.ts';
import { marker } from '../../report/markdown.ts';
import { count } from '../../report/summary.ts';
import { exitCodes } from '../exit-code.ts';
import type { Target } from './targets.ts';

/** What a target's run said. */
export interface TargetOutcome {
  readonly target: Target;
  /** null: not begun. */
  readonly exit: number | null;
  readonly out: string;
  readonly err: string;
  /** Its JSON document and its Markdown, where those are asked for. */
  readonly json: string;
  readonly markdown: string;
}

const meanings: Readonly<Record<number, string>> = {
  [exitCodes.ok]: 'well',
  [exitCodes.failed]: 'failed',
  [exitCodes.pending]: 'changes pending',
  [exitCodes.refused]: 'refused',
  [exitCodes.invalid]: 'manifests invalid',
  [exitCodes.partial]: 'partly written',
};

/** The worst first. */
const severity = [
  exitCodes.partial,
  exitCodes.invalid,
  exitCodes.refused,
  exitCodes.failed,
  exitCodes.pending,
  exitCodes.ok,
];

/** The exit code of all. */
export function pickWorstExit(exits: readonly (number | null)[]): number {
  return severity.find((code) => exits.includes(code)) ?? exitCodes.failed;
}

function worstOf(outcomes: readonly TargetOutcome[]): number {
  return pickWorstExit(outcomes.map(({ exit }) => exit));
}

function describeOutcome({ exit }: TargetOutcome): string {
  return exit === null ? 'not begun' : `${meanings[exit] ?? 'failed'} (exit ${exit})`;
}

function summarise(outcomes: readonly TargetOutcome[]): string {
  const worst = worstOf(outcomes);
  const names = outcomes.filter(({ exit }) => exit === worst).map(({ target }) => target.name);
  return `${count(outcomes.length, 'target')}; exit ${worst}, for ${names.join(', ')}.`;
}

/** The targets that said the same, in the order of the first of each. */
function foldAlike(
  outcomes: readonly TargetOutcome[],
  text: (one: TargetOutcome) => string,
): readonly (readonly TargetOutcome[])[] {
  const said = new Map<string, TargetOutcome[]>();
  for (const outcome of outcomes) {
    if (outcome.exit === null) continue;
    const key = `${outcome.exit} ${withoutOwn(outcome.target, text(outcome))}`;
    const alike = said.get(key);
    if (alike === undefined) said.set(key, [outcome]);
    else alike.push(outcome);
  }
  return [...said.values()];
}

/** One line a target; then what they said, told once where several said the same. */
export function renderFleetText(outcomes: readonly TargetOutcome[]): string {
  const width = outcomes.reduce((most, { target }) => Math.max(most, target.name.length), 0);
  const lines = outcomes.map((one) => `${one.target.name.padEnd(width)}  ${describeOutcome(one)}\n`);
  const details = foldAlike(outcomes, ({ err, out }) => err + out).map((alike) => {
    const [first] = alike;
    const names = alike.map(({ target }) => target.name).join(', ');
    const said = first === undefined ? '' : first.err + first.out;
    if (alike.length === 1) return `\n== ${names} ==\n${said}`;
    return `\n== ${count(alike.length, 'target')}, the same: ${names} ==\nAs ${first?.target.name} says it:\n${said}`;
  });
  return `${lines.join('')}${details.join('')}\n${summarise(outcomes)}\n`;
}

/** GitHub takes 65,536 characters in a comment. */
const largest = 60_000;

/** For a comment on a pull request: the targets, and what they said, told once where several said the same. */
export function renderFleetMarkdown(outcomes: readonly TargetOutcome[]): string {
  const rows = outcomes.map((one) => `| ${one.target.name} | ${describeOutcome(one)} |\n`).join('');
  const details = foldAlike(outcomes, ({ markdown }) => markdown).map((alike) => {
    const [first] = alike;
    const names = alike.map(({ target }) => target.name).join(', ');
    const title = alike.length === 1 ? names : `${count(alike.length, 'target')}, the same: ${names}`;
    return `\n## ${title}\n\n${first?.markdown.replace(marker, '').trim() ?? ''}\n`;
  });
  const text = `${marker}\n# ${summarise(outcomes)}\n\n| target | result |\n|---|---|\n${rows}${details.join('')}`;
  if (text.length <= largest) return text;
  const cut = text.slice(0, largest - 200);
  return `${cut.slice(0, cut.lastIndexOf('\n'))}\n\nCut here: too long for a comment. \`--output json=FILE\` has all of it.\n`;
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
    exit: worstOf(outcomes),
    targets: outcomes.map(({ target, exit, json }) => ({
      name: target.name,
      labels: target.labels,
      exit,
      document: exit === null || json === '' ? null : JSON.parse(json),
    })),
  });
}
