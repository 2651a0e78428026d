import { html } from 'hono/html';
import type { Status } from '../../controller/status.ts';

type Page = ReturnType<typeof html>;

/** The status as a page: no script, no style from elsewhere, every text escaped. */
export function renderStatusPage(status: Status): Page {
  const { revisions, conditions } = status;
  return html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>reconcile: ${conditions.Ready.reason}</title></head>
<body>
<h1>reconcile ${status.version}</h1>
<p>${status.source}</p>
<h2>Conditions</h2>
<table border="1" cellpadding="4">
<tr><th>type</th><th>status</th><th>reason</th><th>since</th><th>message</th></tr>
${Object.values(conditions).map((one) => html`<tr><td>${one.type}</td><td>${one.status}</td><td>${one.reason}</td><td>${time(one.since)}</td><td>${one.message}</td></tr>`)}
</table>
<h2>Revisions</h2>
<ul>
<li>observed ${revisions.observed ?? 'none'}</li>
<li>attempted ${revisions.attempted ?? 'none'}</li>
<li>applied ${revisions.applied ?? 'none'} ${revisions.appliedAt === null ? '' : time(revisions.appliedAt)}</li>
</ul>
<h2>Plan</h2>
${planTable(status)}
<h2>Passes</h2>
<table border="1" cellpadding="4">
<tr><th>start</th><th>ms</th><th>triggers</th><th>revision</th><th>result</th><th>reason</th><th>steps</th><th>message</th></tr>
${status.passes.map((one) => html`<tr><td>${time(one.startedAt)}</td><td>${one.durationMs}</td><td>${one.triggers.join(' ')}</td><td>${one.revision ?? ''}</td><td>${one.result}</td><td>${one.reason}</td><td>${one.steps}</td><td>${one.message}</td></tr>`)}
</table>
</body>
</html>
`;
}

function planTable({ plan }: Status): Page {
  if (plan === null || plan.changes.length === 0) return html`<p>nothing to change</p>`;
  return html`<table border="1" cellpadding="4">
<tr><th>action</th><th>kind</th><th>name</th><th>reason</th><th>origin</th><th>fields</th></tr>
${plan.changes.map((one) => html`<tr><td>${one.action}</td><td>${one.kind}</td><td>${one.name ?? ''}</td><td>${one.reason}</td><td>${one.origin ?? ''}</td><td>${one.fields.join(' ')}</td></tr>`)}
</table>
${plan.refusals.length === 0 ? '' : refusalList(plan)}`;
}

function refusalList({ refusals, digest }: NonNullable<Status['plan']>): Page {
  return html`<h2>Refused</h2>
<ul>
${refusals.map((one) => html`<li>${one.code}: ${one.summary} ${one.hint}</li>`)}
${digest === null ? '' : html`<li>approve: ${digest}</li>`}
</ul>`;
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}
