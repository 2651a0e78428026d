import { groupBy } from '../model/group-by.ts';
import { formatInstant } from '../model/instant.ts';
import { escapeControls, joinSome } from '../model/printable.ts';
import { formatRuleKey, type Rule } from '../model/rule.ts';
import { listBoundaries } from '../model/state.ts';
import type { Change, LaterEffect, Plan, Refusal } from '../plan/plan.ts';
import type { Effect, Traffic } from '../policy/traffic.ts';
import type { UserNames } from '../policy/words.ts';
import { chooseSymbol, describeChange, formatLabel, formatWhy } from './change-words.ts';
import { type FieldLine, listFieldLines } from './field-lines.ts';
import { describeExposures, type PagePart } from './on-the-way.ts';
import type { Tone } from './paint.ts';
import type { RunReport } from './run-report.ts';
import { count, formatAge, takeWorst } from './summary.ts';
import { describeTraffic, findTurns, formatTrafficLine, type TrafficLine } from './traffic/describe.ts';
import { measureNetwork } from './traffic/networks.ts';
import { collectPeople, joinWords, type People } from './traffic/people.ts';

/** A plan as people read it: what every format for people shows, without its markup. */
export interface PlanPage {
  /** `Plan for https://vpn.example.com`, then what was planned and what it was compared with. */
  readonly title: readonly string[];
  /** Sentences that somebody has to know before the changes. */
  readonly notes: readonly string[];
  readonly sets: readonly SetOfChanges[];
  /** What is opened and closed at once, then from later times on; empty where nothing is written. */
  readonly traffic: readonly TrafficPart[];
  readonly onTheWay: PagePart | null;
}

/** The changes of one RuleSet, of the rules outside of sets, of unnamed live rules, or of the Configuration. */
export interface SetOfChanges {
  readonly title: string;
  readonly total: number;
  readonly changes: readonly ShownChange[];
}

export interface ShownChange {
  /** Its source is where a deleted rule stood, not a line of today's file. */
  readonly change: Change;
  readonly symbol: string;
  readonly tone: Tone;
  /** The rule's name within its set; empty for a live rule without a name. */
  readonly name: string;
  /** `drop 169.254.169.254 → 169.254.0.0/16`. */
  readonly what: string;
  /** Why, where the mark does not tell. */
  readonly why: string;
  readonly fields: readonly FieldLine[];
}

/** One line of traffic that the plan opens or closes: `text` says `what` and `who` as one. */
export interface TrafficEntry extends Pick<TrafficLine, 'who' | 'what' | 'size'> {
  readonly label: 'opens' | 'closes';
  readonly text: string;
}

export type TrafficPart = PagePart<TrafficEntry>;

/** The page of a plan, with at most so many `lines` of traffic, and on the way. */
export function makePlanPage(report: RunReport, plan: Plan, lines: number): PlanPage {
  const people = collectPeople(plan, report);
  const { steps, later, effect } = plan;
  const isTold = later !== undefined || steps.length + effect.opens.length + effect.closes.length > 0;
  const isComparison = report.comparison !== undefined && plan.changes.some(({ action }) => action !== 'keep');
  return {
    title: titleOf(report),
    notes: notesOf(report, plan),
    sets: setsOf(nameDeleted(plan, report.lastApply), people.names, plan.at),
    traffic: isComparison || isTold ? listTraffic(plan, people, lines) : [],
    onTheWay: plan.exposure.length === 0 ? null : describeExposures(plan, people, lines),
  };
}

function titleOf({ server, root, planned, revision, base, comparison }: RunReport): readonly string[] {
  const isNamed = revision !== null && revision !== root;
  const source = planned ?? (isNamed ? `${root ?? 'manifests'} at ${formatRevision(revision)}` : root);
  const title = comparison
    ? [`Changes from ${comparison.from} to ${comparison.to}`, root]
    : [server === null ? 'Plan' : `Plan for ${server}`, source, base === null ? null : `compared with ${base}`];
  return title.filter((part) => part !== null).map(escapeControls);
}

/** `4df71eb (main)` of a commit, twelve characters of a digest of content. */
export function formatRevision(revision: string): string {
  const [, commit, rest] = /^([0-9a-f]{40}|[0-9a-f]{64})(.*)$/s.exec(revision) ?? [];
  if (commit !== undefined) return `${commit.slice(0, commit.length === 40 ? 7 : 12)}${rest}`;
  return revision.replace(/^(sha256:[0-9a-f]{12})[0-9a-f]+$/, '$1');
}

function notesOf(report: RunReport, plan: Plan): readonly string[] {
  if (report.comparison !== undefined) return [];
  const { snapshot } = report;
  const { profile, ruleUpdates } = plan;
  const how = plan.changes.some(({ kind, action }) => kind === 'Rule' && action === 'update') ? ruleUpdates : null;
  const taken = plan.changes.filter(({ reason, origin }) => reason === 'adopted' && !origin).map(formatLabel);
  const notes = [
    snapshot !== null &&
      `Planned against a snapshot taken ${snapshot.takenAt}, ${formatAgo(snapshot.ageMs)}, not against the server.`,
    profile === 'generic' && 'Profile generic: the server may hold a rule to more than this plan knows.',
    originNote(plan),
    boundaryNote(report, plan),
    taken.length > 0 && `Live already, though the base has no such rule: ${joinSome(taken, 5)}.`,
    how === 'patch' && 'A changed rule is sent as a PATCH.',
    how === 'replace' &&
      profile === 'firezone-0.7' &&
      'A changed rule is replaced (DELETE, then POST): the packet filter of Firezone 0.7 does not follow a PATCH.',
  ];
  return notes.filter((note) => note !== false);
}

function boundaryNote({ desired }: RunReport, { at = 0, nextBoundary }: Plan): string | false {
  if (nextBoundary === undefined) return false;
  const next = desired ? listBoundaries(desired, at, nextBoundary) : [];
  const names = next.map(({ rule, what }) => `${escapeControls(rule.name)} ${what}`);
  const who = joinSome(names, 3) || 'a rule begins or ends';
  return `Next, at ${formatInstant(nextBoundary)}: ${who}. Nothing runs at that time unless a sidecar or a scheduled apply does.`;
}

/** How many changes this revision itself makes, now and later, beside drift and what earlier ones left. */
function originNote({ changes, later = [] }: Plan): string | false {
  const changed = changes.filter(({ kind, action, origin }) =>
    action === 'skip' ? kind === 'Configuration' && origin : action !== 'keep' || origin,
  );
  const number = (origin: Change['origin']): number => changed.filter((change) => change.origin === origin).length;
  const tell = (what: string, many: number): string => (many === 0 ? '' : ` ${what}: ${many}.`);
  const ended = tell('Expired', number('expired'));
  // Without a base, nothing is known of the others.
  if (changed.length + later.length === 0 || number(undefined) > 0) return ended !== '' && ended.trim();
  const rest = tell('Earlier revisions, not applied', number('earlier-not-applied')) + ended;
  const others = later.length === 0 ? '' : ' now, others later';
  return `This revision: ${count(number('this-revision'), 'change')}${others}. Drift on the server: ${number('drift')}.${rest}`;
}

/** When something was, for people: `3 days ago`. A minute of difference between two clocks is none. */
export function formatAgo(ms: number): string {
  return ms < -60_000 ? 'later than the clock here says it is' : `${formatAge(ms)} ago`;
}

/** Numbers in names as people count; what names no set comes last. */
const byName = new Intl.Collator('en', { numeric: true });
const isOther = (title: string): boolean => / |^Configuration$/.test(title);

function setsOf(changes: readonly Change[], names: UserNames, at: number | undefined): readonly SetOfChanges[] {
  return [...groupBy(changes, (change) => setAndName(change)[0])]
    .sort(([a], [b]) => Number(isOther(a)) - Number(isOther(b)) || (isOther(a) ? 0 : byName.compare(a, b)))
    .map(([title, all]) => {
      const told = all.filter(({ action, origin }) => action !== 'keep' || origin);
      const shown = told.map((change) => showChange(change, names, at));
      return { title: escapeControls(title), total: all.length, changes: shown };
    })
    .filter((set) => set.changes.length > 0);
}

/** So many changes, the Configuration first, then those that can open most where they leave others out, and what that is. */
export function takeChanges(sets: readonly SetOfChanges[], most: number) {
  const isRule = ({ change }: ShownChange): number => Number(change.kind === 'Rule');
  const rankOf = ({ change, tone }: ShownChange): number => {
    if (change.kind === 'Configuration') return Number.MIN_SAFE_INTEGER;
    const sizeOf = (rule: Rule | undefined, action: Rule['action']): number =>
      rule?.action === action ? measureNetwork(rule.destination.text, rule.ports ? [rule.ports] : undefined) : 0;
    return tone === 'risk' ? -Math.max(sizeOf(change.desired?.rule, 'accept'), sizeOf(change.live?.rule, 'drop')) : 1;
  };
  const all = sets.flatMap(({ changes }) => changes).sort((a, b) => isRule(a) - isRule(b));
  return takeWorst(all, most, rankOf, 'can open traffic');
}

/** Deleted rules that the plan itself cannot name go by what they were called when they were last applied. */
function nameDeleted({ changes }: Plan, lastApply: RunReport['lastApply']): readonly Change[] {
  if (lastApply === undefined) return changes;
  return changes.map((change) => {
    if (change.kind !== 'Rule' || change.action !== 'delete' || change.name !== null || change.live === null)
      return change;
    const former = lastApply.get(formatRuleKey(change.live.rule));
    if (former === undefined) return change;
    const source = former.place === null ? null : { ...former.place, column: 1 };
    return { ...change, name: former.name, source };
  });
}

function setAndName(change: Change): readonly [set: string, name: string] {
  if (change.kind === 'Configuration') return [formatLabel(change), ''];
  if (change.name === null) return ['live rules that no manifest names', ''];
  const slash = change.name.indexOf('/');
  return slash < 0
    ? ['rules outside of sets', change.name]
    : [change.name.slice(0, slash), change.name.slice(slash + 1)];
}

function showChange(change: Change, names: UserNames, at: number | undefined): ShownChange {
  const [symbol, tone] = chooseSymbol(change);
  const withFields = change.kind === 'Configuration' && (change.action === 'update' || change.action === 'skip');
  return {
    change,
    symbol,
    tone,
    name: escapeControls(setAndName(change)[1]),
    what: change.kind === 'Configuration' ? '' : describeChange(change, names),
    why: formatWhy(change, at),
    fields: withFields ? listFieldLines(change.fields) : [],
  };
}

/** What is opened and closed now, and from later times on: of many those at which most other traffic opens, and all the others as one. */
function listTraffic(plan: Plan, people: People, lines: number): readonly TrafficPart[] {
  const { effect, later = [], refusals } = plan;
  const isRefused = (as: Refusal['code']): boolean => refusals.some(({ code }) => code === as);
  const isCut = isRefused('too-many-times') && 'Now (later times were not compared): ';
  const inPart = isRefused('too-much-traffic') && 'Now, in part (there is more than can be listed): ';
  const now = inPart || isCut || (later.length === 0 ? '' : 'Now: ');
  const opening = findTurns(plan)
    .map(({ entry, opens }) => ({ entry, size: opens.reduce((sum, one) => sum + one.size, 0) }))
    .filter(({ size }) => size > 0)
    .sort((a, b) => b.size - a.size)
    .map(({ entry }) => entry);
  const shown = new Set([...new Set([...opening, ...later])].slice(0, lines));
  const rest = later.filter((one) => !shown.has(one));
  const effectOf = (way: keyof Effect): readonly Traffic[] => rest.flatMap((one) => one.effect[way]);
  const partOf = (when: string, differs: Effect, { users: withRules }: LaterEffect): TrafficPart =>
    trafficPart(when, differs, { ...people, withRules }, lines);
  const others = `At ${count(rest.length, 'other time')}, which the JSON output has: `;
  return [
    trafficPart(now, effect, people, lines),
    ...later.filter((one) => shown.has(one)).map((one) => partOf(`From ${formatInstant(one.from)}: `, one.effect, one)),
    ...rest.slice(0, 1).map((one) => partOf(others, { opens: effectOf('opens'), closes: effectOf('closes') }, one)),
  ];
}

function trafficPart(when: string, effect: Effect, people: People, lines: number): TrafficPart {
  const isWhole = lines === Number.POSITIVE_INFINITY;
  const entriesOf = (label: TrafficEntry['label']): readonly TrafficEntry[] =>
    describeTraffic(effect[label], people, isWhole).map((line) => ({ ...line, label, text: formatTrafficLine(line) }));
  const [opens, closes] = [entriesOf('opens'), entriesOf('closes')];
  const all = [...opens, ...closes];
  const nothing = when === '' ? 'No traffic changes.' : 'no traffic changes.';
  const headline = `${when}${all.length === 0 ? nothing : `opens ${whomText(opens)}; closes ${whomText(closes)}`}`;
  return { headline, ...takeWorst(all, lines, ({ label, size }) => (label === 'opens' ? -size : 1), 'open traffic') };
}

/** `nothing`, `for everyone and for bob`; of many the first, with a count for the rest. */
function whomText(lines: readonly TrafficEntry[]): string {
  const all = [...new Set(lines.map(({ who }) => who))].map((who) => `for ${who}`);
  if (all.length === 0) return 'nothing';
  return all.length <= 5 ? joinWords(all) : joinSome(all, 3);
}

/** A title, and the traffic that an apply whose gaps could not be closed left open: every format says it first. Empty without any. */
export function listLeftOpen(report: RunReport): readonly string[] {
  const { apply, plan } = report;
  const lines = apply === null ? [] : formatTraffic(apply.leftOpen, collectPeople(plan, report));
  return lines.length === 0 ? [] : ['LEFT OPEN: rules that should drop this traffic are missing, or may be', ...lines];
}

/** The traffic's lines without a plan's frame, for what an apply left open, or an explanation. */
export function formatTraffic(traffic: readonly Traffic[], people: People): readonly string[] {
  return describeTraffic(traffic, people).map(formatTrafficLine);
}
