import { findOwnFolder } from '../../adapters/state-folder.ts';
import type { Lease } from '../../controller/lease.ts';
import type { LoopPassRequest } from '../../controller/loop.ts';
import { listReferencedFiles } from '../../desired/parse-files.ts';
import type { FingerprintKey } from '../../model/secret.ts';
import type { DesiredState } from '../../model/state.ts';
import type { PassDependencies, PassResult } from '../../pass/pass.ts';
import { endPass, readDesired } from '../../pass/stages.ts';
import type { Journal, LiveApi, Logger, SourceContent, SourceFile } from '../../ports.ts';
import { reconcile } from '../../reconcile.ts';
import { findServer } from '../approval.ts';
import type { Invocation } from '../command.ts';
import { Failure } from '../failure.ts';
import { createHistoryWriter } from '../history.ts';
import { readPlanOptions } from '../plan-settings.ts';
import type { Settings } from '../settings.ts';
import { wireEnforcement, wireShared } from '../wire.ts';

/** What the controller's passes share. */
export interface PassWiring {
  readonly invocation: Invocation;
  readonly api: LiveApi;
  readonly fingerprintKey: () => FingerprintKey;
  readonly journal: Journal;
  readonly logger: Logger;
  readonly lease: Lease;
  /** The directory of the manifests; null when they come from Git. */
  readonly root: string | null;
  /** Rules whose gap an earlier process left open. */
  readonly openGaps: ReadonlySet<string>;
}

/** Runs passes for the loop, all through `reconcile`, as `--plan` and apply do. */
export interface WatchPasses {
  run(request: LoopPassRequest): Promise<PassResult>;
  /** The state that content asked for; null when it cannot be known. */
  build(content: SourceContent, at: number | null): Promise<DesiredState | null>;
  /** Other files that these manifests name, by path from the root. */
  references(manifests: readonly SourceFile[]): Promise<readonly string[]>;
}

/** Builds the runner, which remembers parsed files; throws a `Failure` when the settings cannot work. */
export function createWatchPasses(wiring: PassWiring): WatchPasses {
  const { invocation, api, journal, logger, root } = wiring;
  const { settings } = invocation;
  readPlanOptions(settings, null);
  const shared = { ...wireShared(invocation, root), api, logger, journal, ...watchedEnforcement(settings) };
  let openGaps = wiring.openGaps;
  return {
    async run({ content, approve, sentSecrets, ...request }) {
      let key: FingerprintKey;
      try {
        key = wiring.fingerprintKey();
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        return endPass('unreadable', { content, failure: { code: 'token', status: null, message: error.message } });
      }
      const options = readPlanOptions(settings, key);
      const pass: PassDependencies = {
        ...shared,
        ...request,
        part: request.part ?? 'managed',
        options: { ...options, secretBindings: [...options.secretBindings, ...sentSecrets] },
        strict: settings.strict,
        baseApplied: true,
        memory: { ...request.memory, openGaps },
      };
      const history = createHistoryWriter(settings.stateDir === null ? null : findOwnFolder(settings.stateDir), logger);
      const origin = { by: 'sidecar', server: findServer(settings), revision: content.revision };
      const result = await reconcile(content, pass, approve === null ? null : history.recordApproved(approve, origin));
      await history.end(result);
      if (result.end === 'in-sync' || result.apply?.end === 'converged') openGaps = new Set();
      return result;
    },
    async references(manifests) {
      return listReferencedFiles(await shared.parse(manifests));
    },
    async build(content, at) {
      const once = {
        ...shared,
        ...(at === null ? {} : { at }),
        limits: { ...shared.limits, attempts: 1 },
        stop: invocation.terminal.stop,
      };
      const built = await readDesired(content, once);
      return built.ok ? built.value.desired.state : null;
    },
  };
}

/** The kernel follows 1,000 rules in about ten seconds; a pass that wrote waits so long to see it, any other not at all. */
const followMs = 15_000;

function watchedEnforcement(settings: Settings): Pick<PassDependencies, 'enforcement'> {
  const { enforcement } = wireEnforcement(settings);
  if (enforcement === undefined) return {};
  return {
    enforcement: { ...enforcement, waitMs: enforcement.waitMs ?? followMs, waitInSync: false, learnt: { slowness: 1 } },
  };
}
