import { type Finding, type KernelState, listEnforcementProblems } from '../enforcement/report.ts';
import { createPaint } from './paint.ts';
import { renderProblems } from './problems.ts';
import type { Display, RunReport } from './run-report.ts';
import { count } from './summary.ts';
import { makeEffectDocument } from './traffic-json.ts';

/** The kernel's part of the text output: after an apply its findings, always one summary line; empty when nobody looked. */
export function renderEnforcement(run: RunReport, { color }: Display): string {
  if (run.kernel === undefined) return '';
  const { report } = run.kernel;
  const problems = run.apply === null ? '' : renderProblems(listEnforcementProblems(report), color);
  const line = createPaint(color)(report.state === 'enforced' ? 'strong' : 'error', summariseEnforcement(run.kernel));
  return `${problems}${problems === '' ? '' : '\n'}${line}\n`;
}

/** `Enforced: the kernel holds 12 live rules and nothing else (waited 0.8 s).` or what is wrong. */
export function summariseEnforcement({ report, waitedMs }: KernelState): string {
  const { counts, liveRules } = report;
  const waited = waitedMs === null ? '' : ` (waited ${(waitedMs / 1000).toFixed(1)} s)`;
  switch (report.state) {
    case 'enforced':
      return `Enforced: the kernel holds ${count(liveRules, 'live rule')} and nothing else${waited}.`;
    case 'unreadable':
      return `Enforcement unknown: ${report.message ?? 'the kernel could not be asked'}.`;
    case 'differs': {
      const kinds = (['missing', 'stale', 'extra', 'structure'] as const).filter((kind) => counts[kind] > 0);
      const parts = kinds.map((kind) => `${counts[kind]} ${kind === 'structure' ? 'other' : kind}`).join(', ');
      return `Not enforced: the kernel differs from ${count(liveRules, 'live rule')}: ${parts}${waited}.`;
    }
  }
}

export function makeEnforcementDocument({ report, waitedMs }: KernelState): Readonly<Record<string, unknown>> {
  return {
    state: report.state,
    message: report.message,
    ...report.counts,
    waited_ms: waitedMs === null ? null : Math.round(waitedMs),
    findings: report.findings.map(findingOf),
  };
}

function findingOf({ kind, summary, rules, elements, effect }: Finding): unknown {
  const known = rules.map(({ id, key: rule, name, place }) => {
    const { file = null, line = null } = place ?? {};
    return { id, rule, name, file, line };
  });
  return { kind, summary, rules: known, elements, effect: makeEffectDocument(effect) };
}
