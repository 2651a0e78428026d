import { type ApplyEnd, type ApplyReport, judgeSettled, type Outcome } from '../apply/outcome.ts';
import { decodeSnapshot, encodeSnapshot } from '../live/snapshot.ts';
import { type ConfigurationField, configurationFields, type LiveConfiguration } from '../model/configuration.ts';
import type { Place } from '../model/problem.ts';
import { fail, isObject, ok, type Result } from '../model/result.ts';
import { type DesiredRule, formatRuleKey, type LiveRule, type Rule, toWire } from '../model/rule.ts';
import type { Plan, RuleChange } from '../plan/plan.ts';

/** Who made an apply, to which server, from what. */
export interface ApplyOrigin {
  readonly at: string;
  readonly by: string;
  readonly server: string | null;
  readonly revision: string | null;
  readonly digest: string | null;
}

/** What manifests said of a rule: its name, and when it ends, in ms since 1970. */
export interface SaidOfRule {
  readonly name: string | null;
  readonly expires?: number | undefined;
}

/** What is said of a rule. Where others with its content follow it at once, that ends with the last of them. */
export function describeRule(rule: SaidOfRule & Pick<DesiredRule, 'staysUntil'>): SaidOfRule {
  const { name, expires, staysUntil = expires } = rule;
  return { name, expires: staysUntil === Number.POSITIVE_INFINITY ? undefined : staysUntil };
}

/** What one apply changed, and how it was before; without any secret. `end` is `started` where the run was killed. */
export interface ApplyRecord extends ApplyOrigin {
  readonly end: ApplyEnd | 'started';
  /** Rules that the apply deleted, as they were, and those that it created. */
  readonly deleted: readonly LiveRule[];
  readonly created: readonly LiveRule[];
  /**
   * What was said of them, by `formatRuleKey`, as far as it is known: what has ended is not put back. All other rules that end and may be
   * live are here too: the newest record knows all.
   */
  readonly said: ReadonlyMap<string, SaidOfRule>;
  /** What the record before it knew of rules that end: going back knows that again. Undefined: an older version wrote the record. */
  readonly endsBefore: ReadonlyMap<string, SaidOfRule> | undefined;
  /** Fields of the Configuration that it wrote. */
  readonly fields: readonly ConfigurationField[];
  readonly before: LiveConfiguration | null;
  readonly after: LiveConfiguration | null;
}

type ChangedRules = Pick<ApplyRecord, 'deleted' | 'created'>;

/** What the state that a plan starts from says of a rule: a plan without a base cannot tell what it deletes. */
export type LookUpFormer = (rule: Rule) => Parameters<typeof describeRule>[0] | undefined;

/** The place of what no manifest names, but the record of an apply: what that does not say of a rule is not known. */
export const nowhere: Place = { file: 'the record of the apply', line: 0, column: 0 };

/** What is known of rules before a plan, and of rules that end by the newest record, or by that before what it takes back. */
interface FormerRules {
  readonly lookUp: LookUpFormer;
  readonly ends: ApplyRecord['said'];
}

/** What became of an apply; without an end it is about to go on with its plan. */
export type Progress = Pick<ApplyReport, 'outcomes'> & Partial<ApplyReport>;

/** The record of a plan that is about to be applied, or of what was carried out of it; of one without steps, the ends. */
export function makeApplyRecord(origin: ApplyOrigin, plan: Plan, apply: Progress | null, former: FormerRules) {
  const { end, outcomes = [] } = apply ?? {};
  const done: readonly (Pick<Outcome, 'step' | 'liveId'> & Partial<Outcome>)[] = [
    ...outcomes.filter((one) => mayBeCarriedOut(one, end)),
    ...(end === undefined ? plan.steps.map((step) => ({ step })) : []),
  ];
  const rules = sumUp(
    done.map(({ step, liveId, outcome }, index) => ({
      end: end === 'converged' || outcome === 'done' ? 'converged' : 'started',
      deleted: 'live' in step ? [step.live] : [],
      created: 'rule' in step ? [madeRule(step.rule, liveId, index)] : [],
    })),
  );
  const configured = done.flatMap(({ step, fields }) =>
    step.type === 'configure' ? [{ ...step, fields: fields ?? step.fields }] : [],
  );
  const before = joinLooks(configured);
  return {
    ...origin,
    end: end ?? (plan.steps.length === 0 ? 'converged' : 'started'),
    ...rules,
    said: describeRules([...rules.deleted, ...rules.created], plan, former),
    endsBefore: former.ends,
    fields: [...new Set(configured.flatMap(({ fields }) => fields))],
    before,
    after: before && { ...before, fields: { ...before.fields, ...configured[0]?.desired.fields } },
  } satisfies ApplyRecord;
}

/** The Configuration of the first look, and each field as the last look that has it overwrote it: others may have set it between them. */
function joinLooks(looks: readonly Pick<ApplyRecord, 'before' | 'fields'>[]): LiveConfiguration | null {
  const overwritten = looks.flatMap(({ before, fields }) => fields.map((field) => [field, before?.fields[field]]));
  const before = looks[0]?.before ?? null;
  return before && { ...before, fields: { ...before.fields, ...Object.fromEntries(overwritten) } };
}

/** What nobody knows counts: going back looks at what is live. So do the fields that the server may have taken of a Configuration. */
function mayBeCarriedOut(one: Outcome, end: ApplyEnd = 'converged'): boolean {
  const { outcome, status, fields } = one;
  const { mayBeDone, mayLand } = judgeSettled(one);
  if (fields !== undefined) return fields.length > 0;
  // A rule that is live though its request failed was written behind a proxy that said so, but by others where that is why it was refused.
  return mayBeDone && (mayLand || outcome !== 'failed' || (end === 'converged' && status !== 404 && status !== 409));
}

/** The rules that a sequence of changes deletes, and those that it creates. What has not converged may not have been carried out. */
function sumUp(changes: readonly (ChangedRules & Pick<ApplyRecord, 'end'>)[]): ChangedRules {
  const deleted = new Map<string, LiveRule>();
  const created = new Map<string, LiveRule>();
  for (const { end, ...change } of changes) {
    // A rule that came and went was not changed. Where nobody knows whether it did, what it was at first counts.
    const put = (rule: LiveRule, here: Map<string, LiveRule>, there: Map<string, LiveRule>): void => {
      const key = formatRuleKey(rule.rule);
      if (!there.has(key)) here.set(key, rule);
      else if (end === 'converged') there.delete(key);
    };
    for (const rule of change.deleted) put(rule, deleted, created);
    for (const rule of change.created) put(rule, created, deleted);
  }
  return { deleted: [...deleted.values()], created: [...created.values()] };
}

/** The manifests of this plan are believed before the newest record, which is believed before the state that the plan starts from. */
function describeRules(rules: readonly LiveRule[], plan: Plan, { lookUp, ends }: FormerRules): ApplyRecord['said'] {
  const keys = new Set(rules.map(({ rule }) => formatRuleKey(rule)));
  // Keys cost more than destinations, and most rules of a plan are none of these.
  const near = new Set([...keys, ...ends.keys()].map((key) => key.split(' ')[1]));
  const before = rules.map(({ rule }): Saying => [formatRuleKey(rule), describeRule(lookUp(rule) ?? { name: null })]);
  const isKnown = (key: string, rule: Rule) => ends.has(key) || lookUp(rule) !== undefined;
  const [now, named]: [Saying[], Saying[]] = [[], []];
  for (const change of plan.changes) {
    if (change.kind !== 'Rule') continue;
    const { live, desired, expires, origin } = change;
    const isLeft = isLeftByUndo(change);
    const name = isLeft ? null : change.name;
    // The notes of a pair are those of its new rule.
    if (live !== null && desired === null && near.has(live.rule.destination.text)) {
      const key = formatRuleKey(live.rule);
      // The end of a rule that was known is the one that was in force: not one that this plan brings.
      (origin === 'expired' ? now : before).push([key, isKnown(key, live.rule) ? { name } : { name, expires }]);
    }
    if (desired === null || (desired.expires === undefined && !near.has(desired.rule.destination.text))) continue;
    (isLeft ? now : named).push([formatRuleKey(desired.rule), { ...describeRule(desired), name }]);
  }
  const said = joinSaid([...before, ...ends, ...now]);
  // Where a manifest says no end, there is none any more.
  for (const [key, one] of named) said.set(key, one);
  return new Map([...said].filter(([key, { expires }]) => keys.has(key) || expires !== undefined));
}

/** What stays on a way back has a name for its plan alone, and no record says anew when it ends. */
const isLeftByUndo = ({ action, desired }: RuleChange) => action === 'keep' && desired?.place === nowhere;

type Saying = readonly [key: string, said: SaidOfRule];

/** What is said later counts, as far as it says something. */
function joinSaid(all: readonly Saying[]): Map<string, SaidOfRule> {
  const joined = new Map<string, SaidOfRule>();
  for (const [key, { name, expires }] of all) {
    const known = joined.get(key);
    joined.set(key, { name: name ?? known?.name ?? null, expires: expires ?? known?.expires });
  }
  return joined;
}

/** What the record knows of rules that end and may be live after it. */
export function listEnds(record: ApplyRecord | null): ApplyRecord['said'] {
  if (record === null) return new Map();
  const gone = new Set(record.end === 'converged' ? record.deleted.map(({ rule }) => formatRuleKey(rule)) : []);
  return new Map([...record.said].filter(([key, { expires }]) => expires !== undefined && !gone.has(key)));
}

/** A created rule as it would be listed. */
function madeRule(rule: Rule, liveId: string | undefined, index: number): LiveRule {
  const id = liveId ?? `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
  return { id, rule, destinationText: toWire(rule).destination, insertedAt: '', updatedAt: '' };
}

/** What several applies changed together, given in their order, since the first began; null: there are none. */
export function joinApplyRecords(records: readonly ApplyRecord[]): ApplyRecord | null {
  const [first, last] = [records[0], records.at(-1)];
  if (first === undefined || last === undefined) return null;
  const configured = records.filter(({ before }) => before !== null).toReversed();
  return {
    ...last,
    at: first.at,
    ...sumUp(records),
    said: joinSaid(records.flatMap(({ said }) => [...said])),
    endsBefore: first.endsBefore,
    fields: [...new Set(records.flatMap(({ fields }) => fields))],
    // Each field as it was before the first apply that wrote it.
    before: joinLooks(configured),
    after: configured[0]?.after ?? null,
  };
}

/** How many rules and fields an apply changed; nothing at all needs no record. */
export function countChanges({ deleted, created, fields }: ApplyRecord): number {
  return deleted.length + created.length + fields.length;
}

const version = '1.0';

/** The record as a JSON value. */
export function encodeApplyRecord(record: ApplyRecord): unknown {
  const { at, by, server, revision, digest, end, fields, said, endsBefore } = record;
  return {
    format_version: version,
    kind: 'apply-record',
    ...{ at, by, server, revision, digest, end, fields },
    ...{ names: encodeSaid(said, 'name'), names_before: encodeSaid(endsBefore ?? new Map(), 'name') },
    ...{ expires: encodeSaid(said, 'expires'), ends_before: endsBefore && encodeSaid(endsBefore, 'expires') },
    before: encodeSnapshot({ rules: record.deleted, configuration: record.before }, [], at),
    after: encodeSnapshot({ rules: record.created, configuration: record.after }, [], at),
  };
}

const encodeSaid = (said: ApplyRecord['said'], what: keyof SaidOfRule) =>
  Object.fromEntries([...said].map(([key, one]) => [key, one[what] ?? undefined]));
const listEntries = (value: unknown) => Object.entries(isObject(value) ? value : {});
/** An end that is no time is NaN. */
const decodeSaid = (names: unknown, ends: unknown): ApplyRecord['said'] =>
  joinSaid([
    ...listEntries(names).map(([key, name]): Saying => [key, { name: textOrNull(name) }]),
    ...listEntries(ends).map(
      ([key, end]): Saying => [key, { name: null, expires: typeof end === 'number' ? end : Number.NaN }],
    ),
  ]);
const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Reads a record; the error is a sentence. */
export function decodeApplyRecord(value: unknown): Result<ApplyRecord, string> {
  if (!isObject(value) || value['kind'] !== 'apply-record' || value['format_version'] !== version)
    return fail('it is not the record of an apply in a form that this version reads');
  const before = decodeSnapshot(value['before']);
  const after = decodeSnapshot(value['after']);
  if (!before.ok) return before;
  if (!after.ok) return after;
  const { fields } = value;
  const said = decodeSaid(value['names'], value['expires']);
  const endsBefore = decodeSaid(value['names_before'], value['ends_before']);
  if ([...said.values(), ...endsBefore.values()].some(({ expires = 0 }) => !(Math.abs(expires) <= 8.64e15)))
    return fail('an `expires` in it is not a time');
  const ends: readonly ApplyRecord['end'][] = ['started', 'converged', 'not-converged', 'stopped', 'failed'];
  return ok({
    at: textOrNull(value['at']) ?? '',
    by: textOrNull(value['by']) ?? 'unknown',
    server: textOrNull(value['server']),
    revision: textOrNull(value['revision']),
    digest: textOrNull(value['digest']),
    end: ends.find((end) => end === value['end']) ?? 'started',
    said,
    endsBefore: value['ends_before'] === undefined ? undefined : endsBefore,
    fields: configurationFields.filter((field) => Array.isArray(fields) && fields.includes(field)),
    deleted: before.value.live.rules,
    created: after.value.live.rules,
    before: before.value.live.configuration,
    after: after.value.live.configuration,
  });
}
