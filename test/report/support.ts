import { parseNetwork } from '../../src/model/address.ts';
import type { Problem } from '../../src/model/problem.ts';
import { findProfile } from '../../src/model/profile.ts';
import type { DesiredRule, LiveRule, Rule } from '../../src/model/rule.ts';
import { wholeScope } from '../../src/model/state.ts';
import { defaultPlanOptions, type PlanOptions } from '../../src/plan/input.ts';
import { makePlan } from '../../src/plan/make-plan.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { makeProblemReport, type RunReport } from '../../src/report/run-report.ts';

export const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';

/** `drop 10.0.0.0/8 tcp 443 for UUID`, as a rule. */
export function ruleOf(text: string): Rule {
  const [, action, destination = '', type, low, high, user] =
    /^(accept|drop) (\S+)(?: (tcp|udp) ([0-9]+)(?:-([0-9]+))?)?(?: for (\S+))?$/.exec(text) ?? [];
  const parsed = parseNetwork(destination);
  if (!parsed.ok) throw new Error(text);
  const ports =
    type === undefined ? null : { type: type as 'tcp' | 'udp', low: Number(low), high: Number(high ?? low) };
  return { action: action as Rule['action'], destination: parsed.value.network, ports, userId: user ?? null };
}

/** A plan from live to desired rules; desired ones by name. Ids, places and times are made up and always the same. */
export function planOf(
  live: readonly string[],
  desired: Readonly<Record<string, string>>,
  options: Partial<PlanOptions> = {},
): Plan {
  const liveRules: readonly LiveRule[] = live.map((text, index) => {
    const rule = ruleOf(text);
    const time = '2026-01-01T00:00:00.000000Z';
    const id = `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
    return { id, rule, destinationText: rule.destination.text, insertedAt: time, updatedAt: time };
  });
  const rules: readonly DesiredRule[] = Object.entries(desired).map(([name, text], index) => ({
    name,
    rule: ruleOf(text),
    place: { file: 'rules.yaml', line: index + 1, column: 1 },
  }));
  return makePlan({
    desired: { rules, configuration: null, userNames: new Map(), tests: [], digest: 'd' },
    live: { rules: liveRules, configuration: null },
    base: null,
    profile: findProfile('firezone-0.7'),
    scope: wholeScope,
    options: {
      ...defaultPlanOptions,
      maxDeletes: { share: 1 },
      maxChanges: { share: 1 },
      allowEmpty: true,
      ...options,
    },
  });
}

/** A report of a plan that was not applied. */
export function reportOf(plan: Plan | null, given: Partial<RunReport> = {}): RunReport {
  return {
    ...makeProblemReport(plan?.problems ?? []),
    root: 'policy',
    plan,
    digest: '0123456789abcdef0123456789abcdef',
    userNames: new Map([[alice, 'alice']]),
    ...given,
  };
}

/** A problem with everything that a terminal, a log or Markdown could take for a command. */
export const hostile: Problem = {
  code: 'internal-error',
  severity: 'error',
  summary:
    'a name with \u001b[31mANSI\u001b[0m, \r\n::error::injected, `ticks`, <script>, @everyone, \u202Ebidi, | pipes |',
  hint: '</details>\n\n# heading [link](javascript:alert(1))',
  place: { file: 'dir/\u001b]0;title\u0007a.yaml', line: 2, column: 3 },
  excerpt: '  \tname: \u001b[2Jevil\u009b31m',
};
