import { groupBy } from '../model/group-by.ts';
import { escapeControls } from '../model/printable.ts';
import type { Refusal } from '../plan/plan.ts';
import { addFailedSteps } from './failed-steps.ts';
import type { PagePart } from './on-the-way.ts';
import { listLeftOpen, makePlanPage, type SetOfChanges, type ShownChange, type TrafficPart } from './page.ts';
import { createPaint, joinSections, measureLongest, type Paint, wrapText } from './paint.ts';
import { formatLine, formatPlace, renderProblems } from './problems.ts';
import type { Display, RunReport } from './run-report.ts';
import { summarisePlan } from './summarise-plan.ts';
import { count, summariseApply, tally } from './summary.ts';

/** Lines of traffic that a terminal shows unless it is asked for everything. */
const shortPage = 12;
/** From so many changes on, a plan begins with how many each RuleSet has. */
const manyChanges = 50;

/** The plan for people: for which server, the changes by RuleSet, the traffic, what is open on the way, one summary line. */
export function renderPlan(report: RunReport, display: Display): string {
  const paint = createPaint(display.color);
  const { plan } = report;
  const problems = renderProblems(report.problems, display.color);
  if (plan === null) return problems;
  const page = makePlanPage(report, plan, display.full === true ? Number.POSITIVE_INFINITY : shortPage);
  const sections = [
    problems.trimEnd(),
    [paint('strong', page.title.join('    ')), ...page.notes.map((note) => paint('faint', note))].join('\n'),
    countsText(page.sets),
    ...page.sets.map((set) => setText(set, display.width, paint)),
    ...page.traffic.map((part) => listingText('Traffic', part, paint)),
    page.onTheWay === null ? '' : listingText('On the way', page.onTheWay, paint),
    refusalsText(plan.refusals, report, paint),
    paint('strong', summarisePlan(report, plan)),
  ];
  return wrapText(joinSections(sections), display.width);
}

/** What an apply did, for people: what is left open first, what failed, one summary line. */
export function renderApply(report: RunReport, { color, width }: Display): string {
  const { apply, plan } = report;
  if (apply === null || plan === null) return '';
  const paint = createPaint(color);
  const [leftOpen, ...traffic] = listLeftOpen(report);
  const sections = [
    leftOpen === undefined ? '' : [paint('error', leftOpen), ...traffic.map((text) => `  ${text}`)].join('\n'),
    renderProblems(addFailedSteps({ ...report, problems: apply.problems }), color).trimEnd(),
    paint(apply.end === 'converged' ? 'strong' : 'error', summariseApply(apply, plan)),
  ];
  return wrapText(joinSections(sections), width);
}

function countsText(sets: readonly SetOfChanges[]): string {
  const changed = sets.reduce((sum, set) => sum + set.changes.length, 0);
  if (changed < manyChanges) return '';
  const width = measureLongest(sets.slice(0, 1000).map(({ title }) => title));
  return sets
    .map(({ title, changes, total }) => `  ${title.padEnd(width)}  ${marksText(changes)} of ${total}`)
    .join('\n');
}

/** `+12 ±3 -1`. */
function marksText(changes: readonly ShownChange[]): string {
  const alike = groupBy(changes, ({ symbol }) => symbol);
  return [...alike].map(([symbol, { length }]) => `${symbol}${length}`).join(' ');
}

/** Columns of names and of contents: places stand under each other where most contents end before them. */
const columns = { name: 28, what: 52, title: 54 };

function setText({ title, total, changes }: SetOfChanges, width: number | undefined, paint: Paint): string {
  const [first] = changes;
  if (first?.change.kind === 'Configuration') {
    const { change, symbol, tone, why, fields } = first;
    const where = change.source === null ? '' : paint('faint', formatLine(change.source));
    const head = [paint('strong', title.padEnd(columns.title)), why === '' ? '' : paint('note', why), where];
    const longestPath = Math.min(48, measureLongest(fields.map(({ path }) => path)));
    const lines = fields.map(({ path, text }) => `  ${paint(tone, symbol)} ${path.padEnd(longestPath)}  ${text}`);
    return [joinWords(head), ...lines].join('\n');
  }
  const { changed, left } = tally(changes);
  const rules = `${changed} of ${count(total, 'rule')} change${changed === 1 ? 's' : ''}${left}`;
  const longest = (text: (one: ShownChange) => string, most: number): number =>
    Math.min(most, measureLongest(changes.map(text)));
  const name = longest(({ name }) => name, columns.name);
  // A long content takes a line of its own, and leaves the places of the others beside them on a narrow terminal.
  const room = width === undefined ? columns.what : width - name - longest(placeText, columns.name) - 8;
  const widths = { name, what: longest(({ what }) => what, Math.min(columns.what, room)) };
  return [
    `${paint('strong', title.padEnd(columns.title))}  ${paint('faint', rules)}`,
    ...changes.map((change) => changeText(change, widths, paint)),
  ].join('\n');
}

function changeText(shown: ShownChange, widths: Readonly<Record<'name' | 'what', number>>, paint: Paint): string {
  const { symbol, tone, name, what, why } = shown;
  const where = placeText(shown);
  return joinWords([
    `  ${paint(tone, symbol)}${widths.name === 0 ? '' : ` ${name.padEnd(widths.name)}`}`,
    ` ${what.padEnd(widths.what)}`,
    why === '' ? '' : ` ${paint('note', why)}`,
    where === '' ? '' : ` ${paint('faint', where)}`,
  ]);
}

/** Where a change comes from; the short id of a rule that has neither place nor name. */
function placeText({ name, change }: ShownChange): string {
  if (change.source !== null) return `${change.action === 'delete' ? 'was ' : ''}${formatLine(change.source)}`;
  return name === '' && change.id !== null ? change.id.slice(0, 8) : '';
}

function joinWords(parts: readonly string[]): string {
  return parts.filter(Boolean).join(' ').trimEnd();
}

function listingText(title: string, listing: TrafficPart | PagePart, paint: Paint): string {
  const { headline, left } = listing;
  if (listing.lines.length === 0) return headline;
  const lines = listing.lines.map(({ label, text }) => {
    const tone = { opens: 'risk', closes: 'plain', open: 'warning', 'cut off': 'warning' } as const;
    return `  ${paint(tone[label], label)}${' '.repeat(9 - label.length)}${label === 'opens' ? paint('risk', text) : text}`;
  });
  const more = left === '' ? [] : [`  ${left}: --full shows all of them`];
  return [`${paint('strong', title)}${' '.repeat(13 - title.length)}${headline}`, ...lines, ...more].join('\n');
}

function refusalsText(refusals: readonly Refusal[], report: RunReport, paint: Paint): string {
  if (refusals.length === 0) return '';
  const title = report.approved ? paint('warning', 'Refused, and approved by digest') : paint('error', 'Refused');
  const lines = refusals.flatMap(({ code, summary, hint, related }) => [
    `  ${paint('error', '✗')} ${escapeControls(summary)} ${paint('faint', `[${code}]`)}`,
    ...(related ?? []).map(({ place, note }) => `      ${formatPlace(place)} ${escapeControls(note)}`),
    `      ${paint('note', 'hint:')} ${escapeControls(hint)}`,
  ]);
  const approve = `  To apply exactly this plan anyway: --approve ${report.digest}`;
  return [title, ...lines, ...(report.digest === null || report.approved ? [] : [approve])].join('\n');
}
