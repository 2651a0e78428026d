import { readUsers } from '../apply/read.ts';
import { formatRuleKey } from '../model/rule.ts';
import type { PassDependencies } from '../pass/pass.ts';
import { readContext, readDesired } from '../pass/stages.ts';
import type { Plan } from '../plan/plan.ts';
import type { FormerRule, RunReport } from '../report/run-report.ts';
import { readBaseContent } from './base.ts';
import type { Invocation } from './command.ts';
import { readRevision } from './revision.ts';

/** Names that only a display needs: no part of the plan or of its digest depends on them. */
export type PlanNames = Pick<RunReport, 'lastApply' | 'serverNames'>;

interface NamesRequest {
  readonly path: string;
  readonly pass: PassDependencies;
  readonly plan: Plan;
  readonly userNames: ReadonlyMap<string, string>;
  readonly lastApply: ReadonlyMap<string, FormerRule> | null;
}

/** Former names of deleted rules, and addresses of users whom no manifest names. What fails leaves names out, nothing else. */
export async function lookUpNames(invocation: Invocation, request: NamesRequest): Promise<PlanNames> {
  const lastApply = request.lastApply ?? (await readNamesAtHead(invocation, request));
  return { ...(lastApply === null ? {} : { lastApply }), ...(await readEmails(invocation, request)) };
}

async function readNamesAtHead(invocation: Invocation, { path, pass, plan }: NamesRequest) {
  const isUnnamed = plan.changes.some(({ action, name }) => action === 'delete' && name === null);
  if (!isUnnamed || invocation.settings.base !== null || readRevision(invocation.terminal.env) !== null) return null;
  try {
    const { content, parse } = await readBaseContent(invocation, { path, base: 'HEAD', parse: pass.parse });
    const built = await readDesired(content, { ...pass, parse });
    const rules = built.ok ? (built.value.desired.state?.rules ?? []) : [];
    return new Map(rules.map(({ rule, name, place }) => [formatRuleKey(rule), { name, place }]));
  } catch {
    return null; // not below Git, or not readable: the rules are shown by their content
  }
}

async function readEmails({ settings, terminal }: Invocation, { pass, plan, userNames }: NamesRequest) {
  const isWanted = terminal.stdoutIsTerminal || settings.showEmails;
  if (!isWanted || settings.snapshot !== null || pass.desired.profile.name === 'generic') return {};
  const shown = plan.changes.flatMap((change) =>
    change.kind === 'Rule' && change.action !== 'keep' ? [change.live?.rule.userId, change.desired?.rule.userId] : [],
  );
  if (!shown.some((user) => user !== null && user !== undefined && !userNames.has(user))) return {};
  const users = await readUsers({ ...readContext(pass), attempts: 1 });
  return users.ok ? { serverNames: new Map(users.value.map(({ id, email }) => [id, email])) } : {};
}
