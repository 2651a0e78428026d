import { groupBy } from '../model/group-by.ts';
import type { Exposure, Plan } from '../plan/plan.ts';
import { formatLabel } from './change-words.ts';
import { takeWorst } from './summary.ts';
import { describeTraffic, formatTrafficLine } from './traffic/describe.ts';
import type { People } from './traffic/people.ts';

/** A headline that is true if nothing else is read, lines that each begin with a word, and what was left out, in words. */
export interface PagePart<L = { readonly label: 'open' | 'cut off'; readonly text: string }> {
  readonly headline: string;
  readonly lines: readonly L[];
  readonly left: string;
}

/** Exposures put into words at most. */
const mostExposures = 2000;

/** What is open or cut off while a plan with exposures is carried out: at most `lines` of them. */
export function describeExposures(plan: Plan, people: People, lines: number): PagePart {
  const moments = new Set(plan.exposure.map(({ fromStep, toStep }) => `${fromStep} ${toStep}`)).size;
  const longest = plan.exposure.reduce((most, { expectedMs }) => Math.max(most, expectedMs), 0);
  const all = alikeExposures(plan, people).map(({ label, line, networks, during, expectedMs }) => {
    const time = moments === 1 ? '' : `for up to ${durationText(expectedMs)}: `;
    const named = networks.size <= (lines === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : 4);
    const what = named
      ? [[...networks].join(', '), line.words].filter(Boolean).join(' ')
      : `${networks.size} networks${line.words === '' ? '' : `, ${line.words}`}`;
    const text = line.networks.length === 0 ? formatTrafficLine(line) : formatTrafficLine({ ...line, what });
    return { label, text: `${time}${text}, ${during}` };
  });
  const which = moments === 1 ? 'one moment, about' : `${moments} moments, each up to`;
  const taken = takeWorst(all, lines, ({ label }) => Number(label !== 'open'), 'are open');
  const cut = plan.exposure.length > mostExposures ? `; told of ${mostExposures} of ${plan.exposure.length}` : '';
  return { headline: `${which} ${durationText(longest)}${cut}`, ...taken };
}

/** Exposures of the same kind while the same thing happens: one entry for 45 addresses. */
function alikeExposures(plan: Plan, people: People) {
  const rankOf = ({ direction }: Exposure): number => Number(direction !== 'opened');
  const told = takeWorst(plan.exposure, mostExposures, rankOf).lines.flatMap((exposure) => {
    const label = exposure.direction === 'opened' ? ('open' as const) : ('cut off' as const);
    const one = { label, during: duringText(plan, exposure), expectedMs: exposure.expectedMs };
    return describeTraffic(exposure.traffic, people).map((line) => ({ ...one, line }));
  });
  const alike = groupBy(told, ({ label, during, line }) => {
    return [label, during, line.who, line.networks.length === 0 ? line.what : line.words].join('\n');
  });
  return [...alike.values()].flatMap((same) => {
    const networks = new Set(same.flatMap(({ line }) => line.networks));
    const expectedMs = same.reduce((most, one) => Math.max(most, one.expectedMs), 0);
    return same.slice(0, 1).map((first) => ({ ...first, networks, expectedMs }));
  });
}

/** `while office/web is replaced`. */
function duringText(plan: Plan, { fromStep, toStep }: Exposure): string {
  const [from, to] = [fromStep, toStep].map((id) => plan.steps.find((step) => step.id === id)?.change);
  const subject = (index: number | undefined): string => {
    const change = index === undefined ? undefined : plan.changes[index];
    return change === undefined ? 'a rule' : formatLabel(change).split('/').slice(0, 2).join('/');
  };
  if (subject(from) === subject(to)) return `while ${subject(from)} is replaced`;
  return `until ${subject(to)} follows ${subject(from)}`;
}

/** `26 ms`, `0.6 s`, `75 s`. */
function durationText(ms: number): string {
  return ms < 100 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
}
