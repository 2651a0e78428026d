import { printable, shortened } from '../model/printable.ts';
import type { Change, Plan } from '../plan/plan.ts';
import { joinUsers } from '../policy/render-traffic.ts';
import { fieldLines } from './field-lines.ts';
import { pathBelow, placeText } from './problems.ts';
import { ruleText, trafficTexts } from './rule-text.ts';
import type { RunReport } from './run-report.ts';
import { applySummary, count, planSummary } from './summary.ts';
import { agoText, hasUserRules, labelOf, leftOpenTitle, stepText, symbolOf, whyText } from './text.ts';

/** Characters of a comment at most; GitHub takes 65,536, GitLab more. */
const largest = 60_000;
/** Items listed of each kind, largest first: the first that fits is taken, and what is left out is counted. */
const limits = [1000, 300, 100, 30, 10, 3];
/** How a later run finds its comment again. */
export const marker = '<!-- reconcile-plan -->';

/** The plan as Markdown for a comment or a job summary: the effect first, details folded, never longer than a comment may be. */
export function markdownText(report: RunReport): string {
  let text = '';
  for (const limit of limits) {
    text = render(report, limit);
    if (text.length <= largest) return text;
  }
  const cut = text.slice(0, largest - 200);
  return `${cut.slice(0, cut.lastIndexOf('\n'))}\n\nCut here: too long for a comment. \`--output json=FILE\` has all of it.\n`;
}

function render(report: RunReport, limit: number): string {
  const { plan } = report;
  const sections = [
    // The comment that a later run finds again is the plan's.
    report.headline === undefined ? `${marker}\n### ${title(report)}` : `### ${prose(report.headline)}`,
    leftOpenSection(report, limit),
    ...(plan === null ? [] : [originText(plan), refusalText(report, plan), effectSection(report, plan, limit)]),
    applySection(report, limit),
    problemSection(report, limit),
    ...(plan === null
      ? []
      : [exposureSection(report, plan, limit), changesSection(report, plan, limit), footer(report, plan)]),
  ];
  return `${sections.filter((section) => section !== '').join('\n\n')}\n`;
}

function title(report: RunReport): string {
  const { plan, problems, apply } = report;
  const errors = problems.filter(({ severity }) => severity === 'error').length;
  if (plan === null) return `reconcile: no plan, ${count(errors, 'error')}`;
  if (apply !== null) return `reconcile: ${code(applySummary(apply, plan))}`;
  return `reconcile: ${planSummary({ ...report, digest: null }, plan)}`;
}

/** Of an apply whose gaps could not be closed this is what must be read, if nothing else is. */
function leftOpenSection({ apply, plan, userNames }: RunReport, limit: number): string {
  if (apply === null || apply.leftOpen.length === 0) return '';
  const words = { names: userNames, hasUserRules: plan !== null && hasUserRules(plan) };
  const lines = trafficTexts(joinUsers(apply.leftOpen), words).map((text) => `- ${code(text)}`);
  return [`**${leftOpenTitle}:**`, '', ...list(lines, limit)].join('\n');
}

/** What the pull request itself does, beside drift and what earlier commits left. */
function originText(plan: Plan): string {
  const changed = plan.changes.filter(({ action }) => action !== 'keep' && action !== 'skip');
  if (!changed.some(({ origin }) => origin !== undefined)) return '';
  const number = (origin: Change['origin']): number => changed.filter((change) => change.origin === origin).length;
  return `This revision: **${count(number('this-revision'), 'change')}**. Drift on the server: **${number('drift')}**. Earlier, not applied: **${number('earlier-not-applied')}**.`;
}

function refusalText(report: RunReport, { refusals }: Plan): string {
  if (refusals.length === 0) return '';
  const head = report.approved
    ? '**Refused by a guard, and approved by its digest:**'
    : '**Refused: nothing will be written.**';
  return [head, '', ...refusals.map(({ summary, hint }) => `- ${prose(summary)}  \n  Hint: ${prose(hint)}`)].join('\n');
}

function effectSection(report: RunReport, plan: Plan, limit: number): string {
  if (plan.steps.length === 0) return '';
  const { opens, closes } = plan.effect;
  if (opens.length === 0 && closes.length === 0) return '**No traffic changes.**';
  const words = { names: report.userNames, hasUserRules: hasUserRules(plan) };
  const lines = (label: string, texts: readonly string[]): readonly string[] =>
    list(
      texts.map((text) => `- **${label}** ${code(text)}`),
      limit,
    );
  return [
    '**Traffic**',
    '',
    ...lines('opens', trafficTexts(joinUsers(opens), words)),
    ...lines('closes', trafficTexts(joinUsers(closes), words)),
  ].join('\n');
}

function applySection({ apply }: RunReport, limit: number): string {
  if (apply === null) return '';
  const notDone = apply.outcomes.filter(({ outcome }) => outcome !== 'done' && outcome !== 'skipped');
  return list(
    notDone.map(({ step, outcome, message }) => `- **${outcome}** ${code(stepText(step))} ${prose(message ?? '')}`),
    limit,
  ).join('\n');
}

function problemSection({ problems, root }: RunReport, limit: number): string {
  if (problems.length === 0) return '';
  const lines = problems.map(({ severity, code: name, summary, hint, place }) => {
    const where = place === undefined ? '' : `${code(placeText({ ...place, file: pathBelow(place.file, root) }))} `;
    return `- **${severity}** ${where}${prose(summary)} (${name})${hint === undefined ? '' : `  \n  Hint: ${prose(hint)}`}`;
  });
  return folded(
    `Problems (${problems.length})`,
    list(lines, limit),
    problems.some(({ severity }) => severity === 'error'),
  );
}

function exposureSection(report: RunReport, plan: Plan, limit: number): string {
  if (plan.exposure.length === 0) return '';
  const words = { names: report.userNames, hasUserRules: hasUserRules(plan) };
  const lines = plan.exposure.flatMap(({ direction, traffic, fromStep, toStep, expectedMs }) =>
    trafficTexts(joinUsers(traffic), words).map(
      (text) =>
        `- **${direction === 'opened' ? 'opened' : 'cut off'}** ${code(text)} from ${fromStep} to ${toStep}, about ${Math.round(expectedMs)} ms`,
    ),
  );
  return folded(`On the way (${lines.length})`, list(lines, limit), true);
}

function changesSection(report: RunReport, plan: Plan, limit: number): string {
  const changed = plan.changes.filter(({ action }) => action !== 'keep');
  if (changed.length === 0) return '';
  const lines = changed.map((change) => changeLine(change, report));
  return folded(`Changes (${changed.length})`, list(lines, limit), false);
}

function changeLine(change: Change, { userNames, root }: RunReport): string {
  const [symbol] = symbolOf(change);
  const why = whyText(change);
  const place =
    change.source === null ? '' : ` ${code(`${pathBelow(change.source.file, root)}:${change.source.line}`)}`;
  const what = change.kind === 'Rule' ? ` ${code(ruleWords(change, userNames))}` : '';
  const fields =
    change.kind === 'Configuration'
      ? fieldLines(change.fields).map(({ path, text }) => `  - ${code(`${path}: ${text}`)}`)
      : [];
  return [
    `- ${code(symbol)} ${code(labelOf(change))}${what}${why === '' ? '' : ` ${prose(why)}`}${place}`,
    ...fields,
  ].join('\n');
}

function ruleWords(change: Extract<Change, { kind: 'Rule' }>, names: ReadonlyMap<string, string>): string {
  const before = change.live === null ? null : ruleText(change.live.rule, names);
  const after = change.desired === null ? null : ruleText(change.desired.rule, names);
  if (change.action === 'update' && before !== null && after !== null && before !== after)
    return `${before} → ${after}`;
  return (change.action === 'delete' ? before : (after ?? before)) ?? '';
}

function footer(report: RunReport, plan: Plan): string {
  const snapshot =
    report.snapshot === null
      ? ''
      : ` Planned against a snapshot taken ${report.snapshot.takenAt} (${agoText(report.snapshot.ageMs)}).`;
  const how = plan.ruleUpdates === 'replace' ? 'Changed rules are replaced' : 'Changed rules are patched';
  return `<sub>Profile ${plan.profile}. ${how}.${snapshot} Digest ${code(report.digest ?? 'none')}.</sub>`;
}

/** The first `limit` lines, and how many are left out. */
function list(lines: readonly string[], limit: number): readonly string[] {
  const left = lines.length - limit;
  return left <= 0 ? lines : [...lines.slice(0, limit), `- and ${left} more (\`--output json=FILE\` has all)`];
}

function folded(summary: string, lines: readonly string[], open: boolean): string {
  return `<details${open ? ' open' : ''}><summary>${summary}</summary>\n\n${lines.join('\n')}\n\n</details>`;
}

/** Text as Markdown code: nothing in it is markup, whatever it holds. */
export function code(text: string): string {
  const clean = shortened(printable(text), 400);
  const longest = Math.max(0, ...(clean.match(/`+/g) ?? []).map((run) => run.length));
  if (longest === 0) return `\`${clean}\``;
  const fence = '`'.repeat(longest + 1);
  return `${fence} ${clean} ${fence}`;
}

/** Text as Markdown prose: markup, HTML, mentions, references and addresses are shown and neither obeyed nor linked. */
export function prose(text: string): string {
  return shortened(printable(text), 1000)
    .replace(/[\\`*_{}[\]()<>#!|~&$]|^[-+]|^\d+(?=[.)])|(?<=^\d+)[.)]/g, '\\$&')
    .replace(/[@#]|:(?=\/\/)|\b(?:www(?=\.)|GH(?=-\d))/gi, '$&\u2060');
}
