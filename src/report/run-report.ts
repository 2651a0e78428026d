import type { ApplyReport } from '../apply/outcome.ts';
import type { KernelState } from '../enforcement/report.ts';
import type { Problem } from '../model/problem.ts';
import type { DesiredState } from '../model/state.ts';
import type { Plan } from '../plan/plan.ts';
import type { Forge } from './forge.ts';

/** What a run that plans (and perhaps applies) came to: the one input of every format. */
export interface RunReport {
  /** PATH as it was written, for places in outputs that are read elsewhere; null where there is none. */
  readonly root: string | null;
  /** What is planned where no PATH says it, such as an undo. */
  readonly planned?: string;
  /** The server's address, without credentials; null where none was named. */
  readonly server: string | null;
  /** The commit, or the digest of the directory's content; null when the source could not be read. */
  readonly revision: string | null;
  readonly plan: Plan | null;
  /** Identity of the plan, for `--approve` and saved plans; null without a plan. */
  readonly digest: string | null;
  /** What was done; null when nothing was applied. */
  readonly apply: ApplyReport | null;
  /** Of every stage, the plan's included, sorted. */
  readonly problems: readonly Problem[];
  /** Names of users by UUID, for display. */
  readonly userNames: ReadonlyMap<string, string>;
  /** Members (UUIDs) of the manifests' groups, for display. */
  readonly groups?: ReadonlyMap<string, ReadonlySet<string>>;
  /** What the manifests ask for, where an output tells of their times and policy tests; absent: it tells of the plan alone. */
  readonly desired?: Pick<DesiredState, 'rules' | 'upcoming' | 'tests'> | null;
  /** The plan was refused and this run was told to go on with it (`--approve`). */
  readonly approved: boolean;
  /** The snapshot that was planned against; null: the server itself. */
  readonly snapshot: { readonly takenAt: string; readonly ageMs: number } | null;
  /** What the plan was compared with: `--base`; null without. */
  readonly base: string | null;
  /** What the rules of the last apply were called, by `formatRuleKey`, so that deleted ones have names; absent where no record is kept. */
  readonly lastApply?: ReadonlyMap<string, FormerRule>;
  /** E-mail addresses by UUID that only the server knows: for a person at a terminal, not for files and logs. */
  readonly serverNames?: ReadonlyMap<string, string>;
  /** The plan compares two revisions, and nothing is written: what it goes from and to, in words. */
  readonly comparison?: { readonly from: string; readonly to: string };
  /** What a command came to, in one line; absent where its plan says it. */
  readonly headline?: string;
  /** Where the revision can be looked at; absent where that is not known. */
  readonly forge?: Forge | null;
  /** What the kernel's packet filter holds; absent when nobody looked. */
  readonly kernel?: KernelState;
}

/** A rule as the last apply knew it. */
export interface FormerRule {
  readonly name: string;
  readonly place: { readonly file: string; readonly line: number } | null;
  /** When it ends, in ms since 1970. */
  readonly expires?: number;
}

export interface Display {
  readonly color: boolean;
  /** Columns to wrap lines at; absent: lines are as long as they are. */
  readonly width?: number;
  /** Everything that the page knows, not only what fits a screen. */
  readonly full?: boolean;
}

/** A report of a run that ended before there was a plan. */
export function makeProblemReport(problems: readonly Problem[]): RunReport {
  return {
    root: null,
    server: null,
    revision: null,
    plan: null,
    digest: null,
    apply: null,
    problems,
    userNames: new Map(),
    approved: false,
    snapshot: null,
    base: null,
  };
}
