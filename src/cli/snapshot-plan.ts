import { systemClock } from '../adapters/clock.ts';
import { decodeSnapshot, hashEmail, type Snapshot } from '../live/snapshot.ts';
import { compareProblems } from '../model/problem.ts';
import type { LiveState, Scope } from '../model/state.ts';
import { digestPlan } from '../plan/digest.ts';
import { makePlan } from '../plan/make-plan.ts';
import { holdsBack } from '../plan/plan.ts';
import { documentOf } from '../report/json.ts';
import { reportOfProblems } from '../report/run-report.ts';
import { loadBase } from './base.ts';
import type { Answer, Invocation } from './command.ts';
import { exitCodeOf } from './exit-code.ts';
import { failure } from './failure.ts';
import { isInvalid, strictly } from './manifests.ts';
import { buildOffline, type OfflineBuild } from './offline.ts';
import { planOptionsOf, profileOf, scopeOf } from './plan-settings.ts';
import { readNamedFile } from './read-file.ts';
import { savePlan } from './saved-plan.ts';
import { screenOf } from './screen.ts';

const largest = 200_000_000;

/** `reconcile --plan PATH --live FILE`: plans against a snapshot; no request, no token, no secret. */
export async function planAgainstSnapshot(
  invocation: Invocation,
  { written, path }: { readonly written: string; readonly path: string },
  file: string,
): Promise<Answer> {
  const { settings } = invocation;
  const screen = screenOf(invocation);
  const snapshot = readSnapshot(file);
  const desired = await buildWithUsers(invocation, path, snapshot);
  const base = await loadBase(invocation, path, (emails) => Promise.resolve(resolveEmails(emails, snapshot)));
  const ageMs = systemClock.wallTime() - Date.parse(snapshot.takenAt);
  const problems = [...(base?.problems ?? []), ...desired.problems];
  if (desired.state === null) {
    const report = { ...reportOfProblems(strictly(problems, settings)), root: written };
    return screen.answerWith(report, exitCodeOf({ invalid: true }));
  }
  const scope = scopeOf(settings);
  const live = asRead(snapshot.live, scope);
  const plan = makePlan({
    desired: desired.state,
    live,
    base: base?.state ?? null,
    profile: profileOf(settings),
    scope,
    options: planOptionsOf(settings, null),
  });
  const digest = digestPlan(plan, { desired: desired.state, live, key: null });
  const approved = settings.approve.includes(digest.plan);
  const report = {
    ...reportOfProblems([...strictly([...problems, ...plan.problems], settings)].sort(compareProblems)),
    root: written,
    revision: desired.content.revision,
    plan,
    digest: digest.plan,
    approved: approved && plan.refusals.length > 0,
    userNames: desired.state.userNames,
    snapshot: { takenAt: snapshot.takenAt, ageMs },
    base: settings.base,
  };
  if (settings.save !== null)
    savePlan(settings.save, digest, documentOf(report), new Date(systemClock.wallTime()).toISOString());
  const exit = exitCodeOf({
    invalid: isInvalid([...problems, ...plan.problems], settings),
    refused: plan.refusals.length > 0 && !approved,
    pending: plan.steps.length > 0 || holdsBack(plan),
    detailed: settings.detailedExitcode,
  });
  return screen.answerWith(report, exit);
}

/** What a run with this scope would have read: else the digest would be that of no plan against the server. */
function asRead(live: LiveState, scope: Scope): LiveState {
  return { rules: scope.rules ? live.rules : [], configuration: scope.configuration ? live.configuration : null };
}

async function buildWithUsers(invocation: Invocation, path: string, snapshot: Snapshot): Promise<OfflineBuild> {
  const offline = await buildOffline(invocation, path);
  if (offline.emails.length === 0) return offline;
  return buildOffline(invocation, path, resolveEmails(offline.emails, snapshot));
}

function resolveEmails(emails: readonly string[], snapshot: Snapshot): ReadonlyMap<string, string> {
  return new Map(
    emails.flatMap((email) => {
      const id = snapshot.users.get(hashEmail(email));
      return id === undefined ? [] : [[email, id] as const];
    }),
  );
}

/** Reads a snapshot file; throws a `Failure` that says how to make one. */
function readSnapshot(file: string): Snapshot {
  const hint = 'make one where the token is: reconcile snapshot --out FILE';
  let value: unknown;
  try {
    const bytes = readNamedFile({ path: file, code: 'snapshot', name: `the snapshot ${file}`, largest, hint });
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) throw failure('snapshot', `the snapshot ${file} is not JSON`, hint);
    throw error;
  }
  const decoded = decodeSnapshot(value);
  if (!decoded.ok) throw failure('snapshot', `the snapshot ${file} cannot be used: ${decoded.error}`, hint);
  return decoded.value;
}
