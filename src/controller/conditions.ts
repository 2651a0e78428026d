/** What a condition is about. `Ready`: the live state is what the applied revision asks for. `Enforced`: the kernel holds it. */
export type ConditionType = 'Ready' | 'Reconciling' | 'Stalled' | 'Enforced';

/** Why a condition has its status. Stable: alerts name them, and a test compares this list with docs/reference/sidecar.md. */
export const conditionReasons = [
  'Starting', // no pass has ended yet
  'InSync', // the live state is the applied revision
  'Applied', // the last pass wrote, and a new read found nothing to do
  'Progressing', // a pass is running
  'Idle', // waiting for the next trigger
  'Retrying', // a failure that may pass by itself; backing off
  'Standby', // another replica holds the lease
  'RecordFailed', // the record beside the lease, or in the state folder, cannot be written, so nothing is applied
  'Suspended', // asked not to write, and there is something to write
  'ClockDiffers', // our clock and the server's differ, so that no rule begins or ends
  'Waiting', // the newest revision waits for its turn among other servers; the last good one stays in force
  'OutsideWindow', // the plan opens traffic or changes the Configuration, and no window is open
  'AwaitingConfirmation', // the newest revision is applied, and `confirmWith` has not confirmed it yet
  'NotConfirmed', // the newest revision was not confirmed in time, and is taken back
  'Settling', // the content is new and not yet stable
  'SourceFailed', // the source cannot be read; the last good revision stays in force
  'ManifestsInvalid', // the newest revision has errors; the last good revision stays in force
  'RewindRefused', // the newest revision does not descend from the applied one
  'SignatureRefused', // the newest commit is not signed as required
  'Refused', // a guard refused the plan
  'ApiUnreachable', // no usable answer from the API
  'Unauthorized', // the API does not accept the token
  'ApplyFailed', // some of the plan was not carried out
  'SecretMissing', // all but a field of the Configuration is in effect, which needs a secret that is not available here
  'NotConverging', // writes are accepted and the live state does not follow
  'DriftReported', // the live state was changed by others, and drift is only reported
  'Fighting', // another writer undoes what is written here; corrections are damped
  'Stopped', // the process is ending
  'BadSettings', // the settings cannot be used
  'Progress', // nothing stands in the way
  'Enforced', // the kernel's packet filter holds the live rules and nothing else
  'NotEnforced', // the kernel lacks rules, or holds what no live rule asks for
  'KernelUnreadable', // the kernel's packet filter cannot be read
] as const;

export type ConditionReason = (typeof conditionReasons)[number];

/** One condition. `since` is the time (ms since 1970) of the last change of `status`. */
export interface Condition {
  readonly type: ConditionType;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: ConditionReason;
  readonly message: string;
  readonly since: number;
}

/** The conditions of one loop; always the first three, and `Enforced` once somebody looked at the kernel. */
export type Conditions = Readonly<Record<Exclude<ConditionType, 'Enforced'>, Condition>> & {
  readonly Enforced?: Condition;
};

/** Where a loop starts: nothing is known yet. */
export function createConditions(wallTime: number): Conditions {
  const unknown = { status: 'Unknown', reason: 'Starting', message: 'no pass has ended yet', since: wallTime } as const;
  const condition = (type: ConditionType): Condition => ({ type, ...unknown });
  return { Ready: condition('Ready'), Reconciling: condition('Reconciling'), Stalled: condition('Stalled') };
}

export type ConditionUpdate = Omit<Condition, 'since'>;

/** The conditions with some replaced; the time of one moves only when its status changes. */
export function setConditions(before: Conditions, updates: readonly ConditionUpdate[], wallTime: number): Conditions {
  const changed = updates.map((update) => {
    const { status, since } = before[update.type] ?? { since: wallTime };
    return [update.type, { ...update, since: status === update.status ? since : wallTime }] as const;
  });
  return { ...before, ...Object.fromEntries(changed) };
}

/** A revision as people read it: without its kind, at most 12 characters. */
export function shortenRevision(revision: string): string {
  return revision.replace(/^sha256:/, '').slice(0, 12);
}
