import { setImmediate } from 'node:timers/promises';
import { systemClock } from '../../adapters/clock.ts';
import { StateFiles } from '../../adapters/state-files.ts';
import type { ReadFailure } from '../../apply/read.ts';
import type { LoopPassRequest } from '../../controller/loop-parts.ts';
import type { LoopRecord } from '../../controller/record.ts';
import { listReferencedFiles } from '../../desired/build-configuration.ts';
import { assemble } from '../../desired/desired.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import { formatRuleKey, type LiveRule, listKeys, selectRulesAt } from '../../model/rule.ts';
import type { FingerprintKey } from '../../model/secret.ts';
import { type DesiredState, listAllRules } from '../../model/state.ts';
import { type ApplyRecord, joinApplyRecords, type LookUpFormer, listEnds } from '../../pass/history.ts';
import type { PassDependencies, PassMemory, PassResult } from '../../pass/pass.ts';
import { endPass, listBaseEnds, readDesired } from '../../pass/stages.ts';
import { indexBase } from '../../plan/origin.ts';
import type { Journal, SourceContent, SourceFile } from '../../ports.ts';
import { reconcile } from '../../reconcile.ts';
import { findServer } from '../approval.ts';
import { findCommandProblem } from '../await-confirmation.ts';
import { Failure, type Invocation, makeFailure } from '../command.ts';
import { liftDemands, notTakenBack } from '../go-back.ts';
import { createHistoryWriter, loadNewest, walkHistory } from '../history.ts';
import { makeDesiredContext } from '../manifests.ts';
import { readPlanOptions } from '../plan-settings.ts';
import { wireEnforcement, wireShared } from '../wire.ts';

/** Who made an apply, in the history: the sidecar, or the sidecar as it takes back what nobody confirmed. */
export const sidecarNames = {
  ...{ apply: 'sidecar', back: 'sidecar, going back' },
  /** What it corrects, begins and ends while a revision waits to be confirmed: mostly no change of that revision. */
  held: 'sidecar, while it waited',
} as const;

/**
 * The applies of the newest revision, and of those that it passed over: with their secrets, those of this process. `stateFolder`: where
 * the history lies; null: there is none.
 */
export function createRecentApplies(stateFolder: string | null) {
  const files = stateFolder === null ? null : new StateFiles(stateFolder, 'history');
  let mine: readonly ApplyRecord[] = [];
  return {
    stateFolder,
    /** Takes the record of an apply, which begins or has ended. `recent`: the revisions whose records matter still. */
    async note(record: ApplyRecord, recent: readonly (string | null)[]) {
      const change = changeOf(record);
      if (change !== null)
        mine = [...mine.filter(({ at, revision }) => at !== record.at && recent.includes(revision)), change];
      return []; // nothing keeps it from being written
    },
    /** The newest record of this server, which knows the rules that end; of `known`, only where nobody applied since by that. */
    async loadNewest(server: string | null, known: LoopRecord | null): Promise<ApplyRecord | null> {
      const newest = files === null ? mine.at(-1) : await loadNewest(files).catch(() => null);
      if (!newest || newest.server !== server) return null;
      if (known === null) return newest;
      const { inForceRevision, confirmedRevision, givenUp, agreedAt } = known;
      const isBack = newest.by === sidecarNames.back && inForceRevision === confirmedRevision;
      const revisions = [inForceRevision, ...(isBack ? givenUp.slice(-1) : [])];
      if (!(isBack || changeOf(newest) !== null) || !revisions.includes(newest.revision)) return null;
      // Ends that came before all rules were sorted again have happened: what is live since is another rule with that content.
      const over = agreedAt !== null && agreedAt > Date.parse(newest.at) ? agreedAt : 0;
      return { ...newest, said: new Map([...newest.said].filter(([, { expires = over + 1 }]) => expires > over)) };
    },
    /** What this revision and those that it passed over changed together; null: nothing is recorded of it. */
    async join(revision: string, passedOver: readonly string[] = []): Promise<ApplyRecord | null> {
      const joined: readonly (string | null)[] = [revision, ...passedOver];
      const applies: ApplyRecord[] = [];
      for await (const one of files === null ? [] : walkHistory(files)) {
        if (one.by === sidecarNames.back) continue;
        const change = joined.includes(one.revision) ? changeOf(one) : null;
        if (change === null) break;
        applies.unshift(change);
      }
      const own = mine.filter((one) => joined.includes(one.revision));
      const all = [...applies.filter(({ at }) => !own.some((one) => one.at === at)), ...own];
      return all.at(-1)?.revision === revision ? joinApplyRecords(all) : null;
    },
  };
}

/** What a sidecar's apply of a revision changed; null: it is no such apply. */
function changeOf(record: ApplyRecord): ApplyRecord | null {
  // What others made while the revision waited, and the sidecar took away, was not there before; what ended then was.
  const hasEnd = ({ rule }: LiveRule): boolean => record.said.get(formatRuleKey(rule))?.expires !== undefined;
  if (record.by === sidecarNames.held) return { ...record, deleted: record.deleted.filter(hasEnd) };
  return record.by === sidecarNames.apply ? record : null;
}

/** What the controller's passes share. */
export interface PassWiring extends Pick<PassDependencies, 'api' | 'logger'>, Pick<PassMemory, 'openGaps'> {
  readonly invocation: Invocation;
  readonly recent: ReturnType<typeof createRecentApplies>;
  /** The directory of the manifests; null when they come from Git. */
  readonly root: string | null;
  readonly fingerprintKey: () => FingerprintKey;
  readonly journal: Journal;
}

/** Runs passes for the loop, all through `reconcile`, as `--plan` and apply do. */
export type WatchPasses = ReturnType<typeof createWatchPasses>;

/** Builds the runner, which remembers parsed files; throws a `Failure` when the settings cannot work. */
export function createWatchPasses(wiring: PassWiring) {
  const { invocation, api, journal, logger, root, recent } = wiring;
  const { settings } = invocation;
  checkConfirmWith(invocation, root);
  const shared = { ...wireWatch(invocation, root), api, logger, journal };
  let { openGaps } = wiring;
  const isNews = createNewsCheck();
  return {
    async run(request: LoopPassRequest): Promise<PassResult> {
      const { approve, content, back, base, record, serverWasDown } = request;
      const prepared = await prepareBack(wiring, request);
      if (!prepared.ok) return endPass('unreadable', { content, failure: prepared.error });
      let key: FingerprintKey;
      try {
        key = wiring.fingerprintKey();
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        return endPass('unreadable', { content, failure: { code: 'token', status: null, message: error.message } });
      }
      const options = readPlanOptions(settings, key);
      const secretBindings = [...options.secretBindings, ...record.sentSecrets];
      const pass: PassDependencies = {
        ...shared,
        ...request,
        strict: settings.strict,
        ...prepared.value,
        part: request.part ?? 'managed',
        options: { ...options, ...(back && { goesBack: true as const }), secretBindings },
        baseApplied: true,
        isApplied: content.revision === record.appliedRevision,
        pendingUntil: record.pendingUntil,
        ...(record.agreedAt === null ? {} : { agreedAt: record.agreedAt }),
        memory: { knownRules: record.knownRules, serverWasDown, openGaps },
      };
      const lookUp: LookUpFormer = (rule) => indexBase(base)?.find(rule);
      const note = (one: ApplyRecord) => recent.note(one, [one.revision, record.pendingRevision, ...record.passedOver]);
      const history = createHistoryWriter(recent.stateFolder, logger, note, lookUp, prepared.value.takesBack);
      const maker = { by: nameMaker(request), server: findServer(settings), revision: content.revision };
      const told = history.recordApproved(approve, maker);
      const result = await reconcile(content, { ...pass, onReplan: history.onReplan }, told);
      if (isNews(result, request)) await history.end(result);
      const stays = back === undefined ? [] : result.problems.filter(({ code }) => notTakenBack.has(code));
      for (const { summary } of stays.slice(0, 50)) logger.warn('Something is not taken back', { detail: summary });
      if (result.end === 'in-sync' || result.apply?.end === 'converged') openGaps = new Set();
      return result;
    },
    /** Other files that these manifests name, by path from the root. */
    references: async (manifests: readonly SourceFile[]) => listReferencedFiles(await shared.parse(manifests)),
    prepare: (content: SourceContent): Promise<void> => parseEarly(content, shared),
    /** The state that content asked for; null when it cannot be known. */
    async build(content: SourceContent, at: number | null): Promise<DesiredState | null> {
      const { stop } = invocation.terminal;
      const desired = makeDesiredContext({ ...invocation, settings: liftDemands(settings) }, root);
      const once = { ...shared, desired, stop, part: 'ends', ...(at === null ? {} : { at }) } as const;
      const built = await readDesired(content, once);
      const isListed = built.ok && (built.value.users !== null || built.value.desired.emails.length === 0);
      return isListed ? built.value.desired.state : null;
    },
  };
}

/** Who makes it; an end that comes while a revision is taken back must not hide that one in the history. */
function nameMaker({ back, isHeld, content, record }: LoopPassRequest): string {
  const { pendingRevision: pending, givenUp, inForceRevision } = record;
  // A newer revision may come though that one cannot be taken back.
  const isEnd = pending === givenUp.at(-1) && [pending, inForceRevision].includes(content.revision);
  return sidecarNames[back || isEnd ? 'back' : isHeld ? 'held' : 'apply'];
}

/** Tells whether a pass may find other ends: not where an earlier one under these settings found the same revision in force. */
function createNewsCheck() {
  let isNoted = false;
  return ({ end }: PassResult, { content, record, part }: LoopPassRequest): boolean => {
    const isKnown = end === 'in-sync' && content.revision === record.appliedRevision;
    const wasNoted = isNoted;
    isNoted ||= isKnown && part === undefined;
    return !isKnown || !wasNoted;
  };
}

/** Parses content before a pass does; see `LoopParts`. */
async function parseEarly({ files }: SourceContent, { parse, desired }: Pick<PassDependencies, 'parse' | 'desired'>) {
  await setImmediate(); // the loop begins to wait first
  const assembling = parse(files).then((parsed) => assemble(parsed, null, { ...desired, now: systemClock.wallTime() }));
  await assembling.catch(() => undefined); // the pass meets it too, and says it
}

/** The newest record that counts for a pass, and when rules end by it; without one the base of the pass tells. */
async function lookUpEnds({ invocation, recent }: PassWiring, { base, content, record, back }: LoopPassRequest) {
  const { inForceRevision, appliedRevision, isPartly } = record;
  // In no base is what is in force and not applied (it waits, or the server took it in part), and whose address has changed.
  const isWhole = base !== null && !listAllRules(base).some(({ rule }) => rule.userId?.includes('@'));
  const isRead = content.files.length > 0 || back !== undefined;
  if (isRead && isWhole && !isPartly && inForceRevision === appliedRevision) return { newest: null, applied: {} };
  // Beside a lease, another replica may have applied since.
  const known = invocation.settings.lease === 'none' ? null : record;
  const newest = await recent.loadNewest(findServer(invocation.settings), known);
  // A base is the applied revision under these settings; another replica has the history.
  if (newest === null) return { newest, applied: { isInForce: base !== null && content.revision === inForceRevision } };
  return { newest, applied: { appliedRules: new Map([...listBaseEnds(base), ...listEnds(newest)]) } };
}

/** How a pass differs where it takes something back, or ends rules: manifests of before, and a state made from a record, are taken as they are. */
async function prepareBack(
  wiring: PassWiring,
  request: LoopPassRequest,
): Promise<Result<Partial<PassDependencies>, ReadFailure>> {
  const { invocation, root, recent } = wiring;
  const { back, part } = request;
  const { revision, files } = request.content;
  const { newest, applied } = await lookUpEnds(wiring, request);
  if (back === undefined && part !== 'ends' && part !== 'revocations') return ok(applied);
  const desired = makeDesiredContext({ ...invocation, settings: liftDemands(invocation.settings) }, root);
  const own = { ...applied, desired, strict: false };
  // What is gone is known by the history alone.
  if (back === undefined && files.length === 0 && newest !== null) {
    const ended = { ...newest, said: listEnds(newest), created: [], deleted: [], fields: [] };
    return ok({ ...own, takesBack: { record: ended, endsAsSaid: true } });
  }
  if (back === undefined || back === 'confirmed') return ok(own);
  const record = await recent.join(revision, request.record.passedOver);
  const message = `what ${revision} changed is not recorded here`;
  if (record === null) return fail({ code: 'no-record', status: null, message });
  const isRest = back === 'rest';
  return ok({ ...own, takesBack: { record: isRest ? leaveDesired(record, request) : record, goesBack: true, isRest } });
}

/**
 * The record without what the confirmed revision asks for too, now: that stays, whoever wrote it, and ends as that says. What it asked for
 * once, with other values or for users of before, does not come back.
 */
function leaveDesired(record: ApplyRecord, { base, asked }: LoopPassRequest): ApplyRecord {
  const confirmed = asked ?? base;
  if (confirmed === null) return record;
  const now = systemClock.wallTime();
  const listAsked = (state: DesiredState) => listKeys(selectRulesAt(listAllRules(state), now));
  const desired = listAsked(confirmed);
  const former = new Set([...listAsked(base ?? confirmed)].filter((key) => !desired.has(key)));
  const created = record.created.filter(({ rule }) => !desired.has(formatRuleKey(rule)));
  const deleted = record.deleted.filter(({ rule }) => !former.has(formatRuleKey(rule)));
  const fields = record.fields.filter((field) => confirmed.configuration?.fields[field] === undefined);
  const endsBefore = record.endsBefore && new Map([...record.endsBefore, ...listBaseEnds(confirmed, now)]);
  return { ...record, created, deleted, fields, endsBefore };
}

/** What is to be confirmed must be known after a restart too, and so must what is put back without it. */
function checkConfirmWith({ settings, terminal }: Invocation, root: string | null): void {
  const { confirmWith } = settings.file?.nested ?? {};
  if (confirmWith === undefined) return;
  const problem = findCommandProblem(confirmWith.command, terminal);
  if (problem !== null) throw makeFailure('bad-setting', `confirmWith: ${problem}`, 'there is no shell');
  if (settings.stateDir !== null || (root === null && settings.lease !== 'none')) return;
  const what = root === null ? 'which revision is confirmed' : 'what a directory held before';
  const summary = `confirmWith needs --state-dir: without it, nobody knows after a restart ${what}`;
  throw makeFailure('bad-setting', summary, 'give --state-dir DIR, on a disk that survives a restart');
}

/** The kernel follows 1,000 rules in about ten seconds; a pass that wrote waits so long to see it, any other not at all. */
const followMs = 15_000;

function wireWatch(invocation: Invocation, root: string | null) {
  const { enforcement } = wireEnforcement(invocation.settings);
  const shared = wireShared(invocation, root, { measure: 'together' });
  if (enforcement === undefined) return shared;
  const waits = { waitMs: enforcement.waitMs ?? followMs, waitInSync: false, learnt: { slowness: 1 } };
  return { ...shared, enforcement: { ...enforcement, ...waits } };
}
