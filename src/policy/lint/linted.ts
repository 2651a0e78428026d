import type { DesiredRule } from '../../model/rule.ts';
import type { DesiredState } from '../../model/state.ts';
import type { RuleIndex } from '../rule-index.ts';
import type { Leaders } from './leaders.ts';
import type { Ranking } from './ranking.ts';

export interface Linted {
  readonly desired: DesiredState;
  readonly rules: readonly DesiredRule[];
  readonly index: RuleIndex<DesiredRule>;
  readonly ranking: Ranking<DesiredRule>;
  readonly leaders: Leaders<DesiredRule>;
}
