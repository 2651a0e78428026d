import type { ConditionReason } from '../controller/conditions.ts';
import type { Status } from '../controller/status.ts';
import type { Problem } from '../model/problem.ts';
import type { Boundary } from '../model/state.ts';
import type { listNextWindows } from '../plan/guard/windows.ts';
import { formatRule } from '../policy/words.ts';
import type { NamedRule } from './explain.ts';
import { type Forge, linkCommit } from './forge.ts';
import { formatVersion, makeProblemDocument } from './json.ts';
import type { RunReport } from './run-report.ts';

/** All that the page of a sidecar and its JSON documents show: the status, and what the last passes saw. */
export interface SidecarState {
  readonly status: Status;
  readonly now: number;
  /** The plan at hand, or the one that is being written; null: there is nothing to change. */
  readonly plan: RunReport | null;
  readonly userNames: ReadonlyMap<string, string>;
  /** Of the newest revision. */
  readonly problems: readonly Problem[];
  /** Names by revision. */
  readonly authors: ReadonlyMap<string, string>;
  readonly forge: Forge | null;
  readonly boundaries: readonly Boundary[];
  readonly windows: ReturnType<typeof listNextWindows>;
}

/** The state in one line, and what to do about it. */
export interface Headline {
  readonly tone: 'good' | 'busy' | 'waiting' | 'bad';
  readonly text: string;
  readonly detail: string;
  /** What to do, and what to type for it; null: nothing. */
  readonly advice: string | null;
  readonly command: string | null;
}

const paused = { tone: 'waiting' } as const;
const lookDeeper = { advice: 'To find out what is wrong:', command: 'reconcile doctor' };

/** What there is to say of a sidecar that is not in sync, by the reason. */
const headlines: Partial<Readonly<Record<ConditionReason, Partial<Headline>>>> = {
  Starting: { ...paused, text: 'Starting' },
  Standby: { ...paused, text: 'Standing by' },
  Suspended: { ...paused, text: 'Suspended', advice: 'To go on, remove the flag or setting:', command: 'suspend' },
  OutsideWindow: {
    ...paused,
    text: 'Waiting for a window',
    advice: 'In an emergency, and without `confirmWith` (a target: --fleet FILE --target NAME for --config and PATH):',
    command: 'reconcile apply --config SETTINGS --override-window REASON PATH',
  },
  Waiting: { ...paused, text: 'Waiting for its turn' },
  AwaitingConfirmation: { ...paused, text: 'Waiting to be confirmed' },
  Settling: { ...paused, text: 'Waiting until the content stands still' },
  Stopped: { ...paused, text: 'Stopping' },
  DriftReported: { text: 'Drift', advice: 'To undo it from now on, start with:', command: '--on-drift correct' },
  Fighting: { text: 'Drift that keeps coming back' },
  Refused: { text: 'Refused', advice: 'See the details of the plan:', command: 'reconcile plan PATH' },
  ManifestsInvalid: {
    text: 'Newest revision invalid',
    advice: 'Correct the manifests. To see each problem:',
    command: 'reconcile validate PATH',
  },
  RewindRefused: {
    text: 'Rewind refused',
    advice: 'Restore the branch; if the rewind is wanted, start with:',
    command: '--allow-rewind',
  },
  SignatureRefused: { text: 'Signature refused' },
  NotConfirmed: {
    text: 'Newest revision not confirmed',
    advice: 'Correct the manifests. To try the same content again, add a comment to a file, or push an empty commit:',
    command: 'git commit --allow-empty',
  },
  Unauthorized: lookDeeper,
  ApiUnreachable: lookDeeper,
};

/** One place for the words, so that the page, the JSON and the terminal agree. */
export function chooseHeadline(status: Status): Headline {
  const { Ready, Stalled } = status.conditions;
  const { progress } = status;
  const text = Stalled.status === 'True' ? 'Stalled' : 'Failing, and tried again';
  const usual: Headline = { detail: Ready.message, advice: null, command: null, tone: 'bad', text };
  const base = { ...usual, ...headlines[Ready.reason], ...approvalOf(status) };
  if (Stalled.reason === 'BadSettings') {
    const advice = 'Correct flags and variables with a restart. Correct a file, and send the process:';
    return { ...usual, text: 'The settings cannot be used', detail: Stalled.message, advice, command: 'SIGHUP' };
  }
  if (progress !== null)
    return { ...base, tone: 'busy', text: `Applying ${progress.done} of ${progress.total}`, detail: '' };
  return Ready.status === 'True' ? { ...base, tone: 'good', text: 'In sync' } : base;
}

function approvalOf({ conditions, plan }: Status): Partial<Headline> {
  if (conditions.Ready.reason !== 'Refused' || !plan?.digest) return {};
  const advice = 'If exactly this plan is wanted, put this line into the file of --config, and send SIGHUP or restart:';
  return { advice, command: `approve: [${plan.digest}]` };
}

/** The JSON document of a sidecar (schemas/status.schema.json): its status, and what the page says beside it. */
export function makeSidecarDocument(state: SidecarState): Readonly<Record<string, unknown>> {
  const { status, forge, authors, boundaries, windows, problems, userNames } = state;
  const { observed, applied } = status.revisions;
  const link = (revision: string | null): string | null => (forge === null ? null : linkCommit(forge, revision));
  return {
    format_version: formatVersion,
    ...status,
    headline: chooseHeadline(status),
    links: { observed: link(observed), applied: link(applied) },
    authors: { observed: authors.get(observed ?? '') ?? null, applied: authors.get(applied ?? '') ?? null },
    boundaries: boundaries.map(({ at, what, rule: { name, rule, place } }) => {
      return { at, what, name, rule: formatRule(rule, userNames), file: place.file, line: place.line };
    }),
    windows,
    problems: problems.map(makeProblemDocument),
  };
}

/** The rules that hold every word in their name, network, ports or user. */
export function searchRules(lines: readonly RuleLine[], words: string): readonly RuleLine[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return lines.filter(({ text }) => wanted.every((word) => text.includes(word)));
}

export interface RuleLine {
  readonly rule: NamedRule;
  readonly name: string;
  readonly what: string;
  /** All of it, in lower case. */
  readonly text: string;
}
