import { systemClock } from '../../adapters/clock.ts';
import { defaultApplyLimits } from '../../apply/context.ts';
import type { ReadFailure } from '../../apply/read.ts';
import type { LoopPassRequest } from '../../controller/loop.ts';
import type { SecretBinding } from '../../model/configuration.ts';
import { fail, ok, type Result } from '../../model/result.ts';
import type { GoingBack } from '../../pass/go-back.ts';
import type { PassDependencies } from '../../pass/pass.ts';
import type { PlanOptions } from '../../plan/input.ts';
import type { LiveApi, Logger, SourceContent } from '../../ports.ts';
import type { Invocation } from '../command.ts';
import { findStateBefore } from '../go-back.ts';
import { resolveKnown, wireShared } from '../wire.ts';
import { type RecentApplies, sidecarNames } from './recent-applies.ts';

/** Where a pass looks for what it takes back. */
export interface BackWiring {
  readonly invocation: Invocation;
  readonly api: LiveApi;
  readonly logger: Logger;
  readonly recent: RecentApplies;
  /** The directory of the manifests; null when they come from Git. */
  readonly root: string | null;
}

/** A pass over a content, and how it differs from any other where it takes something back. */
interface PreparedPass {
  readonly content: SourceContent;
  readonly own: Partial<Pick<PassDependencies, 'parse' | 'desired' | 'strict'>>;
  readonly options: Partial<Pick<PlanOptions, 'goesBack' | 'prune'>>;
  readonly bindings: readonly SecretBinding[];
  /** What the history calls who made it. */
  readonly by: string;
}

/** Makes of a request the pass that it asks for. */
export async function preparePass(
  wiring: BackWiring,
  { content, back, stop }: Pick<LoopPassRequest, 'content' | 'back' | 'stop'>,
): Promise<Result<PreparedPass, ReadFailure>> {
  if (back === undefined) return ok({ content, own: {}, options: {}, bindings: [], by: sidecarNames.apply });
  const common = { options: { goesBack: true }, bindings: [], by: sidecarNames.back } as const;
  if (back === 'confirmed') return ok({ ...common, content, own: liftDemands(wiring, null) });
  const found = await readBefore(wiring, content.revision, stop);
  if (!found.ok) return found;
  const { files, back: way } = found.value;
  const { deletable: prune, bindings } = way;
  const own = liftDemands(wiring, way);
  return ok({ ...common, content: { ...content, files }, own, options: { goesBack: true, prune }, bindings });
}

/** What takes back all that this revision changed. */
async function readBefore({ recent, invocation, api, logger }: BackWiring, revision: string, signal: AbortSignal) {
  const record = await recent.join(revision);
  const message = `what ${revision} changed is not recorded here`;
  if (record === null) return fail({ code: 'no-record', status: null, message });
  const context = { api, logger, clock: systemClock, attempts: defaultApplyLimits.attempts, signal };
  const found = await findStateBefore(invocation.settings, context, record, { withoutSecrets: true });
  const { waiting = [], stays = [] } = found.ok ? found.value.back : {};
  for (const field of waiting)
    logger.error('A field is not taken back: its former secret is not known here', { field });
  for (const { summary } of stays.slice(0, 50)) logger.warn('Something is not taken back', { detail: summary });
  return found;
}

/** Manifests that were in force before, or that were made from a record, are taken as they are. */
function liftDemands({ invocation, root }: BackWiring, way: GoingBack | null): PreparedPass['own'] {
  const { settings } = invocation;
  const plain = way === null ? settings : { ...settings, overlay: null, values: [] };
  const { parse, desired } = wireShared({ ...invocation, settings: plain }, root);
  const { maxExpiryMs: _, ...rest } = desired;
  const resolveSecret = resolveKnown(way?.secrets, desired.resolveSecret);
  return { parse, strict: false, desired: { ...rest, require: [], resolveSecret } };
}
