import type { ConditionReason } from '../controller/conditions.ts';
import type { Status } from '../controller/status.ts';
import type { Problem } from '../model/problem.ts';
import type { NextWindow } from '../plan/guard/windows.ts';
import type { ShownBoundary } from './change-words.ts';
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
  readonly boundaries: readonly ShownBoundary[];
  readonly windows: readonly NextWindow[];
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

const waiting: Partial<Readonly<Record<ConditionReason, string>>> = {
  Starting: 'Starting',
  Standby: 'Standing by',
  Suspended: 'Suspended',
  OutsideWindow: 'Waiting for a window',
  Waiting: 'Waiting for its turn',
  AwaitingConfirmation: 'Waiting to be confirmed',
  Settling: 'Waiting until the content stands still',
  Stopped: 'Stopping',
};

const broken: Partial<Readonly<Record<ConditionReason, string>>> = {
  DriftReported: 'Drift',
  Fighting: 'Drift that keeps coming back',
  Refused: 'Refused',
  ManifestsInvalid: 'Newest revision invalid',
  RewindRefused: 'Rewind refused',
  SignatureRefused: 'Signature refused',
  NotConfirmed: 'Not confirmed, and taken back',
};

/** One place for the words, so that the page, the JSON and the terminal agree. */
export function chooseHeadline(status: Status): Headline {
  const { Ready, Stalled } = status.conditions;
  const { progress } = status;
  const base = { detail: Ready.message, ...adviceFor(status) };
  if (Stalled.reason === 'BadSettings')
    return { ...base, tone: 'bad', text: 'The settings cannot be used', detail: Stalled.message };
  if (progress !== null)
    return { ...base, tone: 'busy', text: `Applying ${progress.done} of ${progress.total}`, detail: '' };
  if (Ready.status === 'True') return { ...base, tone: 'good', text: 'In sync' };
  const pause = waiting[Ready.reason];
  if (pause !== undefined) return { ...base, tone: 'waiting', text: pause };
  const text = broken[Ready.reason] ?? (Stalled.status === 'True' ? 'Stalled' : 'Failing, and tried again');
  return { ...base, tone: 'bad', text };
}

type Advice = Pick<Headline, 'advice' | 'command'>;

const lookDeeper: Advice = { advice: 'To find out what is wrong:', command: 'reconcile doctor' };
const advices: Partial<Readonly<Record<ConditionReason, Advice>>> = {
  Refused: { advice: 'See the details of the plan:', command: 'reconcile plan PATH' },
  ManifestsInvalid: {
    advice: 'Correct the problems below and push. To check before:',
    command: 'reconcile validate PATH',
  },
  RewindRefused: { advice: 'Restore the branch; if the rewind is wanted, start with:', command: '--allow-rewind' },
  Unauthorized: lookDeeper,
  ApiUnreachable: lookDeeper,
  DriftReported: { advice: 'To undo it from now on, start with:', command: '--on-drift correct' },
  OutsideWindow: { advice: 'In an emergency:', command: 'reconcile apply --yes --override-window REASON PATH' },
  NotConfirmed: {
    advice: 'Correct the manifests and push; to try the same content again, push an empty commit:',
    command: 'git commit --allow-empty',
  },
  Suspended: { advice: 'To go on, start without:', command: '--suspend' },
};

function adviceFor({ conditions, plan }: Status): Advice {
  const { reason } = conditions.Ready;
  const wanted = 'If exactly this plan is wanted: put this line into the settings file and send SIGHUP.';
  if (reason === 'Refused' && plan?.digest) return { advice: wanted, command: `approve: [${plan.digest}]` };
  return advices[reason] ?? { advice: null, command: null };
}

/** The JSON document of a sidecar (schemas/status.schema.json): its status, and what the page says beside it. */
export function makeSidecarDocument(state: SidecarState): Readonly<Record<string, unknown>> {
  const { status, forge, authors, boundaries, windows, problems } = state;
  const { observed, applied } = status.revisions;
  const link = (revision: string | null): string | null => (forge === null ? null : linkCommit(forge, revision));
  return {
    format_version: formatVersion,
    ...status,
    headline: chooseHeadline(status),
    links: { observed: link(observed), applied: link(applied) },
    authors: { observed: authors.get(observed ?? '') ?? null, applied: authors.get(applied ?? '') ?? null },
    boundaries: boundaries.map(({ place, ...one }) => ({ ...one, file: place.file, line: place.line })),
    windows,
    problems: problems.map(makeProblemDocument),
  };
}

/** The rules that hold every word in their name, network, ports or user. */
export function searchRules(lines: readonly RuleLine[], words: string): readonly RuleLine[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return lines.filter(({ text }) => wanted.every((word) => text.includes(word)));
}

/** A rule as it is searched. */
export interface RuleLine {
  readonly rule: NamedRule;
  readonly name: string;
  readonly what: string;
  /** All of it, in lower case. */
  readonly text: string;
}
