import { decodeLiveRule } from '../live/live-rules.ts';
import { type Rule, ruleKey } from '../model/rule.ts';

/**
 * What a success answer says about the rule that was sent. `ports-dropped`: a server without port rules took the rest of it
 * silently, so it holds for all ports (observed: recordings/port_rules_unsupported). `differs`: it stored something else.
 */
export type AnswerCheck =
  | { readonly kind: 'same'; readonly id: string }
  | { readonly kind: 'ports-dropped'; readonly id: string }
  | { readonly kind: 'differs'; readonly id: string; readonly stored: string }
  | { readonly kind: 'unreadable'; readonly why: string };

/** Compares canonically: the server echoes `/32` and upper case in these answers, and stores the canonical form. */
export function checkAnswer(sent: Rule, body: unknown): AnswerCheck {
  const decoded = decodeLiveRule(body);
  if (!decoded.ok) return { kind: 'unreadable', why: decoded.error };
  const { id, rule } = decoded.value;
  if (ruleKey(rule) === ruleKey(sent)) return { kind: 'same', id };
  if (sent.ports !== null && rule.ports === null && ruleKey(rule) === ruleKey({ ...sent, ports: null })) {
    return { kind: 'ports-dropped', id };
  }
  return { kind: 'differs', id, stored: ruleKey(rule) };
}
