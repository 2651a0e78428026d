import { escapeControls } from '../model/printable.ts';
import { type Forge, findForge } from '../report/forge.ts';
import { makeFailure } from './command.ts';

/** `RECONCILE_REVISION`, as `COMMIT (BRANCH)`; null without it. With it the command runs no git: the CI job asked before. */
export function readRevision(env: Readonly<Record<string, string | undefined>>): string | null {
  const given = escapeControls(env['RECONCILE_REVISION'] ?? '').trim();
  return given === '' ? null : given.slice(0, 300);
}

/** Throws a `Failure` where no git may be run; `instead`: what the user can do. */
export function requireGit(env: Parameters<typeof readRevision>[0], summary: string, instead: string): void {
  if (readRevision(env) === null) return;
  throw makeFailure('usage', summary, `where RECONCILE_REVISION is set no git is run: ${instead}`);
}

/** The repository of a GitHub or GitLab job, whose URL may hold a token, which stays out; null for PATHs (`written`) not below its root. */
export function readForge(env: Readonly<Record<string, string | undefined>>, written: string | null): Forge | null {
  const { GITHUB_SERVER_URL, GITHUB_REPOSITORY, CI_REPOSITORY_URL } = env;
  const remote = GITHUB_REPOSITORY === undefined ? CI_REPOSITORY_URL : `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`;
  return remote === undefined || written === null || written.startsWith('/') ? null : findForge(remote, written);
}
