import { escapeControls } from '../model/printable.ts';

/**
 * What `RECONCILE_REVISION` says is being planned, as `COMMIT (BRANCH)`; null without it. Where it is set, the command runs no
 * git: a CI job asks git in a step of its own that holds no token.
 */
export function readRevision(env: Readonly<Record<string, string | undefined>>): string | null {
  const given = escapeControls(env['RECONCILE_REVISION'] ?? '').trim();
  return given === '' ? null : given.slice(0, 300);
}
