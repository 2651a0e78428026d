import type { Outcome } from '../apply/outcome.ts';
import { makeRequest, type Plan } from '../plan/plan.ts';
import type { Logger } from '../ports.ts';
import type { PassView } from './status.ts';

const levels = { good: 'info', held: 'warn', transient: 'error', terminal: 'error' } as const;

/** The one line of each pass. */
export function logPass(logger: Logger, view: PassView): void {
  const { revision, failedRevision, result, reason, message, triggers, durationMs, steps, outcomes } = view;
  const failed = failedRevision === undefined ? {} : { failedRevision };
  const fields = { revision, ...failed, result, reason, detail: message, triggers, durationMs, steps, ...outcomes };
  logger[levels[result]]('The pass ended', fields);
}

/** Before a first pass writes: rules that nothing here knows may be somebody's only copy. */
export function logUnknownRules(logger: Logger, plan: Plan): void {
  const unknown = plan.changes.filter(({ action, reason }) => action === 'delete' && reason === 'not-desired');
  if (unknown.length === 0) return;
  logger.warn('Live rules that are in no manifest are deleted now', {
    rules: unknown.length,
    hint: 'to keep such rules, write them as manifests first: reconcile export --out DIR',
  });
}

const shown = 50;

/** One line for each object that is put back, with who changed it as far as that is known. */
export function logDrift(logger: Logger, plan: Plan): void {
  const corrected = plan.changes.filter(({ action }) => action !== 'keep' && action !== 'skip');
  for (const { kind, name, id, action, origin = 'drift', fields } of corrected.slice(0, shown)) {
    logger.warn('Drift is corrected', { kind, object: name ?? id ?? '', action, origin, fields: Object.keys(fields) });
  }
}

/** One line for each rule that began or ended, or each step of a plan of such alone. */
export function logTimes(logger: Logger, turned: readonly Readonly<Record<string, string>>[]): void {
  for (const fields of turned.slice(0, shown)) logger.info('A rule began or ended by its time', fields);
}

/** One line for each step that was not carried out, with the server's words. */
export function logFailures(logger: Logger, left: readonly Outcome[]): void {
  const failed = left.filter((one) => one.outcome !== 'dropped');
  for (const { step, outcome, status, message } of failed.slice(0, shown)) {
    logger.error('A step failed', { ...makeRequest(step), outcome, status: status ?? 'none', detail: message ?? '' });
  }
}

/** A mistake of this program. Neither its message nor its value: they may hold anything. Name and frames are ours. */
export function logInternalError(logger: Logger, error: unknown): void {
  const isError = error instanceof Error;
  const lines = isError ? (error.stack ?? '').split('\n') : [];
  logger.error('An internal error ended the pass', {
    error: isError ? error.name : typeof error,
    frames: lines.flatMap((line) => (/^\s+at /.test(line) ? [line.trim()] : [])).slice(0, 6),
  });
}
