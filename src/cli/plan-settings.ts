import { defaultLimits, type Limits } from '../desired/context.ts';
import type { SecretBinding } from '../model/configuration.ts';
import { findProfile, type Profile } from '../model/profile.ts';
import { omitUndefined } from '../model/result.ts';
import type { FingerprintKey } from '../model/secret.ts';
import { type RequiredNote, readScope, type Scope } from '../model/state.ts';
import type { Window } from '../plan/guard/windows.ts';
import type { DeleteLimit, PlanOptions } from '../plan/input.ts';
import type { Settings } from './command.ts';
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

export function readWindows(settings: Settings | null): readonly Window[] {
  return settings?.file?.nested.windows ?? [];
}

/** The part of the server that this repository is responsible for. */
export function readPlanScope(settings: Settings): Scope {
  return readScope(settings.file?.nested.scope ?? {});
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
