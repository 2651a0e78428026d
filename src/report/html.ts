import { createHash } from 'node:crypto';
import { html, raw } from 'hono/html';
import { formatInstant } from '../model/instant.ts';
import { escapeControls } from '../model/printable.ts';
import { compareText, type Place, type Problem } from '../model/problem.ts';
import type { Boundary, PolicyCase } from '../model/state.ts';
import type { Plan } from '../plan/plan.ts';
import { describeCase, formatRule, formatUser } from '../policy/words.ts';
import { listShownBoundaries } from './change-words.ts';
import { summariseEnforcement } from './enforcement.ts';
import { addFailedSteps } from './failed-steps.ts';
import { linkCommit, linkPlace } from './forge.ts';
import { pageScript, pageStyle } from './html-assets.ts';
import { drawExposure, drawTraffic, type Markup } from './html-pictures.ts';
import type { PagePart } from './on-the-way.ts';
import {
  formatRevision,
  listLeftOpen,
  makePlanPage,
  type PlanPage,
  type SetOfChanges,
  type ShownChange,
  type TrafficPart,
} from './page.ts';
import { formatProblemCounts, stripRoot, takeProblems } from './problems.ts';
import type { RunReport } from './run-report.ts';
import { summarisePlan } from './summarise-plan.ts';
import { count, summariseApply, tally } from './summary.ts';

/** Sets with more changes than this begin folded. */
const unfolded = 200;
/** Lines of traffic: a page is searched, not only read. */
const mostTraffic = 1000;

/** The report as one HTML file that asks for no other. What manifests and the server wrote is text there, never markup. */
export function renderHtml(report: RunReport, other: OtherAnswer = {}): string {
  return report.plan === null ? renderAnswer(report, other) : renderPlan(report, report.plan);
}

function renderPlan(report: RunReport, plan: Plan): string {
  const { apply, kernel } = report;
  const page = makePlanPage(report, plan, mostTraffic);
  const said = report.headline ?? (apply === null ? summarisePlan(report, plan) : summariseApply(apply, plan));
  const held = kernel === undefined ? '' : ` ${summariseEnforcement(kernel)}`;
  const { at } = plan;
  const times =
    at === undefined || !report.desired ? '' : renderBoundaries(report, listShownBoundaries(report.desired, at));
  return renderReport(report, page.title.join(' · '), {
    head: html`<p class="summary">${escapeControls(said)}${held}</p>${page.notes.map((note) => html`<p class="note">${note}</p>`)}`,
    first: html`${leftOpenSection(report)}${renderPlanSections(report, plan, page)}`,
    last: html`${times}${testsSection(report, plan)}`,
  });
}

function renderAnswer(report: RunReport, other: OtherAnswer): string {
  const { table, text = '' } = other;
  const [said = ''] = text.split('\n');
  const title = report.headline ?? (said === '' ? `reconcile: ${formatProblemCounts(report.problems)}` : said);
  return renderReport(report, title, {
    head: html`<p>${escapeControls(report.server ?? '')}</p>`,
    first: table ? renderTable(table) : text === '' ? '' : html`<section><pre>${text}</pre></section>`,
    last: '',
  });
}

/** The page of a report: what is said above the problems, and below them. */
function renderReport(report: RunReport, title: string, parts: Readonly<Record<'head' | 'first' | 'last', Markup>>) {
  return renderFrame({
    title,
    head: html`<meta http-equiv="Content-Security-Policy" content="${writePolicy(pageStyle, pageScript)}; form-action 'none'">
<meta name="referrer" content="no-referrer">`,
    body: html`<header><h1>${escapeControls(title)}</h1>${parts.head}${revisionLine(report)}</header>
<main>${parts.first}${renderProblemList({ ...report, problems: addFailedSteps(report) })}${parts.last}</main>`,
    script: pageScript,
  });
}

/** What a command says that makes no plan. */
type OtherAnswer = { readonly table?: readonly (readonly string[])[]; readonly text?: string };

/** A whole document; `head` may hold a policy. */
export function renderFrame(page: Readonly<Record<'head' | 'body', Markup> & Record<'title' | 'script', string>>) {
  return `${html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
${page.head}
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>${escapeControls(page.title)}</title>
<style>${raw(pageStyle)}</style>
</head>
<body>
${page.body}
<script>${raw(page.script)}</script>
</body>
</html>
`}`;
}

/** The policy of a page: its own style and script, and nothing from elsewhere. */
export function writePolicy(style: string, script: string): string {
  const hash = (text: string): string => `sha256-${createHash('sha256').update(text).digest('base64')}`;
  return `default-src 'none'; style-src '${hash(style)}'; script-src '${hash(script)}'; img-src data:; base-uri 'none'`;
}

/** Of an apply whose gaps could not be closed this is read first. */
function leftOpenSection(report: RunReport): Markup {
  const [title, ...traffic] = listLeftOpen(report);
  if (title === undefined) return '';
  const lines = traffic.map((text) => html`<li>${text}</li>`);
  return html`<section class="refused"><h2>${title}</h2><ul>${lines}</ul></section>`;
}

/** What a plan opens and closes, on the way too, and its changes. */
export function renderPlanSections(report: RunReport, plan: Plan, page: PlanPage): Markup {
  return html`${refusalsSection(report, plan)}${page.traffic.map(trafficSection)}${wayMarkup(plan, page)}${changesSection(report, page)}`;
}

function revisionLine({ forge, revision }: RunReport): Markup {
  const link = forge ? linkCommit(forge, revision) : null;
  return link === null || revision === null ? '' : html`<p>${linkText(formatRevision(revision), link)}</p>`;
}

/** A link to a page of the forge, which learns nothing of this page. */
export function linkText(text: string, link: string | null): Markup {
  return link === null ? text : html`<a href="${link}" rel="noopener noreferrer">${text}</a>`;
}

/** A table whose first row is its head. */
export function renderTable([head = [], ...rows]: readonly (readonly string[])[]): Markup {
  return html`<section><table class="plain"><thead><tr>${head.map((cell) => html`<th scope="col">${escapeControls(cell)}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${escapeControls(cell)}</td>`)}</tr>`)}</tbody></table></section>`;
}

function refusalsSection({ approved, digest }: RunReport, { refusals }: Plan): Markup {
  if (refusals.length === 0) return '';
  const lines = refusals.map(
    ({ summary, hint }) => html`<li>${escapeControls(summary)}<br><small>${escapeControls(hint)}</small></li>`,
  );
  const approve =
    approved || digest === null ? '' : html`<p>To apply exactly this plan: <code>--approve ${digest}</code></p>`;
  return html`<section class="refused">
<h2>${approved ? 'Refused, and approved by digest' : 'Refused: nothing will be written'}</h2>
<ul>${lines}</ul>${approve}</section>`;
}

function trafficSection(traffic: TrafficPart): Markup {
  const listOf = (label: 'opens' | 'closes'): Markup => {
    const own = traffic.lines.filter((line) => line.label === label);
    if (own.length === 0) return '';
    return html`<div class="${label}"><h3>${label === 'opens' ? 'Opens' : 'Closes'}</h3>
<ul>${own.map(({ text }) => html`<li>${text}</li>`)}</ul></div>`;
  };
  return html`<section><h2>Traffic</h2>
<p class="headline">${traffic.headline}</p>
${listOf('opens')}${listOf('closes')}${leftMarkup(traffic)}
${drawTraffic(traffic)}</section>`;
}

function wayMarkup(plan: Plan, { onTheWay }: PlanPage): Markup {
  if (onTheWay === null) return '';
  const lines = onTheWay.lines.map(({ label, text }) => html`<li><b>${label}</b> ${text}</li>`);
  return html`<section class="way"><h2>On the way</h2><p class="headline">${onTheWay.headline}</p><ul>${lines}</ul>
${leftMarkup(onTheWay)}${drawExposure(plan)}</section>`;
}

function leftMarkup({ left }: TrafficPart | PagePart): Markup {
  return left === '' ? '' : html`<p>${left}: the JSON output has all of it.</p>`;
}

function changesSection(report: RunReport, { sets }: PlanPage): Markup {
  if (sets.length === 0) return '';
  const people = new Set(sets.flatMap(({ changes }) => changes.map((change) => whoseText(report, change))));
  const options = (values: Iterable<string>): readonly Markup[] =>
    [...values].sort(compareText).map((value) => html`<option>${value}</option>`);
  return html`<section><h2>Changes</h2>
<form class="filters" role="search" id="filters" aria-label="Changes">
<label>Network or rule <input type="search" id="filter" autocomplete="off"></label>
<label>Person <select id="who"><option value="">anybody</option>${options(people)}</select></label>
<label>Set <select id="set"><option value="">any</option>
${options(sets.map(({ title }) => title))}</select></label>
<label>Kind <select id="kind"><option value="">any change</option><option value="+">created</option>
<option value="±">replaced</option><option value="~">updated</option><option value="-">deleted</option></select></label>
<output id="shown"></output></form>
${sets.map((set) => setMarkup(report, set))}</section>`;
}

function whoseText({ userNames }: RunReport, { change }: ShownChange): string {
  if (change.kind === 'Configuration') return 'everyone';
  const { userId } = (change.desired ?? change.live)?.rule ?? { userId: null };
  return userId === null ? 'everyone' : formatUser(userId, userNames);
}

function setMarkup(report: RunReport, { title, total, changes }: SetOfChanges): Markup {
  const { changed, left } = tally(changes);
  return html`<details data-set="${title}"${changes.length <= unfolded ? raw(' open') : ''}>
<summary>${title} <small>${changed} of ${total}${left}</small></summary>
<table class="marked"><tbody>${changes.map((change) => rowMarkup(report, change))}</tbody></table></details>`;
}

function rowMarkup(report: RunReport, shown: ShownChange): Markup {
  const { symbol, tone, name, what, why, fields, change } = shown;
  const { source, action } = change;
  const link = source && (action === 'delete' ? `was ${formatWhere(report, source)}` : placeMarkup(report, source));
  const label = name === '' && change.id !== null && change.kind === 'Rule' ? change.id.slice(0, 8) : name;
  const lines = fields.map(({ path, text }) => html`<br><code>${path}: ${text}</code>`);
  return html`<tr data-kind="${symbol}" data-who="${whoseText(report, shown)}"><td class="${tone}">${symbol}</td>
<th scope="row">${label}</th><td>${what}${why === '' ? '' : html` <small>${why}</small>`}${lines}</td>
<td class="place">${link ?? ''}</td></tr>`;
}

function formatWhere({ root }: RunReport, { file, line }: Place): string {
  return escapeControls(`${stripRoot(file, root)}:${line}`);
}

function placeMarkup(report: RunReport, place: Place, text = formatWhere(report, place)): Markup {
  return linkText(text, report.forge ? linkPlace(report.forge, report.revision, place) : null);
}

export function renderBoundaries(report: RunReport, boundaries: readonly Boundary[]): Markup {
  const lines = boundaries.map(
    ({ at, what, rule: { name, rule, place } }) => html`<li>${timeMarkup(at)}: <b>${escapeControls(name)}</b> ${what},
${formatRule(rule, report.userNames)} ${placeMarkup(report, place)}</li>`,
  );
  return lines.length === 0 ? '' : html`<section><h2>Rules that begin or end</h2><ul>${lines}</ul></section>`;
}

/** A moment, which a browser may show in its own way. */
export function timeMarkup(ms: number): Markup {
  const text = formatInstant(Math.floor(ms / 1000) * 1000);
  return html`<time datetime="${text}">${text.replace('T', ' ').replace('Z', ' UTC')}</time>`;
}

/** Every policy test, those that the plan does not pass first; the refusals say why. */
function testsSection(report: RunReport, { refusals }: Plan): Markup {
  const { desired, userNames } = report;
  if (!desired || desired.tests.length === 0) return '';
  const failed = new Set(
    refusals.flatMap(({ code, related }) => (code.startsWith('policy-test') ? (related?.[0]?.place ?? []) : [])),
  );
  const row = (one: PolicyCase): Markup =>
    html`<tr><td class="${failed.has(one.place) ? 'risk' : ''}">${failed.has(one.place) ? '✗' : '✓'}</td>
<th scope="row">${escapeControls(one.name)}</th><td>${one.expect} ${escapeControls(describeCase(one, userNames))}</td>
<td class="place">${placeMarkup(report, one.place)}</td></tr>`;
  const tests = desired.tests.toSorted((a, b) => Number(failed.has(b.place)) - Number(failed.has(a.place)));
  return html`<section><h2>Policy tests</h2><details${failed.size > 0 ? raw(' open') : ''}>
<summary>${count(tests.length - failed.size, 'case')} passed, ${failed.size} failed</summary>
<table class="marked"><tbody>${tests.slice(0, mostTraffic).map(row)}</tbody></table></details></section>`;
}

export function renderProblemList(report: RunReport): Markup {
  if (report.problems.length === 0) return '';
  const { lines, left } = takeProblems(report.problems, mostTraffic);
  return html`<section><h2>Problems</h2><ul class="problems">
${lines.map((problem) => problemMarkup(report, problem))}</ul>
${left === '' ? '' : html`<p>${left}.</p>`}</section>`;
}

function problemMarkup(report: RunReport, { severity, code, summary, hint, place, excerpt }: Problem): Markup {
  const where = place && placeMarkup(report, place, `${formatWhere(report, place)}:${place.column}`);
  return html`<li class="${severity}"><b>${severity}</b> ${where ?? ''}
${escapeControls(summary)} <small>[${code}]</small>
${excerpt === undefined ? '' : html`<pre>${escapeControls(excerpt)}</pre>`}
${hint === undefined ? '' : html`<small>${escapeControls(hint)}</small>`}</li>`;
}
