import { escapeControls } from '../model/printable.ts';

/** `RECONCILE_REVISION`, as `COMMIT (BRANCH)`; null without it. With it the command runs no git: the CI job asked before. */
export function readRevision(env: Readonly<Record<string, string | undefined>>): string | null {
  const given = escapeControls(env['RECONCILE_REVISION'] ?? '').trim();
  return given === '' ? null : given.slice(0, 300);
}
