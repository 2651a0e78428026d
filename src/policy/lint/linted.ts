import type { DesiredRule } from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
import type { RuleIndex } from '../rule-index.ts';

/** What the lint looks at. */
export interface LintInput {
  readonly desired: DesiredState;
  /** Ids of all users that the server knows; null when it was not asked. */
  readonly serverUsers: ReadonlySet<string> | null;
}

/** The same with the rules indexed. */
export interface Linted extends LintInput {
  readonly rules: readonly DesiredRule[];
  readonly index: RuleIndex<DesiredRule>;
}
