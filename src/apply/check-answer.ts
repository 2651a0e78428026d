import { decodeLiveRule } from '../live/live-rules.ts';
import { formatRuleKey, type Rule } from '../model/rule.ts';
import type { Session } from './session.ts';
import type { Settled } from './write.ts';

/**
 * What a success answer says about the rule that was sent. `portsDropped`: a server without port rules took the rest of it
 * silently, so it holds for all ports (observed: recordings/port_rules_unsupported).
 */
export type AnswerCheck =
  | { readonly kind: 'same'; readonly id: string }
  | { readonly kind: 'differs'; readonly id: string; readonly stored: string; readonly portsDropped: boolean }
  | { readonly kind: 'unreadable' };

/** Compares canonically: the server echoes `/32` and upper case in these answers, and stores the canonical form. */
export function checkAnswer(sent: Rule, body: unknown): AnswerCheck {
  const decoded = decodeLiveRule(body);
  if (!decoded.ok) return { kind: 'unreadable' };
  const { id, rule } = decoded.value;
  const stored = formatRuleKey(rule);
  if (stored === formatRuleKey(sent)) return { kind: 'same', id };
  const portsDropped = sent.ports !== null && stored === formatRuleKey({ ...sent, ports: null });
  return { kind: 'differs', id, stored, portsDropped };
}

/** Why a rule with ports is not sent to a server that dropped the ports of another. */
export const noPortsMessage = 'not sent: the server drops the ports of rules';

/** The end of a write whose rule was stored differently; `undo` says what became of it. After dropped ports no rule with ports is sent. */
export function settleDiffering(
  { stored, portsDropped }: AnswerCheck & { readonly kind: 'differs' },
  sent: { readonly rule: Rule; readonly request: string; readonly status: number; readonly undo: string },
  session: Session,
): Settled {
  const { rule, request, status, undo } = sent;
  if (!portsDropped) {
    const message = `${request}: the server stored \`${stored}\` instead of \`${formatRuleKey(rule)}\`; ${undo}`;
    const problem = { code: 'answer-differs', severity: 'error', summary: message } as const;
    return { outcome: 'failed', status, message, problem };
  }
  session.noPorts = true;
  const message = `the server took \`${formatRuleKey(rule)}\` without its ports, for all ports; ${undo}`;
  const problem = {
    code: 'ports-dropped',
    severity: 'error',
    summary: `The server does not support port rules: ${message}.`,
    hint: 'Port rules need a kernel newer than 5.6.8 on the Firezone host; until then write rules without ports.',
  } as const;
  return { outcome: 'failed', status, message, problem };
}
