import type {
  ConfigurationField,
  DesiredConfiguration,
  LiveConfiguration,
  SecretBinding,
} from '../model/configuration.ts';
import type { Place, Problem } from '../model/problem.ts';
import type { Profile, ProfileName, RuleUpdates } from '../model/profile.ts';
import type { DesiredRule, LiveRule, Rule, RuleNotes } from '../model/rule.ts';
import { formatRuleKey, isModifiedInPlace } from '../model/rule.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';

export type ChangeAction = 'create' | 'update' | 'delete' | 'keep' | 'skip';

/** Why an action was decided: display only, never branched on. */
export type Reason =
  | 'desired-only' // create: nothing live matches
  | 'differs' // update: paired, fields differ
  | 'not-desired' // delete: nothing desires it
  | 'modified-in-place' // replaced on request, though its fields agree
  | 'not-enforced' // replaced on request: the kernel does not hold it
  | 'in-sync' // keep
  | 'adopted' // keep: live already, not known from the base
  | 'duplicate' // delete: a second copy of a rule
  | 'prune-off' // skip: would be deleted, but pruning is off
  | 'out-of-scope' // skip
  | 'unknown-secret' // skip of a field whose secret is not available here
  | 'unsent'; // skip of a field that differs and cannot be sent without a secret that is not available here

/** Who made the difference, when a base is known (three-way). */
export type Origin = 'this-revision' | 'drift' | 'earlier-not-applied' | 'expired'; // its `expires` has passed; told without a base too

/** A field's value for display. Secrets appear as `{secret: …}`, never as text. */
export type FieldValue =
  | string
  | number
  | boolean
  | null
  | { readonly secret: 'changed' | 'same' | 'unknown'; readonly fingerprint: string | null; readonly source?: string }
  | readonly FieldValue[]
  | { readonly [name: string]: FieldValue };

export type FieldChange = Readonly<Record<'before' | 'after', FieldValue>>;

interface ChangeBase {
  readonly action: ChangeAction;
  /** How an update reaches the server; null for other actions. */
  readonly via: RuleUpdates | null;
  readonly reason: Reason;
  readonly origin?: Origin;
  /** Field name to values before and after, in the API's names; only fields that change (create: all; delete: all). */
  readonly fields: Readonly<Record<string, FieldChange>>;
  /** The manifest's place; for a deleted rule the base's when known. */
  readonly source: Place | null;
  /** The manifest's name; for a deleted rule the base's when known. */
  readonly name: string | null;
  readonly id: string | null;
}

export interface RuleChange extends ChangeBase, RuleNotes {
  readonly kind: 'Rule';
  readonly desired: DesiredRule | null;
  readonly live: LiveRule | null;
}

/** The rule that a change is about: the desired one, else the live one. */
export function getChangedRule({ desired, live }: RuleChange): Rule {
  const about = desired ?? live;
  if (about === null) throw new Error('a rule change names a desired or a live rule');
  return about.rule;
}

export interface ConfigurationChange extends ChangeBase {
  readonly kind: 'Configuration';
  readonly desired: DesiredConfiguration;
  readonly live: LiveConfiguration;
}

/** One object's action, reason and field changes. */
export type Change = RuleChange | ConfigurationChange;

/** Where a step stands in the listed order. */
export interface StepPlace {
  /** `s1`, `s2`, … in the listed order. */
  readonly id: string;
  /** Ids of steps that must be done first; always earlier in the list. */
  readonly after: readonly string[];
  /** The gap this step opens (delete) or closes (create); null outside gaps. */
  readonly gap: string | null;
}

interface StepBase extends StepPlace {
  /** Index into `Plan.changes`. */
  readonly change: number;
}

export interface CreateStep extends StepBase {
  readonly type: 'create';
  readonly rule: Rule;
}

export interface DeleteStep extends StepBase {
  readonly type: 'delete';
  readonly live: LiveRule;
  /** The rule was modified in place: deleting it may crash and rebuild the packet filter (profile firezone-0.7). */
  readonly mayRebuild: boolean;
}

export interface UpdateStep extends StepBase {
  readonly type: 'update';
  readonly live: LiveRule;
  readonly rule: Rule;
}

export interface ConfigureStep extends StepBase {
  readonly type: 'configure';
  readonly desired: DesiredConfiguration;
  /** What was live when it was planned. */
  readonly before: LiveConfiguration;
  /** The managed fields that differ: exactly these are sent. */
  readonly fields: readonly ConfigurationField[];
}

export type RuleStep = CreateStep | DeleteStep | UpdateStep;

/** One API write. */
export type Step = RuleStep | ConfigureStep;

export function formatStepId(position: number): string {
  return `s${position + 1}`;
}

/** What a step does, the same in every plan. */
export function formatStepKey(step: Step): string {
  if (step.type === 'configure') return `configure ${step.fields.join(' ')}`;
  return `${step.type} ${formatRuleKey(step.type === 'delete' ? step.live.rule : step.rule)}`;
}

/** A guard's refusal: its numbers in `summary`, the override in `hint`. */
export interface Refusal extends Readonly<Record<'code' | 'summary' | 'hint', string>> {
  readonly related?: readonly { readonly place: Place; readonly note: string }[];
  /** What would have to be allowed, where the refusal is about a secret. */
  readonly binding?: SecretBinding;
}

/** Traffic whose verdict is, for a while, neither the one before nor the one after. */
export interface Exposure {
  readonly direction: 'opened' | 'cut_off';
  readonly traffic: readonly Traffic[];
  /** The step that starts it and the step that ends it. */
  readonly fromStep: string;
  readonly toStep: string;
  readonly expectedMs: number;
}

/** The difference in traffic from a time (ms since 1970) on, and the users whom it tells apart: more than the changes name. */
export interface LaterEffect {
  readonly from: number;
  readonly effect: Effect;
  readonly users: ReadonlySet<string>;
}

export type PlanSummary = Readonly<Record<ChangeAction | 'steps', number>>;

/** Immutable: what will be done, why, in which order, and what it means. Built from shuffled inputs it is byte-equal. */
export interface Plan {
  readonly profile: ProfileName;
  readonly ruleUpdates: RuleUpdates;
  readonly changes: readonly Change[];
  readonly steps: readonly Step[];
  readonly problems: readonly Problem[];
  readonly refusals: readonly Refusal[];
  readonly effect: Effect;
  readonly exposure: readonly Exposure[];
  /** Compared with other manifests: the differences in traffic from later times on. */
  readonly later?: readonly LaterEffect[];
  readonly summary: PlanSummary;
  /** The time (ms since 1970) that it is made for; absent: no rule has a time. */
  readonly at?: number;
  /** The next time (ms since 1970) at which a rule begins or ends; absent: none does. */
  readonly nextBoundary?: number;
}

export function summarise(changes: readonly Change[], steps: readonly Step[]): PlanSummary {
  const counts: Record<ChangeAction, number> = { create: 0, update: 0, delete: 0, keep: 0, skip: 0 };
  for (const { action } of changes) counts[action]++;
  return { ...counts, steps: steps.length };
}

/** HTTP method and path of a step, relative to the base URL. */
export function makeRequest(step: Step) {
  if (step.type === 'configure') return { method: 'PATCH', path: '/v0/configuration' } as const;
  const path = step.type === 'create' ? '/v0/rules' : `/v0/rules/${step.live.id}`;
  return { method: methods[step.type], path };
}

const methods = { create: 'POST', update: 'PATCH', delete: 'DELETE' } as const;

/** Whether a field is known to differ, and is not sent because a secret in it is not available here. */
export function holdsBack({ problems }: Plan): boolean {
  return problems.some(({ code }) => code === 'unsent-field');
}

/** One write to the rules, before it has a place in the order. */
export type Operation = WithoutPlace<RuleStep>;

type WithoutPlace<S> = S extends RuleStep ? Omit<S, keyof StepPlace> : never;

/** The writes that the changes need, in the order of the changes; a replaced rule is a delete and a create. */
export function listOperations(changes: readonly Change[], profile: Profile): readonly Operation[] {
  const operations: Operation[] = [];
  for (const [change, decided] of changes.entries()) {
    if (decided.kind !== 'Rule' || decided.action === 'keep' || decided.action === 'skip') continue;
    const { action, via, reason, desired, live } = decided;
    if (action === 'update' && via !== 'replace' && desired !== null && live !== null) {
      operations.push({ type: 'update', change, live, rule: desired.rule });
      continue;
    }
    const isUnsure = reason === 'not-enforced' || (live !== null && isModifiedInPlace(live));
    const mayRebuild = profile.filter !== null && isUnsure;
    if (live !== null) operations.push({ type: 'delete', change, live, mayRebuild });
    if (desired !== null) operations.push({ type: 'create', change, rule: desired.rule });
  }
  return operations;
}

/** The rules that operations, by their places in the list, remove or add; of each operation the removed one first. */
export function listRules(operations: readonly Operation[]) {
  return operations.flatMap((one, operation) => [
    ...(one.type === 'create' ? [] : [{ rule: one.live.rule, operation, added: false }]),
    ...(one.type === 'delete' ? [] : [{ rule: one.rule, operation, added: true }]),
  ]);
}

/** By the place of an operation in a list, or by a position in the order: others, such as those that must be done before. */
export type Links = readonly (readonly number[])[];

/** Whether the write may make the server rebuild its packet filter. */
export function mayRebuild(operation: Operation | { readonly type: 'configure' } | undefined): boolean {
  return operation?.type === 'delete' && operation.mayRebuild;
}
