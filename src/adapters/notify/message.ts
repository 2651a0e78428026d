import { createHmac } from 'node:crypto';
import type { Turn } from '../../controller/observer.ts';
import { formatInstant } from '../../model/instant.ts';

/** Whom to tell, from the operator's settings. Addresses and secrets are read when they are used, so that files can be renewed. */
export type NotifyTarget =
  | {
      readonly type: 'generic';
      readonly name: string;
      readonly url: () => string;
      readonly secret: (() => string) | null;
    }
  | { readonly type: 'slack'; readonly name: string; readonly url: () => string }
  | {
      readonly type: 'github-status';
      readonly name: string;
      /** `https://api.github.com`, or a GitHub Enterprise address. */
      readonly api: string;
      /** `owner/name`. */
      readonly repository: string;
      readonly token: () => string;
      readonly context: string;
    };

export interface Delivery {
  readonly url: () => string;
  readonly headers: () => Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a target is sent about a turn; null when it does not concern it. */
export function buildDelivery(target: NotifyTarget, turn: Turn): Delivery | null {
  switch (target.type) {
    case 'generic': {
      const body = JSON.stringify(genericBody(turn));
      const headers = (): Record<string, string> =>
        target.secret === null
          ? {}
          : { 'x-reconcile-signature': `sha256=${createHmac('sha256', target.secret()).update(body).digest('hex')}` };
      return { url: target.url, headers, body };
    }
    case 'slack':
      return { url: target.url, headers: () => ({}), body: JSON.stringify({ text: slackText(turn) }) };
    case 'github-status':
      return githubStatus(target, turn);
  }
}

function genericBody({ what, condition, status, rules }: Turn): unknown {
  const { windowOpensAt } = status;
  return {
    format_version: 1,
    event: what,
    source: status.source,
    ...(status.server === undefined ? {} : { server: status.server }),
    condition: { ...condition, message: plain(condition.message), since: new Date(condition.since).toISOString() },
    revisions: status.revisions,
    ...(windowOpensAt === null ? {} : { windowOpensAt: formatInstant(windowOpensAt) }),
    ...(rules === undefined ? {} : { rules: rules.map((one) => ({ ...one, at: formatInstant(one.at) })) }),
  };
}

const heads = {
  broken: 'Broken',
  recovered: 'Recovered',
  applied: 'Applied',
  'boundary-soon': 'Soon',
  'boundary-passed': 'Done',
} as const;

const mostRules = 20;

function slackText({ what, condition, status, rules = [] }: Turn): string {
  const { observed, applied } = status.revisions;
  const head = heads[what];
  const revision = short(what === 'broken' ? observed : applied);
  const where = status.server === undefined ? '' : ` on ${escapeSlack(status.server)}`;
  const lines = [`*${head}*: ${escapeSlack(status.source)} at ${revision}${where}`];
  if (what === 'broken') lines.push(`${condition.reason}: ${escapeSlack(condition.message)}`);
  const verbs = what === 'boundary-soon' ? { begins: 'begins', ends: 'ends' } : { begins: 'began', ends: 'ended' };
  for (const rule of rules.slice(0, mostRules))
    lines.push(`${escapeSlack(rule.name)} ${verbs[rule.what]} at ${formatInstant(rule.at)}`);
  if (rules.length > mostRules) lines.push(`and ${rules.length - mostRules} more`);
  return lines.join('\n').slice(0, 3000);
}

/** GitHub shows it beside the commit: success once it is in effect, failure when it cannot be. */
function githubStatus(target: Extract<NotifyTarget, { type: 'github-status' }>, turn: Turn): Delivery | null {
  if (turn.rules !== undefined) return null;
  const { observed, applied } = turn.status.revisions;
  const { server } = turn.status;
  const host = server === undefined ? '' : ` on ${new URL(server).host}`;
  const commit = turn.what === 'broken' ? observed : applied;
  if (commit === null || !/^[0-9a-f]{40}$/.test(commit)) return null;
  const description =
    turn.what === 'broken' ? `${turn.condition.reason}${host}: ${plain(turn.condition.message)}` : `in effect${host}`;
  return {
    url: () => `${target.api}/repos/${target.repository}/statuses/${commit}`,
    headers: () => ({ authorization: `Bearer ${target.token()}`, accept: 'application/vnd.github+json' }),
    body: JSON.stringify({
      state: turn.what === 'broken' ? 'failure' : 'success',
      context: target.context,
      description: description.length > 140 ? `${description.slice(0, 139)}…` : description,
    }),
  };
}

/** Remote text on one line, without control and direction characters. */
function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ').trim();
}

/** Slack reads `& < >` as markup: links and mentions of everybody could be smuggled in; backticks and stars would format. */
function escapeSlack(text: string): string {
  return plain(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replace(/[`*_~|]/g, '\u02bc');
}

function short(revision: string | null): string {
  return (revision ?? 'no revision').replace(/^sha256:/, '').slice(0, 12);
}
