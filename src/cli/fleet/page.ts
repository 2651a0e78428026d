import { html } from 'hono/html';
import { systemClock } from '../../adapters/clock.ts';
import type { StatusAppSettings } from '../../adapters/web/status-app.ts';
import type { Status } from '../../controller/status.ts';
import { escapeControls } from '../../model/printable.ts';
import { formatSafeJson, formatVersion } from '../../report/json.ts';
import { formatRevision } from '../../report/page.ts';
import { chooseHeadline } from '../../report/sidecar.ts';
import { renderLive } from '../../report/sidecar-html.ts';
import { createPages, frame, type PageSources, script } from '../watch/page.ts';
import type { Target } from './targets.ts';

/** One line a target, each with the page of its own below /targets/NAME/. `rollout`: what it waits for; null: nothing waits. */
export function createFleetPages(
  targets: readonly (Target & { readonly keeper: PageSources })[],
  rollout: () => string | null,
): Pick<StatusAppSettings, 'view' | 'below'> {
  const lines = () => targets.map((one) => lineOf(one, one.keeper.status()));
  return {
    view: {
      ...frame,
      version: () => JSON.stringify([rollout(), lines()]),
      page: (_asked, { hasSession }) => renderFleet(lines(), rollout(), hasSession),
      document: (name) => {
        if (name !== 'status') return null;
        const state = { at: systemClock.wallTime(), rollout: rollout(), targets: lines() };
        return formatSafeJson({ format_version: formatVersion, ...state });
      },
    },
    below(name) {
      const keeper = targets.find((one) => one.name === name)?.keeper;
      return keeper === undefined ? null : createPages(keeper);
    },
  };
}

function lineOf({ name, wave, labels }: Target, status: Status) {
  const { text, tone, detail } = chooseHeadline(status);
  const { conditions, revisions, server = null, drift } = status;
  return {
    ...{ name, wave, labels, server, drift },
    headline: { text, tone, detail: escapeControls(detail) },
    applied: revisions.applied,
    observed: revisions.observed,
    conditions,
  };
}

function renderFleet(lines: readonly ReturnType<typeof lineOf>[], rollout: string | null, isSignedIn: boolean): string {
  const good = lines.filter(({ headline }) => headline.tone === 'good').length;
  const title = `${good} of ${lines.length} targets in sync`;
  const rows = lines.map(({ name, wave, labels, server, headline, applied }) => {
    const words = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    return html`<tr><th scope="row"><a href="targets/${name}/">${name}</a></th><td>${wave}</td><td>${words.join(', ')}</td>
<td>${server ?? ''}</td><td>${headline.text}</td><td>${applied === null ? '' : formatRevision(applied)}</td>
<td>${headline.tone === 'good' ? '' : headline.detail}</td></tr>`;
  });
  return renderLive({
    ...{ title, script, isSignedIn },
    state: html`<div class="state ${good === lines.length ? 'good' : 'waiting'}" role="status"><h1>${title}</h1>
${rollout === null ? '' : html`<p class="summary">${rollout}</p>`}</div>`,
    main: html`<section id="targets" data-live><h2>Targets</h2><table class="plain"><thead><tr><th scope="col">Name</th>
<th scope="col">Wave</th><th scope="col">Labels</th><th scope="col">Server</th><th scope="col">State</th>
<th scope="col">In effect</th><th scope="col">Detail</th></tr></thead><tbody>${rows}</tbody></table></section>
<p class="note">The same for programs: <a href="api/v1/status">status</a>, <a href="/metrics">metrics</a>.</p>`,
  });
}
