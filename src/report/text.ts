import type { ApplyReport } from '../apply/outcome.ts';
import { printable } from '../model/printable.ts';
import type { Change, Exposure, Plan, Refusal, Step } from '../plan/plan.ts';
import { type JoinedTraffic, joinUsers } from '../policy/render-traffic.ts';
import type { Effect } from '../policy/traffic.ts';
import { fieldLines } from './field-lines.ts';
import { type Paint, painter, type Tone } from './paint.ts';
import { lineText, placeText, problemsText } from './problems.ts';
import { ruleText, type TrafficWords, trafficGroups, trafficText, trafficTexts, type UserNames } from './rule-text.ts';
import type { Display, RunReport } from './run-report.ts';
import { applySummary, count, planSummary } from './summary.ts';

/** Pieces of traffic listed in the text output; the JSON output has them all. */
const shownTraffic = 20;
/** Of one exposure: of twenty exposures each shows something. */
const shownOfExposure = 8;

/** The plan for people: why rules are replaced, each change with its fields, the traffic, refusals, one summary line. */
export function planText(report: RunReport, { color }: Display): string {
  const paint = painter(color);
  const { plan } = report;
  const problems = problemsText(report.problems, color);
  if (plan === null) return problems;
  const context = contextOf(plan, report, paint);
  const sections = [
    problems.trimEnd(),
    headline(report, plan, paint),
    changesText(plan, context),
    plan.steps.length === 0 ? '' : effectText(plan.effect, context),
    exposureText(plan.exposure, context),
    refusalsText(plan.refusals, report, paint),
    `${paint('strong', planSummary(report, plan))}`,
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

/** What an apply did, for people: what is left open first, what failed, one summary line. */
export function applyText(report: RunReport, { color }: Display): string {
  const { apply, plan } = report;
  if (apply === null || plan === null) return '';
  const paint = painter(color);
  const context = contextOf(plan, report, paint);
  const problems = problemsText(apply.problems, color).trimEnd();
  const sections = [
    leftOpenText(apply, context),
    problems,
    outcomesText(apply, paint),
    paint(apply.end === 'converged' ? 'good' : 'error', applySummary(apply, report.plan)),
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

interface Context extends TrafficWords {
  readonly paint: Paint;
}

function contextOf(plan: Plan, { userNames }: RunReport, paint: Paint): Context {
  return { paint, names: userNames, hasUserRules: hasUserRules(plan) };
}

/** Whether a rule before or after the plan is for one user alone. */
export function hasUserRules(plan: Plan): boolean {
  return plan.changes.some(
    (change) => change.kind === 'Rule' && (change.live?.rule.userId ?? change.desired?.rule.userId ?? null) !== null,
  );
}

function headline(report: RunReport, plan: Plan, paint: Paint): string {
  const how =
    plan.ruleUpdates === 'patch'
      ? 'a changed rule is sent as PATCH'
      : plan.profile === 'firezone-0.7'
        ? "a changed rule is replaced (DELETE, POST): this server's packet filter does not follow a PATCH"
        : 'a changed rule is replaced (DELETE, POST)';
  const matters = plan.changes.some(({ kind, action }) => kind === 'Rule' && action === 'update');
  const lines = [`Profile ${plan.profile}${matters ? `: ${how}` : ''}.`];
  if (report.snapshot !== null) {
    lines.push(
      `Planned against a snapshot taken ${report.snapshot.takenAt} (${agoText(report.snapshot.ageMs)}), not the server.`,
    );
  }
  if (report.base !== null) lines.push(`Compared with ${printable(report.base)}${originText(plan)}.`);
  return paint('faint', lines.join('\n'));
}

/** What this commit itself does, beside drift and what earlier ones left. */
function originText({ changes }: Plan): string {
  const changed = changes.filter(
    ({ action, origin }) => action !== 'keep' && action !== 'skip' && origin !== undefined,
  );
  if (changed.length === 0) return '';
  const number = (origin: Change['origin']): number => changed.filter((change) => change.origin === origin).length;
  const earlier = number('earlier-not-applied');
  return `: ${count(number('this-revision'), 'change')} of this commit, ${number('drift')} of drift${earlier === 0 ? '' : `, ${earlier} of earlier commits, not applied`}`;
}

/** `5 minutes`, `3 hours`, `2 days`. */
export function ageText(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  if (minutes === 0) return 'less than a minute';
  const [number, unit] =
    minutes < 90
      ? [minutes, 'minute']
      : minutes < 48 * 60
        ? [Math.round(minutes / 60), 'hour']
        : [Math.round(minutes / 1440), 'day'];
  return `${number} ${unit}${number === 1 ? '' : 's'}`;
}

/** When something was, for people: `3 days ago`. A minute of difference between two clocks is none. */
export function agoText(ms: number): string {
  return ms < -60_000 ? 'later than the clock here says it is' : `${ageText(ms)} ago`;
}

function changesText(plan: Plan, context: Context): string {
  const shown = plan.changes.filter((change) => change.action !== 'keep');
  const width = Math.min(40, Math.max(0, ...shown.map((change) => labelOf(change).length)));
  return shown.map((change) => changeText(change, width, context)).join('\n');
}

function changeText(change: Change, width: number, { paint, names }: Context): string {
  const [symbol, tone] = symbolOf(change);
  const label = labelOf(change);
  const what = describe(change, names);
  const place = change.source === null ? '' : `  ${paint('faint', lineText(change.source))}`;
  const why = whyText(change);
  const line = `  ${paint(tone, symbol)} ${label.padEnd(what === '' ? 0 : width)}${what === '' ? '' : `  ${paint(tone, what)}`}${why === '' ? '' : `  ${paint('note', why)}`}${place}`;
  if (change.action !== 'update' && !(change.action === 'skip' && change.kind === 'Configuration')) return line;
  const fields = fieldLines(change.fields);
  const pathWidth = Math.min(48, Math.max(0, ...fields.map((field) => field.path.length)));
  return [line, ...fields.map(({ path, text }) => `      ${path.padEnd(pathWidth)}  ${text}`)].join('\n');
}

/** The mark of a change: `+` created, `-` deleted, `±` replaced, `~` patched, `·` left alone. */
export function symbolOf(change: Change): readonly [symbol: string, tone: Tone] {
  switch (change.action) {
    case 'create':
      return ['+', 'create'];
    case 'delete':
      return ['-', 'delete'];
    case 'update':
      return change.via === 'replace' ? ['±', 'replace'] : ['~', 'update'];
    case 'keep':
      return ['=', 'faint'];
    case 'skip':
      return ['·', 'faint'];
  }
}

/** The object's name for people; a live rule without one goes by its id. */
export function labelOf(change: Change): string {
  if (change.kind === 'Configuration')
    return change.name === null ? 'Configuration' : `Configuration ${printable(change.name)}`;
  return printable(change.name ?? change.id ?? 'rule');
}

function describe(change: Change, names: UserNames): string {
  if (change.kind === 'Configuration') return '';
  const before = change.live === null ? null : ruleText(change.live.rule, names);
  const after = change.desired === null ? null : ruleText(change.desired.rule, names);
  if (change.action === 'update' && before !== null && after !== null && before !== after)
    return `${before} → ${after}`;
  return (change.action === 'delete' ? before : (after ?? before)) ?? '';
}

/** Why, where it is not plain from the mark. */
export function whyText(change: Change): string {
  const origin = { 'this-revision': 'this commit', drift: 'drift', 'earlier-not-applied': 'earlier, not applied' };
  const reason: Partial<Record<Change['reason'], string>> = {
    'modified-in-place': 'modified in place on the server',
    'not-enforced': 'the kernel does not hold it',
    duplicate: 'a second copy of the same rule',
    'prune-off': 'not in the manifests; kept, because pruning is off',
    'out-of-scope': 'outside the scope',
    'unknown-secret': 'differs at most in secrets that are not available here',
    unsent: 'differs, and is not sent without a secret that is not available here',
  };
  const parts = [reason[change.reason], change.origin === undefined ? undefined : origin[change.origin]];
  const text = parts.filter((part) => part !== undefined).join(', ');
  return text === '' ? '' : `(${text})`;
}

function effectText(effect: Effect, context: Context): string {
  const { paint } = context;
  if (effect.opens.length === 0 && effect.closes.length === 0) return 'No traffic changes.';
  return [
    paint('strong', 'Traffic'),
    ...trafficLines('opens ', 'create', joinUsers(effect.opens), context),
    ...trafficLines('closes', 'delete', joinUsers(effect.closes), context),
  ].join('\n');
}

function trafficLines(
  label: string,
  tone: Tone,
  groups: readonly JoinedTraffic[],
  context: Context,
): readonly string[] {
  const { paint } = context;
  const all = trafficGroups(groups);
  const lines = all.slice(0, shownTraffic).map((one) => `  ${paint(tone, label)}  ${trafficText(one, context)}`);
  const left = all.length - shownTraffic;
  return left > 0 ? [...lines, `  ${paint(tone, label)}  and ${left} more (--output json lists all)`] : lines;
}

function exposureText(exposure: readonly Exposure[], context: Context): string {
  if (exposure.length === 0) return '';
  const { paint } = context;
  const lines = exposure.slice(0, shownTraffic).flatMap((item) => {
    const label = item.direction === 'opened' ? 'opened ' : 'cut off';
    const when = `from ${item.fromStep} to ${item.toStep}, about ${Math.round(item.expectedMs)} ms: `;
    const all = trafficGroups(joinUsers(item.traffic));
    const texts = all.slice(0, shownOfExposure).map((one) => trafficText(one, context));
    const more = all.length - shownOfExposure;
    return [...texts, ...(more > 0 ? [`and ${more} more (--output json lists all)`] : [])].map(
      (text) => `  ${paint('warning', label)}  ${when}${text}`,
    );
  });
  const left = exposure.length - shownTraffic;
  return [
    paint('strong', 'On the way'),
    ...lines,
    ...(left > 0 ? [`  and ${left} more (--output json lists all)`] : []),
  ].join('\n');
}

function refusalsText(refusals: readonly Refusal[], report: RunReport, paint: Paint): string {
  if (refusals.length === 0) return '';
  const title = report.approved ? paint('warning', 'Refused, and approved by digest') : paint('error', 'Refused');
  const lines = refusals.flatMap(({ code, summary, hint, related }) => [
    `  ${paint('error', '✗')} ${printable(summary)} ${paint('faint', `[${code}]`)}`,
    ...(related ?? []).map(({ place, note }) => `      ${placeText(place)} ${printable(note)}`),
    `      ${paint('note', 'hint:')} ${printable(hint)}`,
  ]);
  return [title, ...lines].join('\n');
}

/** What stands above the traffic that a gap left open. */
export const leftOpenTitle = 'LEFT OPEN: rules that should drop this traffic are missing, or may be';

function leftOpenText(apply: ApplyReport, context: Context): string {
  if (apply.leftOpen.length === 0) return '';
  const lines = trafficTexts(joinUsers(apply.leftOpen), context).map((text) => `  ${text}`);
  return [context.paint('error', leftOpenTitle), ...lines].join('\n');
}

function outcomesText(apply: ApplyReport, paint: Paint): string {
  return apply.outcomes
    .filter(({ outcome }) => outcome !== 'done' && outcome !== 'skipped')
    .map(({ step, outcome, message, restored }) => {
      const why = message === undefined ? '' : `: ${printable(message)}`;
      return `  ${paint('error', outcome.padEnd(7))} ${stepText(step)}${why}${restored === true ? ' (restored)' : ''}`;
    })
    .join('\n');
}

/** A step for people: `s3 create accept 10.0.0.0/8`. */
export function stepText(step: Step): string {
  switch (step.type) {
    case 'create':
      return `${step.id} create ${ruleText(step.rule, new Map())}`;
    case 'delete':
      return `${step.id} delete ${ruleText(step.live.rule, new Map())}`;
    case 'update':
      return `${step.id} patch ${ruleText(step.live.rule, new Map())} → ${ruleText(step.rule, new Map())}`;
    case 'configure':
      return `${step.id} configure ${step.fields.join(', ')}`;
  }
}
