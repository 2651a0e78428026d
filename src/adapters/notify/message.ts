import { createHmac } from 'node:crypto';
import { shortenRevision } from '../../controller/conditions.ts';
import type { Turn } from '../../controller/observer.ts';
import { formatInstant } from '../../model/instant.ts';

/** What somebody is sent about a turn; null when it does not concern them. */
export type MakeDelivery = (turn: Turn) => Delivery | null;

/** Address and secrets are read when they are used, so that files can be renewed. */
export interface Delivery {
  readonly url: () => string;
  readonly headers: () => Readonly<Record<string, string>>;
  readonly body: string;
}

/** JSON for any webhook, signed over its bytes where there is a secret. */
export function notifyWebhook(url: () => string, secret: (() => string) | null): MakeDelivery {
  return (turn) => {
    const body = JSON.stringify(genericBody(turn));
    const sign = (key: string): string => `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
    return { url, headers: () => (secret === null ? {} : { 'x-reconcile-signature': sign(secret()) }), body };
  };
}

/** A text for Slack, or for whatever reads the same. */
export function notifySlack(url: () => string): MakeDelivery {
  return (turn) => ({ url, headers: () => ({}), body: JSON.stringify({ text: slackText(turn) }) });
}

function genericBody({ what, status, rules }: Turn): unknown {
  const { windowOpensAt, conditions } = status;
  const { message, since } = conditions.Ready;
  return {
    format_version: 1,
    event: what,
    source: status.source,
    server: status.server,
    condition: { ...conditions.Ready, message: plain(message), since: new Date(since).toISOString() },
    revisions: status.revisions,
    windowOpensAt: windowOpensAt === null ? undefined : formatInstant(windowOpensAt),
    rules: rules?.map((one) => ({ name: one.rule.name, what: one.what, at: formatInstant(one.at) })),
  };
}

/** The revision that is broken, or in effect. */
function chooseRevision({ what, status: { passes, revisions } }: Turn): string | null {
  const broken = passes[0]?.failedRevision ?? passes[0]?.revision ?? revisions.observed;
  return what === 'broken' ? broken : revisions.applied;
}

const heads = {
  broken: 'Broken',
  recovered: 'Recovered',
  applied: 'Applied',
  'boundary-soon': 'Soon',
  'boundary-passed': 'Done',
} as const;

const mostRules = 20;

function slackText({ what, status, rules = [] }: Turn): string {
  const { reason, message } = status.conditions.Ready;
  const revision = escapeSlack(shortenRevision(chooseRevision({ what, status }) ?? 'no revision'));
  const where = status.server === undefined ? '' : ` on ${escapeSlack(status.server)}`;
  const lines = [`*${heads[what]}*: ${escapeSlack(status.source)} at ${revision}${where}`];
  if (what === 'broken') lines.push(`${reason}: ${escapeSlack(message)}`);
  const verbs = what === 'boundary-soon' ? { begins: 'begins', ends: 'ends' } : { begins: 'began', ends: 'ended' };
  for (const { rule, what: turn, at } of rules.slice(0, mostRules))
    lines.push(`${escapeSlack(rule.name)} ${verbs[turn]} at ${formatInstant(at)}`);
  if (rules.length > mostRules) lines.push(`and ${rules.length - mostRules} more`);
  return lines.join('\n').slice(0, 3000);
}

/** GitHub shows it beside the commit: success once in effect, else failure. `api`: https://api.github.com or an Enterprise address. */
export function notifyGithub(
  { api, repository, context }: Readonly<Record<'api' | 'repository' | 'context', string>>,
  token: () => string,
): MakeDelivery {
  return ({ what, status, rules }) => {
    const { reason, message } = status.conditions.Ready;
    const host = status.server === undefined ? '' : ` on ${new URL(status.server).host}`;
    const isBroken = what === 'broken';
    const commit = chooseRevision({ what, status });
    if (rules !== undefined || commit === null || !/^[0-9a-f]{40}$/.test(commit)) return null;
    const text = isBroken ? `${reason}${host}: ${plain(message)}` : `in effect${host}`;
    const description = text.length > 140 ? `${text.slice(0, 139)}…` : text;
    return {
      url: () => `${api}/repos/${repository}/statuses/${commit}`,
      headers: () => ({ authorization: `Bearer ${token()}`, accept: 'application/vnd.github+json' }),
      body: JSON.stringify({ state: isBroken ? 'failure' : 'success', context, description }),
    };
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
