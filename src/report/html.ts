import { createHash } from 'node:crypto';
import { html, raw } from 'hono/html';
import { escapeControls } from '../model/printable.ts';
import type { Problem } from '../model/problem.ts';
import type { Plan } from '../plan/plan.ts';
import { pageScript, pageStyle } from './html-assets.ts';
import { drawExposure, drawTraffic } from './html-pictures.ts';
import { makePlanPage, type PlanPage, type SetOfChanges, type ShownChange } from './page.ts';
import { stripRoot } from './problems.ts';
import type { RunReport } from './run-report.ts';
import { summariseApply, summarisePlan } from './summary.ts';

type Markup = ReturnType<typeof html> | string;

/** Sets with more changes than this begin folded. */
const unfolded = 200;
/** Lines of traffic: a page is searched, not only read. */
const mostTraffic = 1000;

/** The report as one self-contained HTML file, without scripts; text of manifests and of the server is never markup. */
export function renderHtml(report: RunReport): string {
  const { plan } = report;
  const page = plan === null ? null : makePlanPage(report, plan, { lines: mostTraffic });
  const title = page?.title.join(' · ') ?? 'No plan';
  const policy = [
    "default-src 'none'",
    `style-src '${hashOf(pageStyle)}'`,
    `script-src '${hashOf(pageScript)}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `${html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${escapeControls(title)}</title>
<style>${raw(pageStyle)}</style>
</head>
<body>
<header><h1>${escapeControls(title)}</h1>
<p class="summary">${summaryOf(report)}</p>
${(page?.notes ?? []).map((note) => html`<p class="note">${note}</p>`)}</header>
<main>
${plan === null || page === null ? '' : planSections(report, plan, page)}
${problemsSection(report)}
</main>
<script>${raw(pageScript)}</script>
</body>
</html>
`}`;
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

function summaryOf(report: RunReport): string {
  const { plan, apply } = report;
  if (plan === null) return 'There is no plan.';
  return apply === null ? summarisePlan(report, plan) : summariseApply(apply, plan);
}

function planSections(report: RunReport, plan: Plan, page: PlanPage): Markup {
  return html`${refusalsSection(report, plan)}${trafficSection(page)}${wayMarkup(plan, page)}${changesSection(report, page)}`;
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

function trafficSection({ traffic }: PlanPage): Markup {
  if (traffic === null) return '';
  const listOf = (label: 'opens' | 'closes'): Markup => {
    const own = traffic.lines.filter((line) => line.label === label);
    if (own.length === 0) return '';
    return html`<div class="${label}"><h3>${label === 'opens' ? 'Opens' : 'Closes'}</h3>
<ul>${own.map(({ text }) => html`<li data-row>${text}</li>`)}</ul></div>`;
  };
  const left = traffic.left === 0 ? '' : html`<p>and ${traffic.left} more: the JSON output has all of it.</p>`;
  return html`<section><h2>Traffic</h2>
<p class="headline">${traffic.headline}</p>
${listOf('opens')}${listOf('closes')}${left}
${raw(drawTraffic(traffic))}</section>`;
}

function wayMarkup(plan: Plan, { onTheWay }: PlanPage): Markup {
  if (onTheWay === null) return '';
  const lines = onTheWay.lines.map(({ label, text }) => html`<li data-row><b>${label}</b> ${text}</li>`);
  return html`<section class="way"><h2>On the way</h2><p class="headline">${onTheWay.headline}</p><ul>${lines}</ul>
${raw(drawExposure(plan))}</section>`;
}

function changesSection(report: RunReport, { sets }: PlanPage): Markup {
  if (sets.length === 0) return '';
  return html`<section><h2>Changes</h2>
<form class="filters" role="search"><label>Show only what contains
<input type="search" id="filter" autocomplete="off" placeholder="a person, a network, a rule"></label>
<label>and is <select id="kind"><option value="">any change</option><option value="+">created</option>
<option value="±">replaced</option><option value="~">updated</option><option value="-">deleted</option></select></label>
<output id="shown" aria-live="polite"></output></form>
${sets.map((set) => setMarkup(report, set))}</section>`;
}

function setMarkup(report: RunReport, { title, changed, total, changes }: SetOfChanges): Markup {
  return html`<details${changes.length <= unfolded ? raw(' open') : ''}><summary>${title} <small>${changed} of ${total}</small></summary>
<table><tbody>${changes.map((change) => rowMarkup(report, change))}</tbody></table></details>`;
}

function rowMarkup(
  report: RunReport,
  { symbol, tone, name, what, why, place, wasThere, fields, change }: ShownChange,
): Markup {
  const where = place === null ? '' : `${wasThere ? 'was ' : ''}${stripRoot(place.file, report.root)}:${place.line}`;
  const label = name === '' && change.id !== null && change.kind === 'Rule' ? change.id.slice(0, 8) : name;
  const lines = fields.map(({ path, text }) => html`<br><code>${path}: ${text}</code>`);
  return html`<tr data-row data-kind="${symbol}"><td class="${tone}">${symbol}</td>
<th scope="row">${label}</th><td>${what}${why === '' ? '' : html` <small>${why}</small>`}${lines}</td>
<td class="place">${escapeControls(where)}</td></tr>`;
}

function problemsSection({ problems, root }: RunReport): Markup {
  if (problems.length === 0) return '';
  return html`<section><h2>Problems</h2><ul class="problems">
${problems.slice(0, mostTraffic).map((problem) => problemMarkup(problem, root))}</ul>
${problems.length > mostTraffic ? html`<p>and ${problems.length - mostTraffic} more.</p>` : ''}</section>`;
}

function problemMarkup({ severity, code, summary, hint, place, excerpt }: Problem, root: string | null): Markup {
  const where = place === undefined ? '' : `${stripRoot(place.file, root)}:${place.line}:${place.column} `;
  return html`<li class="${severity}" data-row><b>${severity}</b> ${escapeControls(where)}${escapeControls(summary)} <small>[${code}]</small>
${excerpt === undefined ? '' : html`<pre>${escapeControls(excerpt)}</pre>`}
${hint === undefined ? '' : html`<small>${escapeControls(hint)}</small>`}</li>`;
}
