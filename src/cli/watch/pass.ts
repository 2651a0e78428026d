import { systemClock } from '../../adapters/clock.ts';
import { readUsers } from '../../apply/read.ts';
import type { Lease } from '../../controller/lease.ts';
import type { PassRequest } from '../../controller/loop.ts';
import { buildDesired, listReferencedFiles } from '../../desired/desired.ts';
import type { FingerprintKey } from '../../model/secret.ts';
import type { DesiredState } from '../../model/state.ts';
import type { PassDependencies, PassResult } from '../../pass.ts';
import { ended } from '../../pass-stages.ts';
import type { Journal, LiveApi, Logger, SourceContent, SourceFile } from '../../ports.ts';
import { reconcile } from '../../reconcile.ts';
import type { Invocation } from '../command.ts';
import { Failure } from '../failure.ts';
import { desiredContextOf, isInvalid, strictly } from '../manifests.ts';
import { planOptionsOf } from '../plan-settings.ts';
import type { Settings } from '../settings.ts';
import { applyLimitsOf, passEnforcementOf } from '../wire.ts';

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
export interface PassRunner {
  run(request: PassRequest): Promise<PassResult>;
  /** The state that content asked for; null when it cannot be known. */
  build(content: SourceContent): Promise<DesiredState | null>;
  /** Other files that these manifests name, by path from the root. */
  references(manifests: readonly SourceFile[]): Promise<readonly string[]>;
}

/**
 * Builds the runner; throws a `Failure` when the settings cannot work. The parse cache lives in it, so that unchanged files are
 * not parsed again.
 */
export function passRunner(wiring: PassWiring): PassRunner {
  const { invocation, api, journal, logger, root } = wiring;
  const { settings } = invocation;
  planOptionsOf(settings, null);
  watchedEnforcement(settings);
  const desired = desiredContextOf(invocation, root);
  let openGaps = wiring.openGaps;
  return {
    async run(request) {
      const source = { content: request.content, problems: [] };
      await desired.parseAhead?.(request.content.files, { ...desired, usersByEmail: null });
      let key: FingerprintKey;
      try {
        key = wiring.fingerprintKey();
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        return ended('unreadable', { source, failure: { code: 'token', status: null, message: error.message } });
      }
      if (settings.strict) {
        const offline = buildDesired(request.content.files, { ...desired, usersByEmail: null });
        if (isInvalid(offline.problems, settings)) {
          return ended('invalid', {
            source,
            desired: { ...offline, state: null, problems: strictly(offline.problems, settings) },
          });
        }
      }
      const result = await reconcile(
        {
          source: { description: '', read: () => Promise.resolve(source) },
          api,
          clock: systemClock,
          logger,
          journal,
          desired,
          base: request.base,
          baseApplied: true,
          options: planOptionsOf(settings, key),
          approvals: settings.approve,
          limits: applyLimitsOf(settings),
          memory: { ...request.memory, openGaps },
          stop: request.stop,
          onOutcome: request.onOutcome,
          part: request.part ?? 'managed',
          ...watchedEnforcement(settings),
        },
        request.approve,
      );
      if (result.end === 'in-sync' || result.apply?.end === 'converged') openGaps = new Set();
      return result;
    },
    async references(manifests) {
      const offline = { ...desired, usersByEmail: null };
      await desired.parseAhead?.(manifests, offline);
      return listReferencedFiles(manifests, offline);
    },
    async build(content) {
      const offline = buildDesired(content.files, { ...desired, usersByEmail: null });
      if (offline.emails.length === 0) return offline.state;
      // A base whose users stand as addresses would match no live rule.
      const users = await readUsers({ api, clock: systemClock, logger, attempts: 1, signal: invocation.terminal.stop });
      if (!users.ok) return null;
      const usersByEmail = new Map(users.value.map(({ email, id }) => [email, id]));
      return buildDesired(content.files, { ...desired, usersByEmail }).state;
    },
  };
}

/** The kernel follows 1,000 rules in about ten seconds; a pass that wrote waits so long to see it, any other not at all. */
const followMs = 15_000;

function watchedEnforcement(settings: Settings): Pick<PassDependencies, 'enforcement'> {
  const { enforcement } = passEnforcementOf(settings);
  if (enforcement === undefined) return {};
  return { enforcement: { ...enforcement, waitMs: enforcement.waitMs ?? followMs, waitInSync: false } };
}
