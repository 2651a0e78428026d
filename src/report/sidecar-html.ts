import { html } from 'hono/html';
import type { Condition } from '../controller/conditions.ts';
import type { PassView, Status } from '../controller/status.ts';
import { escapeControls } from '../model/printable.ts';
import { linkCommit, linkPlace } from './forge.ts';
import { linkText, renderBoundaries, renderFrame, renderPlanSections, renderProblemList, timeMarkup } from './html.ts';
import type { Markup } from './html-pictures.ts';
import { formatAgo, formatRevision, makePlanPage, takeChanges } from './page.ts';
import { formatLine } from './problems.ts';
import { makeProblemReport } from './run-report.ts';
import { chooseHeadline, type RuleLine, type SidecarState } from './sidecar.ts';
import { summarisePlan } from './summarise-plan.ts';

/** What somebody asked in the forms of the page. */
export interface PageQuestion {
  readonly words: string;
  /** How many rules are live, and those that hold these words. */
  readonly total: number;
  readonly found: readonly RuleLine[];
  readonly packet: Readonly<Record<(typeof packetFields)[number], string>>;
  /** What is known about that packet; null: nothing was asked. */
  readonly answer: string | null;
  /** By a session that can be ended. */
  readonly isSignedIn: boolean;
  /** What keeps the page as it is on the server. */
  readonly script: string;
}

export const packetFields = ['destination', 'protocol', 'port', 'user'] as const;

/** More rows than this nobody reads: a search finds the rest. */
const mostRows = 200;

/** The state of a sidecar as a page. What manifests and the server wrote is text there, never markup. */
export function renderSidecar(state: SidecarState, question: PageQuestion): string {
  const { status } = state;
  const headline = chooseHeadline(status);
  const newest = { ...makeProblemReport(state.problems), revision: status.revisions.observed, forge: state.forge };
  return renderLive({
    title: `${headline.text} · ${status.server ?? 'reconcile'}`,
    state: stateMarkup(state),
    main: html`<div id="plan" data-live>${planMarkup(state)}</div>
<div id="problems" data-live>${renderProblemList(newest)}</div>
<div id="times" data-live>${timesMarkup(state)}</div>
<section><h2>Would a packet pass?</h2>${packetForm(question)}</section>
<section><h2>Live rules</h2>
<form role="search" aria-label="Live rules"><label>Name, network or person
<input type="search" name="q" id="q" value="${question.words}" autocomplete="off"></label> <button>Search</button></form>
<div id="rules" data-live>${rulesMarkup(state, question)}</div></section>
<div id="conditions" data-live>${conditionsMarkup(status)}</div>
<div id="kernel" data-live>${kernelMarkup(status)}</div>
<div id="passes" data-live>${passesMarkup(status.passes)}</div>
<p class="note">The same for programs: <a href="api/v1/status">status</a>, <a href="api/v1/plan">plan</a>,
<a href="api/v1/rules">rules</a>, <a href="/metrics">metrics</a>.</p>`,
    isSignedIn: question.isSignedIn,
    script: question.script,
  });
}

/** A page that is kept as it is on the server: what it shows of the state, the rest, and the end of a session. */
export function renderLive({
  title,
  script,
  ...shown
}: Pick<PageQuestion, 'isSignedIn' | 'script'> & Readonly<Record<'state' | 'main', Markup> & Record<'title', string>>) {
  return renderFrame({
    ...{ title, script, head: '' },
    body: html`<p id="connection" role="alert" hidden>The sidecar does not answer.
What you see is old; it is asked again every few seconds.</p>
<header id="state" data-live>${shown.state}</header>
<main>
${shown.main}
${shown.isSignedIn ? html`<form method="post" action="/sign-out"><button>Sign out</button></form>` : ''}
</main>`,
  });
}

/** Asks for the token; `problem`: what was wrong with the last one. */
export function renderSignIn(problem: string | null, script: string): string {
  return renderFrame({
    title: 'Sign in to reconcile',
    head: '',
    body: html`<header><h1>Sign in</h1></header><main><section>
${problem === null ? '' : html`<p role="alert" class="risk">${problem}</p>`}
<form method="post" action="/sign-in"><label>Token (the content of the file that --listen-token-file names)
<input type="password" name="token" id="token" required autocomplete="current-password"></label> <button>Sign in</button></form>
</section></main>`,
    script,
  });
}

function stateMarkup({ status, now, forge, authors }: SidecarState): Markup {
  const { tone, text, detail, advice, command } = chooseHeadline(status);
  const { progress, conditions, revisions } = status;
  const revision = (id: string | null): Markup => {
    if (id === null) return 'none';
    const author = authors.get(id) ?? '';
    return html`${linkText(formatRevision(id), forge && linkCommit(forge, id))}${author === '' ? '' : ` by ${escapeControls(author)}`}`;
  };
  const { applied, appliedAt, inForce, observed } = revisions;
  const sort = status.confirmBy === null ? 'in effect in part' : 'not confirmed yet';
  return html`<div class="state ${tone}" role="status"><h1>${text}</h1>
${progress === null ? '' : html`<progress aria-label="Steps" value="${progress.done}" max="${progress.total}"></progress>`}
${detail === '' ? '' : html`<p class="summary">${detail}</p>`}
${advice === null ? '' : html`<p>${advice} <code class="command">${command}</code></p>`}</div>
<dl><dt>Server</dt><dd>${status.server ?? 'not known'}</dd>
<dt>Source</dt><dd>${status.source}</dd>
<dt>In effect</dt><dd>${revision(applied)}${appliedAt === null ? '' : html` since ${timeMarkup(appliedAt)}`}</dd>
${inForce === null || inForce === applied ? '' : html`<dt>In force</dt><dd>${revision(inForce)}, ${sort}</dd>`}
${observed === applied || observed === inForce ? '' : html`<dt>Newest</dt><dd>${revision(observed)}, not in effect</dd>`}
<dt>State since</dt><dd>${timeMarkup(conditions.Ready.since)}, ${formatAgo(now - conditions.Ready.since)}</dd>
<dt>Writer</dt>
<dd>${status.role === null ? 'no replica' : status.role === 'writer' ? 'this replica' : 'another replica'}${status.holder === null ? '' : `: ${status.holder}`}</dd>
${status.tokenExpiresAt === null ? '' : html`<dt>API token</dt><dd>ends ${timeMarkup(status.tokenExpiresAt)}</dd>`}
<dt>Seen</dt><dd>${timeMarkup(now)} by reconcile ${status.version}</dd></dl>`;
}

function conditionsMarkup({ conditions }: Status): Markup {
  const row = ({ type, status, reason, message, since }: Condition): Markup =>
    html`<tr><th scope="row">${type}</th><td>${status}</td><td>${reason}</td><td>${message}</td><td>${timeMarkup(since)}</td></tr>`;
  return html`<section><h2>Conditions</h2><table class="plain"><thead>
${heads('Condition', 'Status', 'Reason', 'Message', 'Since')}</thead>
<tbody>${Object.values(conditions).map(row)}</tbody></table></section>`;
}

function heads(...titles: readonly string[]): Markup {
  return html`<tr>${titles.map((title) => html`<th scope="col">${title}</th>`)}</tr>`;
}

function planMarkup({ plan: report }: SidecarState): Markup {
  const plan = report?.plan ?? null;
  if (report === null || plan === null) return html`<section><h2>Plan</h2><p>Nothing to change.</p></section>`;
  const page = makePlanPage(report, plan, mostRows);
  const worst = new Set(takeChanges(page.sets, mostRows).lines);
  const sets = page.sets.map((set) => ({ ...set, changes: set.changes.filter((change) => worst.has(change)) }));
  const isLong = plan.changes.length - plan.summary.keep > mostRows;
  const more = html`<p class="note">Only ${mostRows} changes are shown here. All of them: <a href="api/v1/plan">as JSON</a>.</p>`;
  return html`<section><h2>Plan</h2><p class="summary">${summarisePlan(report, plan)}</p>${isLong ? more : ''}</section>
${renderPlanSections(report, plan, { ...page, sets: sets.filter(({ changes }) => changes.length > 0) })}`;
}

function timesMarkup({ boundaries, windows, forge, status, userNames }: SidecarState): Markup {
  const next = windows.map(
    ({ kind, scope, from, to }) => html`<li>${kind === 'allow' ? 'open' : 'closed'} for ${scope.join(' and ')}:
${timeMarkup(from)} to ${timeMarkup(to)}</li>`,
  );
  const report = { ...makeProblemReport([]), revision: status.revisions.applied, forge, userNames };
  return html`${renderBoundaries(report, boundaries)}
${next.length === 0 ? '' : html`<section><h2>Windows</h2><ul>${next}</ul></section>`}`;
}

function packetForm({ packet, answer }: PageQuestion): Markup {
  const field = (name: (typeof packetFields)[number], label: string, hint: string): Markup =>
    html`<label>${label} <input name="${name}" id="${name}" value="${packet[name]}" placeholder="${hint}" autocomplete="off"></label> `;
  return html`<form class="packet">${field('destination', 'To', '10.1.2.3')}${field('protocol', 'Protocol', 'tcp')}
${field('port', 'Port', '443')}${field('user', 'Person', 'nobody')}<button>Explain</button></form>
<div id="answer" data-live>${answer === null ? '' : html`<pre role="status">${answer}</pre>`}</div>`;
}

function rulesMarkup({ forge, status }: SidecarState, { found, total }: PageQuestion): Markup {
  const rows = found.slice(0, mostRows).map(({ rule, name, what }) => {
    const { place } = rule;
    const link = forge !== null && place !== null ? linkPlace(forge, status.revisions.applied, place) : null;
    return html`<tr><th scope="row">${name}</th><td>${what}</td>
<td class="place">${place === null ? '' : linkText(escapeControls(formatLine(place)), link)}</td></tr>`;
  });
  const shown = rows.length < found.length ? `, the first ${rows.length} of them here` : '';
  return html`<p>${found.length} of ${total} rules${shown}.</p><table class="plain"><thead>${heads('Name', 'Rule', 'Place')}</thead>
<tbody>${rows}</tbody></table>`;
}

function kernelMarkup({ enforcement }: Status): Markup {
  if (enforcement === undefined) return '';
  const { missing, stale, extra, structure, enforcedAt, findings } = enforcement;
  return html`<section><h2>Kernel</h2><p>${missing} missing, ${stale} stale, ${extra} extra, ${structure} other differences.
${enforcedAt === null ? 'It was never seen to hold all live rules.' : html`It last held all live rules at ${timeMarkup(enforcedAt)}.`}</p>
<ul>${findings.map((finding) => html`<li>${finding}</li>`)}</ul></section>`;
}

function passesMarkup(passes: readonly PassView[]): Markup {
  const row = (one: PassView): Markup => html`<tr><th scope="row">${timeMarkup(one.startedAt)}</th>
<td>${one.reason}</td><td>${formatRevision(one.failedRevision ?? one.revision ?? '')}</td><td>${one.durationMs} ms</td>
<td>${one.outcomes.done} of ${one.steps}</td><td>${one.message}</td></tr>`;
  return html`<section><h2>Last passes</h2><table class="plain"><thead>
${heads('Start', 'Result', 'Revision', 'Took', 'Written', 'Message')}</thead>
<tbody>${passes.map(row)}</tbody></table></section>`;
}
