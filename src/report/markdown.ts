import { getOrMake, groupBy } from '../model/group-by.ts';
import { escapeControls, shortenText } from '../model/printable.ts';
import type { Plan } from '../plan/plan.ts';
import { formatLabel } from './change-words.ts';
import { addFailedSteps } from './failed-steps.ts';
import type { FieldLine } from './field-lines.ts';
import type { PagePart } from './on-the-way.ts';
import { listLeftOpen, makePlanPage, type PlanPage, type ShownChange, type TrafficPart, takeChanges } from './page.ts';
import { joinSections } from './paint.ts';
import { formatPlace, stripRoot, takeProblems } from './problems.ts';
import type { RunReport } from './run-report.ts';
import { summarisePlan } from './summarise-plan.ts';
import { count, summariseApply, takeWorst, tally } from './summary.ts';
import { measureNetwork } from './traffic/networks.ts';

/** Characters of a comment at most; GitHub takes 65,536, GitLab more. */
const largest = 60_000;
/** Items listed of each kind, largest first: the first that fits is taken, and what is left out is counted. */
const limits = [1000, 300, 100, 30, 10, 3];
/** Lines of traffic of a comment: somebody has to read them. */
const mostTraffic = 30;
/** Items of one list of networks or addresses in the Configuration; no other value of it is left out. */
const mostItems = 60;
/** How a later run finds its comment again. */
export const marker = '<!-- reconcile-plan -->';

/** The plan as Markdown for a comment or a job summary: the effect first, details folded, never longer than a comment may be. */
export function renderMarkdown(report: RunReport): string {
  const pages = new Map<number, PlanPage>();
  return fitComment((limit) => render(report, limit, pages));
}

/** A text with as many items of each kind as a comment has room for. */
export function fitComment(renderItems: (limit: number) => string): string {
  let text = '';
  for (const limit of limits) {
    text = renderItems(limit);
    if (text.length <= largest) return text;
  }
  return cutComment(text);
}

/** As much of the text as a comment may hold. */
export function cutComment(text: string): string {
  if (text.length <= largest) return text;
  const cut = text.slice(0, largest - 200);
  return `${cut.slice(0, cut.lastIndexOf('\n'))}\n\nCut here: too long for a comment. \`--output json=FILE\` has all of it.\n`;
}

function render(report: RunReport, limit: number, pages: Map<number, PlanPage>): string {
  const { plan } = report;
  // The comment that a later run finds again is the plan's.
  const { headline, comparison } = report;
  const isMarked = (headline === undefined || plan !== null) && comparison === undefined;
  const words = isMarked && headline === undefined ? title(report) : escapeProse(headline ?? title(report));
  const head = `${isMarked ? `${marker}\n` : ''}### ${words}`;
  const first = [head, leftOpenSection(report, limit)];
  const problems = problemSection(report, limit);
  if (plan === null) return joinSections([...first, problems]);
  const lines = Math.min(limit, mostTraffic);
  const page = getOrMake(pages, lines, () => makePlanPage(report, plan, lines));
  return joinSections([
    ...first,
    escapeProse(page.title.join(', ')),
    page.notes.map(escapeProse).join('  \n'),
    refusalText(report, plan),
    ...page.traffic.map(trafficSection),
    problems,
    onTheWaySection(page),
    changesSection(report, page, limit),
    footer(report, plan),
  ]);
}

function title(report: RunReport): string {
  const { plan, problems, apply } = report;
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  if (plan === null) return `reconcile: no plan, ${count(errors, 'error')}`;
  if (apply !== null) return `reconcile: ${quoteCode(summariseApply(apply, plan))}`;
  return `${report.comparison === undefined ? 'reconcile' : 'reconcile diff'}: ${summarisePlan({ ...report, digest: null }, plan)}`;
}

/** Of an apply whose gaps could not be closed this is what must be read, if nothing else is. */
function leftOpenSection(report: RunReport, limit: number): string {
  const [title, ...traffic] = listLeftOpen(report);
  const lines = traffic.map((text) => `- ${quoteCode(text)}`);
  return title === undefined ? '' : [`**${title}:**`, '', ...listFirst(lines, limit)].join('\n');
}

function refusalText(report: RunReport, { refusals }: Plan): string {
  if (refusals.length === 0) return '';
  const refused = report.comparison === undefined ? 'Refused: nothing will be written.' : 'Refused:';
  const head = report.approved ? 'Refused by a guard, and approved by its digest:' : refused;
  const lines = refusals.map(({ summary, hint }) => `- ${escapeProse(summary)}  \n  Hint: ${escapeProse(hint)}`);
  return [`**${head}**`, '', ...lines].join('\n');
}

function trafficSection(traffic: TrafficPart): string {
  if (traffic.lines.length === 0) return `**${traffic.headline}**`;
  return [`**Traffic** ${escapeProse(traffic.headline)}`, '', ...listingLines(traffic)].join('\n');
}

function listingLines(part: PagePart<TrafficPart['lines'][number] | PagePart['lines'][number]>): readonly string[] {
  return listTaken(part, ({ label, text }) => `- **${label}** ${quoteCode(text)}`);
}

function problemSection(report: RunReport, limit: number): string {
  const problems = addFailedSteps(report);
  if (problems.length === 0) return '';
  const lines = listTaken(takeProblems(problems, limit), ({ severity, code: name, summary, hint, place }) => {
    const where =
      place === undefined ? '' : `${quoteCode(formatPlace({ ...place, file: stripRoot(place.file, report.root) }))} `;
    return `- **${severity}** ${where}${escapeProse(summary)} (${name})${hint === undefined ? '' : `  \n  Hint: ${escapeProse(hint)}`}`;
  });
  const isOpen = problems.some(({ severity, code }) => severity === 'error' || code === 'moved-name');
  return folded(`Problems (${problems.length})`, lines, isOpen);
}

function onTheWaySection({ onTheWay }: PlanPage): string {
  if (onTheWay === null) return '';
  return folded('On the way', [escapeProse(onTheWay.headline), '', ...listingLines(onTheWay)], true);
}

function changesSection(report: RunReport, { sets }: PlanPage, limit: number): string {
  const all = sets.flatMap(({ changes }) => changes);
  if (all.length === 0) return '';
  const { changed, left } = tally(all);
  const lines = listTaken(takeChanges(sets, limit), (change) => changeLine(change, report));
  return folded(`Changes (${changed}${left})`, lines, all.length <= 10);
}

function changeLine({ symbol, what, why, fields, change }: ShownChange, report: RunReport): string {
  const { source } = change;
  const where =
    source === null
      ? ''
      : ` ${change.action === 'delete' ? 'was ' : ''}${quoteCode(`${stripRoot(source.file, report.root)}:${source.line}`)}`;
  // A live rule without a name is known by its content.
  const label = change.name === null && change.kind === 'Rule' ? '' : ` ${quoteCode(formatLabel(change))}`;
  const id = label === '' && change.id !== null ? ` ${quoteCode(change.id.slice(0, 8))}` : '';
  const lists = groupBy(fields, ({ path }) => /^(\w+)(?<!_providers)\[/.exec(path)?.[1] ?? '');
  return [
    `- ${quoteCode(symbol)}${label}${what === '' ? '' : ` ${quoteCode(what)}`}${id}${why === '' ? '' : ` ${escapeProse(why)}`}${where}`,
    ...[...lists]
      .sort(([a], [b]) => a.length - b.length)
      .flatMap(([list, items]) => fieldLines(items, list))
      .map((line) => `  ${line}`),
  ].join('\n');
}

/** All values of no list, or of many items of a list those of the widest networks. */
function fieldLines(items: readonly FieldLine[], list: string): readonly string[] {
  const rankOf = ({ path }: FieldLine): number => -measureNetwork(path.slice(list.length + 1, -1)) || 0;
  const { rest, lines } = takeWorst(items, list === '' ? items.length : mostItems, rankOf);
  const counts = [...groupBy(rest, ({ text }) => text)].map(([text, { length }]) => `${length} ${text}`).join(', ');
  const left = rest.length === 0 ? '' : `and ${rest.length} more of ${list}: ${counts}`;
  return listTaken({ lines, left }, ({ path, text }) => `- ${quoteCode(`${path}: ${text}`)}`);
}

function footer(report: RunReport, plan: Plan): string {
  if (report.comparison !== undefined) return '';
  const how = plan.ruleUpdates === 'replace' ? 'Changed rules are replaced' : 'Changed rules are patched';
  return `<sub>Profile ${plan.profile}. ${how}. Digest ${quoteCode(report.digest ?? 'none')}.</sub>`;
}

/** The first `limit` lines, and how many are left out. */
export function listFirst(lines: readonly string[], limit: number): readonly string[] {
  return listTaken(takeWorst(lines, limit), String);
}

function listTaken<T>({ lines, left }: Omit<PagePart<T>, 'headline'>, write: (item: T) => string): readonly string[] {
  return [...lines.map(write), ...(left === '' ? [] : [`- ${left} (\`--output json=FILE\` has all)`])];
}

function folded(summary: string, lines: readonly string[], open: boolean): string {
  return `<details${open ? ' open' : ''}><summary>${summary}</summary>\n\n${lines.join('\n')}\n\n</details>`;
}

/** Text as Markdown code: nothing in it is markup, whatever it holds. */
export function quoteCode(text: string): string {
  const clean = shortenText(escapeControls(text), 400);
  const longest = Math.max(0, ...(clean.match(/`+/g) ?? []).map((run) => run.length));
  if (longest === 0) return `\`${clean}\``;
  const fence = '`'.repeat(longest + 1);
  return `${fence} ${clean} ${fence}`;
}

/** Text as Markdown prose: markup, HTML, mentions, references and addresses are shown and neither obeyed nor linked. */
export function escapeProse(text: string): string {
  return shortenText(escapeControls(text), 1000)
    .replace(/[\\`*_{}[\]()<>#!|~&$]|^[-+]|(?<=^\d+)[.)]/g, '\\$&')
    .replace(/[@#]|:(?=\/\/)|\b(?:www(?=\.)|GH(?=-\d))/gi, '$&\u2060');
}
