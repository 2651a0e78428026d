import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { systemClock } from '../adapters/clock.ts';
import { StateFiles } from '../adapters/state-files.ts';
import { findOwnFolder } from '../adapters/state-folder.ts';
import type { SecretBinding } from '../model/configuration.ts';
import { getErrorCode, isObject } from '../model/result.ts';
import { formatRuleKey } from '../model/rule.ts';
import { describeRule } from '../pass/history.ts';
import type { PassResult } from '../pass/pass.ts';
import { listSentReferences } from '../plan/guard/guard-secrets.ts';
import type { Logger } from '../ports.ts';
import type { FormerRule } from '../report/run-report.ts';
import { findServer } from './approval.ts';
import { type Invocation, isJob } from './command.ts';

/** What the last one-shot apply to a server put into effect. */
export interface LastApply {
  /** When, ms since 1970. */
  readonly at: number;
  /** What its rules were called, by `formatRuleKey`. */
  readonly rules: ReadonlyMap<string, FormerRule>;
  /** Where it sent secrets. */
  readonly secrets: readonly SecretBinding[];
}

const formatVersion = 1;
/** Where one-shot runs keep their record: `oneshot` beside a sidecar's own files. */
const recordFile = 'record.json';

/** The folder with the state of this server: ours in `--state-dir`, else one of the user's; null: none, as in CI. */
export function findStateFolder({ settings, terminal: { env } }: Invocation): string | null {
  const server = findServer(settings);
  if (settings.stateDir !== null) return findOwnFolder(settings.stateDir);
  if (server === null) return null;
  const home = env['HOME'] ?? '';
  const states = env['XDG_STATE_HOME'] || (home === '' ? '' : join(home, '.local', 'state'));
  if (states === '' || isJob(env)) return null;
  const hash = createHash('sha256').update(server).digest('hex').slice(0, 12);
  return join(states, 'firezone-reconcile', `${new URL(server).hostname}-${hash}`);
}

/** Reads the record; null without one for this server. One that cannot be read counts as absent: nothing is decided by it. */
export async function readLastApply(invocation: Invocation): Promise<LastApply | null> {
  const folder = findStateFolder(invocation);
  // What it says of secrets counts: it must not be another user's.
  const value = folder === null ? null : await new StateFiles(folder, 'oneshot').readOwn(recordFile);
  if (!isObject(value) || value['version'] !== formatVersion) return null;
  if (value['server'] !== findServer(invocation.settings) || !Array.isArray(value['rules'])) return null;
  const { secrets = [] } = value;
  const bindings = Array.isArray(secrets) ? secrets.flatMap(decodeBinding) : [];
  const at = Date.parse(String(value['applied_at']));
  return Number.isNaN(at) ? null : { at, rules: new Map(value['rules'].flatMap(decodeFormerRule)), secrets: bindings };
}

function decodeFormerRule(value: unknown): readonly (readonly [string, FormerRule])[] {
  if (!isObject(value)) return [];
  const { key, name, file, line, expires } = value;
  if (typeof key !== 'string' || typeof name !== 'string') return [];
  const place = typeof file === 'string' && typeof line === 'number' && line > 0 ? { file, line } : null;
  return [[key, { name, place, ...(typeof expires === 'number' ? { expires } : {}) }]];
}

function decodeBinding(value: unknown): readonly SecretBinding[] {
  if (!isObject(value)) return [];
  const { name, provider, host } = value;
  const texts = typeof name === 'string' && typeof provider === 'string' && typeof host === 'string';
  return texts ? [{ name, provider, host }] : [];
}

/** Records what a pass left in effect, for the next plan, in one step that readers see whole. Warns where that cannot be done. */
export async function recordApply(invocation: Invocation, pass: PassResult, former: LastApply | null, logger: Logger) {
  const { end, apply, content, desired, plan } = pass;
  const inEffect = end === 'in-sync' || (end === 'applied' && apply?.end === 'converged');
  const state = desired?.state ?? null;
  const folder = findStateFolder(invocation);
  if (!inEffect || state === null || content === null || folder === null) return;
  const record = {
    version: formatVersion,
    server: findServer(invocation.settings),
    revision: content.revision,
    applied_at: new Date(systemClock.wallTime()).toISOString(),
    rules: state.rules.map(({ rule, place: { file, line }, ...one }) => {
      return { key: formatRuleKey(rule), ...describeRule(one), file, line };
    }),
    secrets: listSentReferences(state, plan, former?.secrets ?? []),
  };
  const files = new StateFiles(folder, 'oneshot');
  await files.write(recordFile, record).catch((error: unknown) => {
    const where = `${files.locate(recordFile)} (${getErrorCode(error)})`;
    logger.warn(`what was applied cannot be recorded in ${where}: the next plan cannot name deleted rules`);
  });
}
