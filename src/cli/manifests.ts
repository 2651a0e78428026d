import { resolve } from 'node:path';
import { createParseAhead, manifestWorker } from '../adapters/parse-ahead.ts';
import { createSecretResolver } from '../adapters/secrets.ts';
import type { DesiredContext } from '../desired/context.ts';
import { createManifestCache } from '../desired/desired.ts';
import { hasErrors, type Problem } from '../model/problem.ts';
import type { PassResult } from '../pass.ts';
import type { Invocation } from './command.ts';
import { ownFiles } from './own-files.ts';
import { limitsOf, profileOf, scopeOf } from './plan-settings.ts';
import type { Settings } from './settings.ts';
import { valuesOf } from './values.ts';

/** How manifests are read under these settings. `root`: where they are files; null when they come from Git. */
export function desiredContextOf(
  { settings, terminal }: Invocation,
  root: string | null,
): Omit<DesiredContext, 'usersByEmail'> {
  const secrets = settings.file?.nested.secrets;
  return {
    profile: profileOf(settings),
    scope: scopeOf(settings),
    limits: limitsOf(settings),
    values: valuesOf(settings),
    overlay: settings.overlay,
    cache: createManifestCache(),
    parseAhead: createParseAhead(manifestWorker(), settings.watch ? 'together' : 'alone'),
    resolveSecret: createSecretResolver({
      environment: terminal.env,
      envNames: secrets?.env ?? [],
      root,
      dirs: (secrets?.dirs ?? []).map((dir) => (settings.file === null ? dir : resolve(settings.file.folder, dir))),
      forbiddenFiles: ownFiles(settings),
    }),
  };
}

/** Problems as `--strict` counts them: warnings are errors then. */
export function strictly(problems: readonly Problem[], settings: Settings): readonly Problem[] {
  if (!settings.strict) return problems;
  return problems.map((problem) => (problem.severity === 'warning' ? { ...problem, severity: 'error' } : problem));
}

/** Problems of a pass with what was known before anything was written as `--strict` counts it; what came of writing is as it is. */
export function strictlyKnown({ problems, desired, plan }: PassResult, settings: Settings): readonly Problem[] {
  const known = new Set([...(desired?.problems ?? []), ...(plan?.problems ?? [])]);
  return problems.flatMap((problem) => (known.has(problem) ? strictly([problem], settings) : [problem]));
}

/** Whether the manifests are invalid, as `--strict` counts. */
export function isInvalid(problems: readonly Problem[], settings: Settings): boolean {
  return hasErrors(strictly(problems, settings));
}
