import { defaultLimits, type Limits } from '../desired/context.ts';
import type { SecretBinding } from '../model/configuration.ts';
import { findProfile, type Profile } from '../model/profile.ts';
import { omitUndefined } from '../model/result.ts';
import type { FingerprintKey } from '../model/secret.ts';
import { type RequiredNote, readScope, type Scope, wholeScope } from '../model/state.ts';
import type { Window } from '../plan/guard/windows.ts';
import type { DeleteLimit, PlanOptions } from '../plan/input.ts';
import { type Invocation, makeFailure, type Settings } from './command.ts';
import { options } from './options.ts';

export function readProfile(settings: Settings): Profile {
  return findProfile(settings.profile, settings.ruleUpdates ?? undefined);
}

/** What reading manifests may cost. */
export function readLimits(settings: Settings): Limits {
  return { ...defaultLimits, ...omitUndefined(settings.file?.nested.limits ?? {}) };
}

/** The planning options of settings whose texts fit the shapes of the table of options. */
export function readPlanOptions(settings: Settings, fingerprintKey: FingerprintKey | null): PlanOptions {
  const { allowEmpty, allowLockout, prune, replaceModified, maxExposure, failOn } = settings;
  const { protect = [], secrets } = settings.file?.nested ?? {};
  return {
    ...{ allowEmpty, allowLockout, prune, replaceModified, maxExposure, failOn, protect, fingerprintKey },
    maxDeletes: readLimit(settings.maxDeletes),
    maxChanges: readLimit(settings.maxChanges),
    secretBindings: [...(secrets?.bind ?? []), ...settings.bindSecret.map(readBinding)],
  };
}

/** Keeps of `failOn` what a command without `--base` can tell; throws a `Failure` where the flag itself says more. */
export function keepKnownWords({ settings, ...given }: Invocation, command: string, seesKernel: boolean): Invocation {
  const failOn = settings.failOn.filter((word) => word !== 'drift' && (word !== 'not-enforced' || seesKernel));
  const isLess = failOn.length < settings.failOn.length && settings.origins.get('failOn') === '--fail-on';
  if (!isLess) return { ...given, settings: { ...settings, failOn } };
  throw makeFailure('usage', `${command} has no --fail-on drift, not-enforced`, 'it knows opens, closes and any');
}

export function readWindows(settings: Settings | null): readonly Window[] {
  return settings?.file?.nested.windows ?? [];
}

/** The part of the server that this repository is responsible for. */
export function readPlanScope(settings: Settings): Scope {
  return readScope(settings.file?.nested.scope ?? {});
}

/** The scope as one text, which is the same for the same scope; empty for the whole server. */
export function describeScope(settings: Settings): string {
  const { users, networks, ...parts } = readPlanScope(settings);
  const lists = { users: users && [...users].map(String).sort(), networks: networks?.map(({ text }) => text).sort() };
  const text = JSON.stringify({ ...parts, ...lists });
  return text === JSON.stringify(wholeScope) ? '' : text;
}

/** The notes that rules must have. */
export function readRequiredNotes(settings: Settings): readonly RequiredNote[] {
  return (settings.file?.nested.require ?? []).map((item) => {
    const { note, ...part } = typeof item === 'string' ? { note: item } : item;
    return { note, scope: readScope(part) };
  });
}

function readLimit(text: string): DeleteLimit {
  const number = Number.parseFloat(text);
  return text.includes('%') ? { share: number / 100 } : { count: number };
}

function readBinding(text: string): SecretBinding {
  const [, name = '', provider = '', host = ''] = options.bindSecret.shape[0].exec(text) ?? [];
  return { name, provider, host };
}
