import type { Desired } from '../desired/context.ts';
import type { SecretBinding } from '../model/configuration.ts';
import { mergeNames, nameAcross } from '../model/known-users.ts';
import { escapeControls } from '../model/printable.ts';
import { compareProblems, makeNote, type Problem } from '../model/problem.ts';
import { formatRuleKey } from '../model/rule.ts';
import type { BackOrder } from '../pass/go-back.ts';
import type { ApplyRecord, SaidOfRule } from '../pass/history.ts';
import type { Approve, PassResult } from '../pass/pass.ts';
import { holdsBack, type Plan } from '../plan/plan.ts';
import type { SourceContent } from '../ports.ts';
import { type FormerRule, makeProblemReport, type RunReport } from '../report/run-report.ts';
import { announce, askToApply, askToBind, explainWindow, findObstacle, findServer } from './approval.ts';
import { loadBase } from './base.ts';
import { type Answer, chooseExitCode, type Invocation } from './command.ts';
import { createHistoryWriter, describeUser, loadEnds, type OnRecord } from './history.ts';
import { findStateFolder, type LastApply, readLastApply, recordApply } from './last-apply.ts';
import { applyStrict, applyStrictToPass, isInvalid } from './manifests.ts';
import { noteWaiting, settleWaiting } from './pending.ts';
import { lookUpNames, type PlanNames } from './plan-names.ts';
import { readRevision } from './revision.ts';
import { compareWithSaved, movedMeanwhile, type SavedPlan, savePlan } from './saved-plan.ts';
import { makeScreen } from './screen.ts';
import { runWired, type WiredPass, wirePass } from './wire.ts';

/** One pass from the command line: over which manifests, and on which terms. */
export interface PassRequest {
  /** PATH as it was written, and absolute. */
  readonly written: string;
  readonly path: string;
  /** Only the plan: nothing is written. */
  readonly planOnly: boolean;
  /** The plan that was reviewed: any other is refused. */
  readonly saved: SavedPlan | null;
  /** What an apply changed is taken back, and no manifests are read: `written` is what that is called. */
  readonly back?: BackOrder;
  /** Is told what is changed, and decides whether that is kept, and what the run answers. */
  readonly trial?: {
    readonly onRecord: OnRecord;
    readonly decide: (applied: Answer) => Promise<{ readonly isKept: boolean; readonly answer: Answer }>;
  };
}

/** Runs one pass, and shows its plan before it is applied. A way back does without what settings say of manifests. */
export async function runPass(given: Invocation, request: PassRequest): Promise<Answer> {
  const unread = request.back === undefined ? {} : { base: null, values: [], overlay: null };
  const invocation = { ...given, settings: { ...given.settings, ...unread } };
  const screen = makeScreen(invocation);
  const { snapshot, save } = invocation.settings;
  const wired = await wirePass(invocation, request.path, snapshot);
  try {
    const base = await loadBase(invocation, request.path, wired.pass, request.planOnly);
    const lastApply = await readLastApply(invocation);
    const ends = await loadEnds(invocation, lastApply?.at);
    const history = createHistoryWriter(
      findStateFolder(invocation),
      wired.pass.logger,
      request.trial?.onRecord ?? (async () => []),
      (rule) => lastApply?.rules.get(formatRuleKey(rule)),
      request.back,
    );
    const begun = { answered: null, obstacle: null, names: null };
    const run: Run = { invocation, request, screen, wired, base, lastApply, ends, history, ...begun };
    const result = await runBound(run);
    const stale = staleness(run, result);
    if (result.plan !== null) await nameAll(run, result.plan, result.desired);
    const report = reportOf(result, run, stale);
    if (save !== null && result.digest !== undefined) savePlan(save, result.digest, report, wired.origin);
    await run.history.end(result);
    const declined = result.end === 'declined' && stale.length === 0;
    const answer = screen.answerWith(report, exitCode(result, run, stale.length > 0), run.obstacle, declined);
    const decision = (await request.trial?.decide(answer)) ?? { isKept: true, answer };
    if (decision.isKept) await recordRun(run, result, decision.answer);
    return decision.answer;
  } finally {
    screen.end();
    await wired.close();
  }
}

/** Records what a run that could write left in effect, unless it took an apply back. */
async function recordRun({ invocation, request, lastApply, wired }: Run, result: PassResult, answer: Answer) {
  const { planOnly, back } = request;
  if (planOnly) return await noteWaiting(invocation);
  if (back?.goesBack) return;
  if (back === undefined) await recordApply(invocation, result, lastApply, wired.pass.logger);
  await settleWaiting(invocation, answer);
}

/** Runs the pass, and once more when a person lets secrets go where nothing else binds them to. */
async function runBound(run: Run): Promise<PassResult> {
  const { request, base, screen, lastApply, ends, invocation, wired } = run;
  const approve = request.planOnly ? null : (content: SourceContent) => approveOf(run, content);
  const nothing = request.back === undefined ? null : { revision: request.written, files: [] };
  const attempt = (granted: readonly SecretBinding[]): Promise<PassResult> => {
    const { options, limits } = wired.pass;
    const { yes, approve: digests } = invocation.settings;
    const onlyApproved = !request.back?.goesBack && (request.saved !== null || digests.length > 0 || !yes);
    const secretBindings = [...options.secretBindings, ...(lastApply?.secrets ?? []), ...granted];
    const known = {
      base: base?.state ?? null,
      appliedRules: new Map<string, SaidOfRule>([...(lastApply?.rules ?? []), ...ends]),
      ...(lastApply === null ? {} : { agreedAt: lastApply.at }),
      onOutcome: screen.onOutcome,
      onReplan: run.history.onReplan,
      ...(request.back === undefined ? {} : { takesBack: request.back }),
      limits: { ...limits, onlyApproved },
      options: { ...options, secretBindings, ...(request.back?.goesBack ? { goesBack: true as const } : {}) },
    };
    const once = () => runWired({ ...wired, pass: { ...wired.pass, ...known } }, approve, nothing);
    return once().then((result) => (run.answered === null ? result : once()));
  };
  const result = await attempt([]);
  if (request.planOnly || result.end !== 'refused') return result;
  const granted = await askToBind(invocation, result.plan?.refusals ?? []);
  return granted === null ? result : await attempt(granted);
}

interface Run {
  readonly invocation: Invocation;
  readonly request: PassRequest;
  readonly screen: ReturnType<typeof makeScreen>;
  readonly wired: WiredPass;
  /** The manifests last applied, as `--base` names them. */
  readonly base: Awaited<ReturnType<typeof loadBase>>;
  /** What the last apply left; null without a record. */
  readonly lastApply: LastApply | null;
  /** When rules end by the newest record, which is there where a run was killed before the end. */
  readonly ends: ApplyRecord['said'];
  /** Looked up once, when there is a plan to show. */
  names: PlanNames | null;
  readonly history: ReturnType<typeof createHistoryWriter>;
  /** The digest that a person said yes to, with its state: all is read again then, for a question may stand for hours. */
  answered: { readonly plan: string; readonly desired: Desired } | null;
  /** What keeps the plan from being applied, once it was to be. */
  obstacle: Problem | null;
}

type Planned = Pick<PassResult, 'plan' | 'digest' | 'desired'>;

function staleness({ answered, request, wired }: Run, { plan, digest, desired }: Planned): readonly Problem[] {
  if (plan === null || digest === undefined) return [];
  if (answered && answered.plan !== digest.plan) return [movedMeanwhile(desired, answered.desired.state?.at)];
  const { saved } = request;
  return saved === null ? [] : compareWithSaved(saved, { digest, plan, desired }, wired);
}

/** Shows the plan, and asks where `--yes` does not answer already; records what is approved. */
function approveOf(run: Run, content: SourceContent): Approve {
  const { settings, terminal } = run.invocation;
  const revision = (run.request.back === undefined ? readRevision(terminal.env) : null) ?? content.revision;
  const approve: Approve = async (plan, desired, digest) => {
    const known = knownProblems(run, desired, plan);
    if (isInvalid(known, settings) || staleness(run, { plan, digest, desired }).length > 0) return false;
    const window = explainWindow(settings, plan);
    const noted = window?.code === 'window-overridden' ? [window] : [];
    run.obstacle = findObstacle(run.invocation, window);
    const asks = run.obstacle === null && !settings.yes && run.answered === null;
    await nameAll(run, plan, desired);
    const problems = [...noted, ...known.toSorted(compareProblems)];
    run.screen.showPlan({ ...describePlan(run, { plan, desired, digest }, problems), revision }, asks);
    if (asks && (await askToApply(run.invocation, plan))) run.answered = { plan: digest.plan, desired };
    const isApproved = !asks && run.obstacle === null;
    // Who applies outside a window says why: in the report, in the log, and in the journal where there is one.
    if (isApproved && noted.length > 0 && settings.overrideWindow !== null) {
      const { logger, journal } = run.wired.pass;
      logger.warn('No window is open, and that was overridden', { reason: settings.overrideWindow });
      await journal?.write({ event: 'window-overridden', reason: settings.overrideWindow });
    }
    if (isApproved) run.screen.onApply();
    return isApproved;
  };
  const reason = settings.overrideWindow?.trim().slice(0, 200);
  const by = describeUser(terminal) + (reason ? escapeControls(` (--override-window ${reason})`) : '');
  return run.history.recordApproved(approve, { by, server: findServer(settings), revision });
}

/** Looks names up that the plan's display needs; once, since a plan is shown before an apply and after it. */
async function nameAll(run: Run, plan: Plan, desired: Desired | null): Promise<void> {
  const { path, back } = run.request;
  const { pass } = run.wired;
  const former = new Map<string, FormerRule>(run.lastApply?.rules);
  // What is taken back has its names from its own record.
  for (const [key, { name }] of back?.record.said ?? [])
    if (name !== null && !former.has(key)) former.set(key, { name, place: null });
  const lastApply = back || run.lastApply ? former : null;
  const { userNames } = nameAcross(null, desired?.state ?? null);
  run.names ??= await lookUpNames(run.invocation, { path, pass, plan, userNames, lastApply });
}

/** What is known to be wrong before anything is written. */
function knownProblems({ base }: Run, desired: Desired | null, plan: Plan | null): readonly Problem[] {
  return [...(base?.problems ?? []), ...(desired?.problems ?? []), ...(plan?.problems ?? [])];
}

/** What is known of a plan, before it is applied and after. */
function describePlan(run: Run, { plan, desired, digest }: Planned, problems: readonly Problem[]): RunReport {
  const { names, lastApply, request, invocation, base } = run;
  const { settings } = invocation;
  const state = desired?.state ?? null;
  const isFirst = lastApply === null && request.back === undefined && settings.base === null;
  // Addresses that only the server knows stay on the terminal unless they are asked for.
  const called = nameAcross(base?.state ?? null, state);
  const fromServer = settings.showEmails ? (names?.serverNames ?? []) : [];
  return {
    ...makeProblemReport([...announce(plan, request.back, isFirst), ...problems]),
    ...names,
    ...called,
    userNames: mergeNames(fromServer, called.userNames),
    ...(request.back ? { planned: request.written } : { root: request.written }),
    server: findServer(settings),
    plan,
    digest: digest?.plan ?? null,
    desired: state,
    approved: (plan?.refusals.length ?? 0) > 0,
    base: settings.base,
  };
}

const approvesAnother = makeNote(
  'approves-another',
  '--approve is for a different plan',
  'the server or the manifests changed after that plan was made: review the new plan and approve its digest',
);

function reportOf(result: PassResult, run: Run, stale: readonly Problem[]): RunReport {
  const { invocation, request, base, obstacle, wired } = run;
  const { settings } = invocation;
  const failure = result.failure === null ? [] : [wired.explain(result.failure)];
  const other = result.end === 'refused' && result.digest && settings.approve.length > 0 ? [approvesAnother] : [];
  const problems = [
    ...applyStrict(base?.problems ?? [], settings),
    // What the kernel lacks keeps no apply from writing, so that only a plan is strict about it.
    ...(request.planOnly
      ? applyStrict(result.problems, settings)
      : applyStrictToPass(result, settings).map(markLeftOut)),
    ...[...failure, ...stale, ...other],
    ...[obstacle ?? explainWindow(settings, result.plan)].filter((one) => one !== null),
  ];
  return {
    ...describePlan(run, result, problems),
    ...(result.end === 'refused' ? { approved: false } : {}),
    revision: readRevision(invocation.terminal.env) ?? result.content?.revision ?? null,
    apply: result.apply,
    snapshot: wired.snapshot,
    ...(result.kernel === undefined ? {} : { kernel: result.kernel }),
  };
}

/** What a plan warns of is what an apply did not do. */
function markLeftOut(problem: Problem): Problem {
  return problem.code === 'unsent-field' ? { ...problem, severity: 'error' } : problem;
}

/** The exit code of a pass, the same in every output mode. */
function exitCode(result: PassResult, run: Run, stale: boolean): number {
  const { request, obstacle } = run;
  const { settings } = run.invocation;
  const { end, apply, desired, plan, kernel } = result;
  const looksAtKernel = settings.enforcement !== null && ['applied', 'in-sync', 'planned'].includes(end);
  const unenforced = looksAtKernel && kernel?.report.state !== 'enforced';
  const unsent = plan !== null && holdsBack(plan);
  return chooseExitCode({
    invalid:
      end === 'invalid' ||
      isInvalid(knownProblems(run, desired, plan), settings) ||
      (settings.strict && request.planOnly && unenforced),
    refused: end === 'refused' || stale || obstacle?.code === 'suspended' || obstacle?.code === 'outside-window',
    wrote: apply?.wrote ?? false,
    missing: (apply !== null && apply.end !== 'converged') || ((unsent || unenforced) && !request.planOnly),
    failed: end === 'unreadable' || end === 'declined',
    pending: end === 'planned' || unsent || unenforced,
    detailed: settings.detailedExitcode,
  });
}
