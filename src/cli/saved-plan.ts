import { timingSafeEqual } from 'node:crypto';
import { systemClock } from '../adapters/clock.ts';
import type { Desired } from '../desired/context.ts';
import { formatInstant } from '../model/instant.ts';
import { formatCount, joinSome } from '../model/printable.ts';
import { makeError, type Problem } from '../model/problem.ts';
import { decodeJsonObject, isObject } from '../model/result.ts';
import { listAllRules, listBoundaries } from '../model/state.ts';
import type { PassDependencies, PassResult } from '../pass/pass.ts';
import type { PlanDigest } from '../plan/digest.ts';
import type { Plan } from '../plan/plan.ts';
import { formatVersion, makeDocument } from '../report/json.ts';
import { makeProblemReport, type RunReport } from '../report/run-report.ts';
import { makeFailure } from './command.ts';
import { readNamedFile, writeNamedFile } from './read-file.ts';

/** What a saved plan pins down. The plan itself is in the file too; the digest decides, the changes only say what moved. */
export interface SavedPlan {
  readonly digest: PlanDigest;
  /** When it was saved, ms since 1970. */
  readonly savedAt: number;
  /** The server that it was made for, and what was sealed; null for one made without a token, against a snapshot. */
  readonly sealed: { readonly server: unknown; readonly text: string; readonly seal: string } | null;
  /** What it would have changed, each in one text that is the same for the same change; and for people. */
  readonly changes: ReadonlyMap<string, string>;
  /** The rest of what a reviewer read in it, as one text. */
  readonly reviewed: string;
}

/** Where and with which token a plan is saved or applied. */
export interface PlanOrigin {
  readonly server: string | null;
  /** Null without a token: against a snapshot. */
  readonly seal: ((text: string) => string) | null;
}

const largest = 200_000_000;

/** Writes a plan for `reconcile apply FILE`: its digest, its JSON document and a seal over both; no secret is in any. */
export function savePlan(file: string, digest: PlanDigest, report: RunReport, { server, seal }: PlanOrigin): void {
  const origin = seal === null ? {} : { server };
  const savedAt = new Date(systemClock.wallTime()).toISOString();
  const head = { format_version: formatVersion, kind: 'saved-plan', saved_at: savedAt, ...origin };
  const saved = { ...head, digest, plan: makeDocument(report) };
  const sealed = seal === null ? saved : { ...saved, seal: seal(JSON.stringify(saved)) };
  const text = `${JSON.stringify(sealed, null, 2)}\n`;
  if (Buffer.byteLength(text) > largest) {
    const summary = `the plan is too large to be saved: \`reconcile apply FILE\` reads ${formatCount(largest)} bytes at most`;
    throw makeFailure('output', summary, 'apply it without a file: reconcile apply PATH');
  }
  writeNamedFile(file, text, '--save');
}

/** Reads a saved plan; throws a `Failure` when the file is none. */
export function readSavedPlan(file: string): SavedPlan {
  const hint = 'name the file that --save wrote, and then PATH';
  const text = readNamedFile({ path: file, code: 'saved-plan', name: file, largest, hint }).toString();
  const { seal, ...saved } = decodeJsonObject(text) ?? {};
  const { kind, format_version: version, digest, server } = saved;
  if (kind !== 'saved-plan')
    throw makeFailure('saved-plan', `${file} is not a saved plan`, 'make one with: reconcile plan PATH --save FILE');
  if (version !== formatVersion)
    throw makeFailure('saved-plan', `${file} was made by another version of reconcile`, 'plan and save again');
  if (!isDigest(digest) || typeof saved['saved_at'] !== 'string')
    throw makeFailure('saved-plan', `${file} is damaged`, 'plan and save again');
  const plan = isObject(saved['plan']) ? saved['plan'] : {};
  const sealed = typeof seal === 'string' ? { server, text: JSON.stringify(saved), seal } : null;
  const savedAt = Date.parse(saved['saved_at']);
  return { digest, savedAt, sealed, changes: changesOf(plan['changes']), reviewed: reviewedIn(plan) };
}

/** What a reviewer reads in the document of a plan beside its changes, whose origin depends on `--base`. */
function reviewedIn({ summary, steps, effect, exposure }: Readonly<Record<string, unknown>>): string {
  return JSON.stringify([summary, steps, effect, exposure]);
}

/** The changes of a plan, or of its JSON document, that would write. */
function changesOf(changes: unknown): ReadonlyMap<string, string> {
  const written: readonly unknown[] = Array.isArray(changes) ? changes : [];
  return new Map(
    written.filter(isObject).flatMap(({ kind, name, id, action, fields }) => {
      if (action === 'keep' || action === 'skip') return [];
      const label = `${action} ${name ?? id ?? kind}`;
      return [[`${kind} ${label} ${JSON.stringify(fields)}`, label] as const];
    }),
  );
}

const again = 'plan again, review it, and apply that';

const stale = (summary: string, hint: string): Problem => makeError('stale-plan', summary, hint);

export function movedMeanwhile(desired: Desired | null, askedFor?: number): Problem {
  const what = describeTurned(desired, askedFor) || 'the server or the manifests changed';
  return stale(`${what} while the question stood`, again);
}

/** `NAME ended at TIME, …`: the rules that began or ended since; empty for none. */
function describeTurned(desired: Desired | null, since = Number.POSITIVE_INFINITY): string {
  const turned = desired?.state ? listBoundaries({ rules: listAllRules(desired.state) }, since, desired.state.at) : [];
  const words = { begins: 'began', ends: 'ended' } as const;
  const texts = turned.map(({ rule, what, at }) => `\`${rule.name}\` ${words[what]} at ${formatInstant(at)}`);
  return joinSome(texts, 5);
}

/** Why a saved plan cannot be trusted with this server and token; null when it can. `approved`: a person named its digest. */
function distrust({ sealed, digest: saved }: SavedPlan, now: PlanDigest, origin: PlanOrigin, approved: boolean) {
  if (sealed === null) {
    if (approved) return null;
    const summary = 'the saved plan has no seal: it was saved against a snapshot, or edited';
    const hint = `review it, then add --approve ${now.plan}; a plan that is saved with a token needs no such flag`;
    return stale(summary, hint);
  }
  if (saved.key !== now.key)
    return stale('the API token is another one than when the plan was saved: the two cannot be compared', again);
  if (sealed.server !== origin.server) {
    const summary = `the saved plan was made for ${String(sealed.server)}, and this is ${origin.server}`;
    return stale(summary, 'check --base-url, or plan again for this server');
  }
  const seal = Buffer.from(origin.seal?.(sealed.text) ?? '');
  const given = Buffer.from(sealed.seal);
  if (seal.length === given.length && timingSafeEqual(seal, given)) return null;
  return stale('the saved plan is not as it was saved: its seal does not fit', again);
}

/** Why the saved plan must not be applied now; empty when it agrees with the plan made just now. */
export function compareWithSaved(
  savedPlan: SavedPlan,
  { digest: now, plan, desired }: Pick<PassResult, 'desired'> & { readonly digest: PlanDigest; readonly plan: Plan },
  { origin, pass }: { readonly origin: PlanOrigin; readonly pass: Pick<PassDependencies, 'approvals'> },
): readonly Problem[] {
  const { digest: saved, savedAt, changes, reviewed } = savedPlan;
  const turned = describeTurned(desired, savedAt);
  const manifests = turned === '' ? 'the manifests' : `the manifests, or what they ask for now (${turned})`;
  const parts = { manifests, live: 'the live state of the server', steps: 'the steps' };
  const moved = (['manifests', 'live', 'steps'] as const).flatMap((part) =>
    saved[part] === now[part] ? [] : parts[part],
  );
  const problem = distrust(savedPlan, now, origin, pass.approvals?.includes(now.plan) === true);
  if (problem !== null) return [problem];
  if (saved.unknownSecrets || now.unknownSecrets) {
    const when = saved.unknownSecrets ? 'when the plan was saved' : 'here';
    const summary = `a managed secret was not available ${when}: the saved plan cannot be tied to what would be written`;
    return [stale(summary, 'make the secret available both where the plan is saved and where it is applied')];
  }
  if (moved.length === 0) {
    const isWhole =
      saved.plan === now.plan && reviewed === reviewedIn(makeDocument({ ...makeProblemReport([]), plan }));
    if (isWhole && difference(changes, plan) === '') return [];
    return [stale('the saved plan is not as it was saved: what is written in it is not the plan of its digest', again)];
  }
  const done = 'nothing is left to do: it was applied already, or somebody else did the same';
  const summary = `the saved plan is stale; changed since: ${moved.join(', ')}${difference(changes, plan)}`;
  return [stale(summary, plan.steps.length === 0 && turned === '' ? done : again)];
}

/** `; not in it: …; no longer needed: …`, each shortened. */
function difference(saved: ReadonlyMap<string, string>, plan: Plan): string {
  const now = changesOf(plan.changes);
  const list = (words: string, from: typeof saved, other: typeof saved): string => {
    const labels = [...from].flatMap(([key, label]) => (other.has(key) ? [] : label));
    return labels.length === 0 ? '' : `; ${words}: ${joinSome(labels, 5)}`;
  };
  return list('not in it', now, saved) + list('in it, and not needed now', saved, now);
}

function isDigest(value: unknown): value is PlanDigest {
  if (!isObject(value)) return false;
  const { key, unknownSecrets } = value;
  const texts = ['plan', 'live', 'manifests', 'steps'].every((name) => typeof value[name] === 'string');
  return texts && (key === null || typeof key === 'string') && typeof unknownSecrets === 'boolean';
}
