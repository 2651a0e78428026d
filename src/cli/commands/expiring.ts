import { countMs, formatInstant } from '../../model/instant.ts';
import { escapeControls } from '../../model/printable.ts';
import { compareText, hasErrors } from '../../model/problem.ts';
import { listAllRules, listBoundaries } from '../../model/state.ts';
import { formatRule } from '../../policy/words.ts';
import { formatNotes, makeNotesMembers } from '../../report/change-words.ts';
import { renderDocument } from '../../report/json.ts';
import { formatPlace, renderProblems, stripRoot } from '../../report/problems.ts';
import { makeProblemReport } from '../../report/run-report.ts';
import { count } from '../../report/summary.ts';
import { renderTableMarkdown } from '../../report/table.ts';
import { type Answer, chooseExitCode, type Invocation } from '../command.ts';
import { buildOperand, makeDesiredContext } from '../manifests.ts';

/** Without `--within`. */
const farthest = '30d';

/** `reconcile expiring PATH --within 30d`: the rules that end soon, and those that have ended and still stand in the manifests. */
export async function run(invocation: Invocation): Promise<Answer> {
  const { settings } = invocation;
  const within = countMs(settings.within ?? farthest);
  const { path, written, state, ...built } = await buildOperand(invocation, 'expiring');
  const problems = built.problems.filter(({ code }) => code !== 'expired' && code !== 'expiry-opens');
  const now = state?.at ?? makeDesiredContext(invocation, path).now;
  const rules = state === null ? [] : listAllRules(state);
  const ends = listBoundaries({ rules }, Number.NEGATIVE_INFINITY, now + within)
    .filter(({ what }) => what === 'ends')
    .toSorted((a, b) => a.at - b.at || compareText(a.rule.name, b.rule.name));
  const names = state?.userNames ?? new Map<string, string>();
  const list = ends.map(({ rule: { notBefore: _, ...rule }, at }) => {
    const cells = [escapeControls(rule.name), formatRule(rule.rule, names), formatNotes(rule, now)] as const;
    const summary = `${cells[2]}: ${cells[0]}, ${cells[1]}`;
    const code = at <= now ? 'expired' : 'expires-soon';
    return { code, severity: 'note', summary, place: rule.place, cells } as const;
  });
  const gone = list.filter(({ code }) => code === 'expired').length;
  const soon = list.length - gone;
  const ended = gone === 0 ? '' : `, and ${gone} ${gone === 1 ? 'has' : 'have'} ended`;
  const period = `of ${written} ${soon === 1 ? 'ends' : 'end'} within ${settings.within ?? farthest}`;
  const { length: errors } = problems.filter(({ severity }) => severity === 'error');
  const unknown = `cannot tell which rules ${period}: ${count(errors, 'error')}`;
  const headline = state === null ? unknown : `${count(soon, 'rule')} ${period}${ended}`;
  const table = [
    ['rule', 'traffic', 'until when', 'where'],
    ...list.map(({ cells, place }) => [...cells, formatPlace({ ...place, file: stripRoot(place.file, written) })]),
  ];
  return {
    exit: chooseExitCode({ invalid: hasErrors(problems) }),
    failed: state === null,
    text: ({ color }) => {
      const lines = list.map(({ summary, place }) => `  ${summary}  ${formatPlace(place)}\n`);
      return `${renderProblems(problems, color)}${state === null ? '' : `${lines.join('')}${headline}.\n`}`;
    },
    document: () => {
      const expiring = ends.map(({ rule }) => {
        return { name: rule.name, ...makeNotesMembers(rule), file: rule.place.file, line: rule.place.line };
      });
      return renderDocument({ at: formatInstant(now), expiring }, problems);
    },
    report: () => ({ ...makeProblemReport([...problems, ...list]), root: written, headline }),
    ...(list.length > 0 && { rendered: { markdown: () => renderTableMarkdown(table, headline) } }),
  };
}
