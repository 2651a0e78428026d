import { type ApiClient, createApiClient } from '../adapters/api/client.ts';
import { systemClock } from '../adapters/clock.ts';
import { nftEnforcement } from '../adapters/enforcement/nft.ts';
import { type FileJournal, openJournal } from '../adapters/journal.ts';
import { directorySource } from '../adapters/source/directory.ts';
import { type ApplyLimits, defaultApplyLimits } from '../apply/context.ts';
import { findOpenGaps } from '../apply/open-gaps.ts';
import { getErrorCode } from '../model/result.ts';
import type { FingerprintKey } from '../model/secret.ts';
import type { DesiredState } from '../model/state.ts';
import { emptyMemory, type PassDependencies } from '../pass.ts';
import type { Source } from '../ports.ts';
import type { Invocation } from './command.ts';
import { failure } from './failure.ts';
import { loggerOf } from './logger.ts';
import { desiredContextOf } from './manifests.ts';
import { limitsOf, planOptionsOf } from './plan-settings.ts';
import type { Settings } from './settings.ts';
import { type TokenSource, tokenSource } from './token.ts';

/** The one place where adapters are built: what a pass needs, and how to let go of it. */
export interface Wired {
  readonly pass: PassDependencies;
  readonly api: ApiClient;
  readonly token: TokenSource;
  readonly close: () => Promise<void>;
}

/** The API client of these settings; throws a `Failure` for a missing or wrong base URL, token or CA file. */
export function wireApi({ settings, terminal }: Invocation): { readonly api: ApiClient; readonly token: TokenSource } {
  const { baseUrl, caFile } = settings;
  if (baseUrl === null) {
    throw failure(
      'no-base-url',
      'there is no base URL',
      'give --base-url https://vpn.example.com, RECONCILE_BASE_URL, or baseUrl in the settings file; `reconcile validate` needs none',
    );
  }
  const token = tokenSource(settings, terminal.env);
  token.read(); // a token that cannot be read is said before anything else
  const client = createApiClient({
    baseUrl,
    token: token.read,
    allowHttp: settings.allowHttp,
    requestTimeoutMs: settings.timeout,
    connections: settings.concurrency + 2,
    ...(caFile === null ? {} : { caFile }),
  });
  if (!client.ok) throw failure('bad-setting', client.error);
  return { api: client.value, token };
}

/** Wires one pass over a directory of manifests. */
export async function wirePass(invocation: Invocation, path: string): Promise<Wired> {
  return wirePassOver(invocation, directorySource(path, limitsOf(invocation.settings)), { root: path, base: null });
}

/** Wires one pass over any source. `root` is the directory of the manifests, where there is one. */
export async function wirePassOver(
  invocation: Invocation,
  source: Source,
  { root, base }: { readonly root: string | null; readonly base: DesiredState | null },
): Promise<Wired> {
  const { settings, terminal } = invocation;
  const { api, token } = wireApi(invocation);
  const opened = settings.journal === null ? null : await openJournalAt(settings.journal);
  const pass: PassDependencies = {
    source,
    api,
    clock: systemClock,
    logger: await loggerOf(invocation),
    journal: opened?.journal ?? null,
    desired: desiredContextOf(invocation, root),
    base,
    options: planOptionsOf(settings, fingerprintKeyOf(token)),
    approvals: settings.approve,
    limits: applyLimitsOf(settings),
    memory: { ...emptyMemory, openGaps: opened?.openGaps ?? emptyMemory.openGaps },
    stop: terminal.stop,
    ...passEnforcementOf(settings),
  };
  const close = async (): Promise<void> => {
    await Promise.all([api.close(), opened?.journal.close()]);
  };
  return { pass, api, token, close };
}

function fingerprintKeyOf(token: TokenSource): FingerprintKey {
  return token.fingerprintKey();
}

/** A repair without a time to wait for it waits this long. */
const repairWaitMs = 60_000;

/** How a pass under these settings looks at the kernel: not where it reads no rules to compare with. */
export function passEnforcementOf(settings: Settings): Pick<PassDependencies, 'enforcement'> {
  const found = enforcementOf(settings);
  if (found.enforcement === undefined || settings.file?.nested.scope?.rules !== false) return found;
  const hint = 'leave it out, or have the repository of the rules compare them';
  throw failure('usage', '--enforcement nft compares rules, which are outside `scope` in the settings', hint);
}

/** How these settings look at the kernel; throws a `Failure` for flags that go without `--enforcement`. */
export function enforcementOf(settings: Settings): Pick<PassDependencies, 'enforcement'> {
  const { enforcement, netns, waitEnforced, repair, profile, timeout } = settings;
  if (enforcement === null) {
    if (netns === null && waitEnforced === null && !repair) return {};
    throw failure('usage', '--netns, --wait-enforced and --repair look at the kernel', 'add --enforcement nft');
  }
  if (profile !== 'firezone-0.7') {
    throw failure(
      'usage',
      '--enforcement nft knows the table of profile firezone-0.7 only',
      'leave it out, or --profile',
    );
  }
  const waitMs = waitEnforced ?? (repair ? repairWaitMs : null);
  return { enforcement: { kernel: nftEnforcement({ netns, timeoutMs: timeout }), repair, waitMs } };
}

/** Limits of an apply under these settings. */
export function applyLimitsOf(settings: Settings): ApplyLimits {
  return {
    ...defaultApplyLimits,
    concurrency: settings.concurrency,
    pace: settings.pace,
    requestTimeoutMs: settings.timeout,
    totalTimeoutMs: settings.totalTimeout,
  };
}

interface OpenedJournal {
  readonly journal: FileJournal;
  /** What a run that was killed still owed. */
  readonly openGaps: ReadonlySet<string>;
}

/** Opens the journal and reads from it what an earlier run left open. */
export async function openJournalAt(path: string): Promise<OpenedJournal> {
  try {
    const journal = await openJournal(path, systemClock.wallTime);
    return { journal, openGaps: findOpenGaps(journal.earlier) };
  } catch (error) {
    const hint = 'check --journal and --state-dir';
    throw failure('journal', `the journal ${path} cannot be opened (${getErrorCode(error)})`, hint);
  }
}
