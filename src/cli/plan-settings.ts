import { defaultLimits, type Limits } from '../desired/context.ts';
import type { SecretBinding } from '../model/configuration.ts';
import { countMs } from '../model/instant.ts';
import type { Problem } from '../model/problem.ts';
import { findProfile, type Profile } from '../model/profile.ts';
import type { FingerprintKey } from '../model/secret.ts';
import type { RequiredNote, Scope } from '../model/state.ts';
import { readScope } from '../model/written-scope.ts';
import type { Window } from '../plan/guard/windows.ts';
import type { DeleteLimit, PlanOptions } from '../plan/input.ts';
import { Failure, makeFailure, type Settings } from './command.ts';
import { options as optionTable } from './options.ts';

export function readProfile(settings: Settings): Profile {
  return findProfile(settings.profile, settings.ruleUpdates ?? undefined);
}

/** What reading manifests may cost. */
export function readLimits(settings: Settings): Limits {
  const given = Object.entries(settings.file?.nested.limits ?? {}).filter(([, value]) => value !== undefined);
  return { ...defaultLimits, ...Object.fromEntries(given) };
}

/** The planning options; throws a `Failure` that names every setting with a wrong value. */
export function readPlanOptions(settings: Settings, fingerprintKey: FingerprintKey | null): PlanOptions {
  const problems: Problem[] = [];
  const options: PlanOptions = {
    maxDeletes: deleteLimitOf(settings.maxDeletes, '--max-deletes', problems),
    maxChanges: deleteLimitOf(settings.maxChanges, '--max-changes', problems),
    allowEmpty: settings.allowEmpty,
    allowLockout: settings.allowLockout,
    prune: settings.prune,
    replaceModified: settings.replaceModified,
    maxExposure: settings.maxExposure,
    failOn: failOnOf(settings.failOn, problems),
    protect: settings.file?.nested.protect ?? [],
    secretBindings: [
      ...(settings.file?.nested.secrets?.bind ?? []),
      ...settings.bindSecret.flatMap((text) => bindingOf(text, problems)),
    ],
    fingerprintKey,
  };
  for (const digest of settings.approve) {
    if (!/^[0-9a-f]{32}$/.test(digest))
      problems.push(wrong('--approve', digest, 'the digest of a plan: 32 digits 0-9 and a-f, as the plan shows it'));
  }
  if (problems.length > 0) throw new Failure(problems);
  return options;
}

export function readWindows(settings: Settings | null): readonly Window[] {
  return settings?.file?.nested.windows ?? [];
}

/** The part of the server that this repository is responsible for. */
export function readPlanScope(settings: Settings): Scope {
  const { scope, problems } = readScope(settings.file?.nested.scope ?? {});
  if (problems.length > 0) throw new Failure(problems);
  return scope;
}

/** The notes that rules must have. */
export function readRequiredNotes(settings: Settings): readonly RequiredNote[] {
  return (settings.file?.nested.require ?? []).map((item) => {
    const { note, ...part } = typeof item === 'string' ? { note: item } : item;
    const { scope, problems } = readScope(part);
    if (problems.length > 0)
      throw new Failure(problems.map((found) => ({ ...found, summary: `require: ${found.summary}` })));
    return { note, scope };
  });
}

function deleteLimitOf(text: string, flag: string, problems: Problem[]): DeleteLimit {
  const match = /^([0-9]{1,9}(?:\.[0-9]+)?)(%?)$/.exec(text.trim());
  const number = Number(match?.[1]);
  const isShare = match?.[2] === '%';
  if (match !== null && isShare && number <= 100) return { share: number / 100 };
  if (match !== null && !isShare && Number.isInteger(number)) return { count: number };
  problems.push(wrong(flag, text, 'a number of rules (12) or a share of the live rules (30%)'));
  return { count: 0 };
}

function bindingOf(text: string, problems: Problem[]): readonly SecretBinding[] {
  const [, name, provider, host] = /^(.+)=([^=@]+)@([^=@]+)$/.exec(text) ?? [];
  if (name !== undefined && provider !== undefined && host !== undefined) return [{ name, provider, host }];
  problems.push(wrong('--bind-secret', text, 'NAME=PROVIDER@HOST, such as OIDC_SECRET=google@accounts.google.com'));
  return [];
}

const failOnWords: readonly string[] = optionTable.failOn.words satisfies PlanOptions['failOn'];

function failOnOf(words: readonly string[], problems: Problem[]): PlanOptions['failOn'] {
  return words.filter((word): word is PlanOptions['failOn'][number] => {
    if (!failOnWords.includes(word)) problems.push(wrong('--fail-on', word, `one of ${failOnWords.join(', ')}`));
    return failOnWords.includes(word);
  });
}

function wrong(name: string, value: string, expected: string): Problem {
  return { code: 'bad-setting', severity: 'error', summary: `${name} must be ${expected}, not "${value}"` };
}

/** How far ahead, ms: `--within`. */
export function parseWithin(text: string): number {
  if (/^\d{1,5}[hdw]$/.test(text)) return countMs(text);
  throw makeFailure('bad-setting', `--within ${text} is not a time`, 'write hours, days or weeks: 12h, 30d, 4w');
}
