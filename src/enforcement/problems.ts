import { groupBy } from '../model/group-by.ts';
import { joinSome } from '../model/printable.ts';
import type { Problem } from '../model/problem.ts';
import type { Traffic } from '../policy/traffic.ts';
import { type EnforcementReport, type Finding, mendable } from './report.ts';

/** Findings of one kind that are shown in full; what is left is counted. */
const shownOfKind = 20;
const shownDestinations = 4;
const shownRules = 10;

/** The report as problems for a person: one a finding (`kernel-missing`, `kernel-stale`, …), warnings all. */
export function listEnforcementProblems(report: EnforcementReport): readonly Problem[] {
  if (report.state === 'unreadable') {
    const summary = `The kernel's packet filter could not be checked: ${report.message ?? 'no reason was given'}.`;
    return [{ code: 'kernel-unreadable', severity: 'warning', summary }];
  }
  return [...groupBy(report.findings, ({ kind }) => kind)].flatMap(([kind, findings]) => {
    const shown = findings.slice(0, shownOfKind).map(problemOf);
    const left = findings.length - shown.length;
    const rest = { code: `kernel-${kind}`, severity: 'warning', summary: `${left} more of this kind.` } as const;
    return left > 0 ? [...shown, rest] : shown;
  });
}

function problemOf(finding: Finding): Problem {
  const summary = `${finding.summary.charAt(0).toUpperCase()}${finding.summary.slice(1)}.`;
  // The rules without effect, where the summary only counts them.
  const names = finding.rules.map(({ name, key }) => name ?? key);
  const { opens, closes } = finding.effect;
  const hints = [
    names.length > 1 && `concerns ${joinSome(names, shownRules)}`,
    opens.length > 0 && `lets pass what the rules drop: ${trafficText(opens)}`,
    closes.length > 0 && `drops what the rules accept: ${trafficText(closes)}`,
    remedyOf(finding),
  ];
  const hint = hints.filter(Boolean).join('; ');
  const place = finding.rules.length === 1 ? finding.rules[0]?.place : null;
  return { code: `kernel-${finding.kind}`, severity: 'warning', summary, hint, ...(place ? { place } : {}) };
}

function trafficText(traffic: readonly Traffic[]): string {
  const texts = traffic.map(({ destinations, protocol }) => {
    return `${protocol === 'other' ? 'other protocols' : protocol} to ${joinSome(destinations, shownDestinations)}`;
  });
  const unlike = [...new Set(texts)];
  return unlike.length > 3 ? `${unlike.slice(0, 3).join('; ')}; and more` : unlike.join('; ');
}

function remedyOf({ kind, dormant }: Finding): string {
  if (dormant === true) return 'wake it on the host with `nft add table inet firezone`';
  if (mendable.includes(kind)) return 'replace it with `--repair`, or wait if the server was just started';
  if (kind === 'unknown') return 'find out who made it: it may decide before the rules do';
  return 'a restart of the server builds its filter anew';
}
