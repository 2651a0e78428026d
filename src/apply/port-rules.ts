import { type Rule, ruleKey } from '../model/rule.ts';
import type { Session } from './session.ts';
import type { Settled } from './settled.ts';

/**
 * The server answered a success without the ports: it does not support port rules, and what it stored holds for all ports
 * (observed: recordings/port_rules_unsupported). From here on no rule with ports is sent in this apply.
 */
export function portsDropped(rule: Rule, status: number, undo: string, session: Session): Settled {
  session.noPorts = true;
  const message = `the server took \`${ruleKey(rule)}\` without its ports, for all ports; ${undo}`;
  return {
    outcome: 'failed',
    status,
    message,
    problem: {
      code: 'ports-dropped',
      severity: 'error',
      summary: `The server does not support port rules: ${message}.`,
      hint: 'Port rules need a kernel newer than 5.6.8 on the Firezone host; until then write rules without ports.',
    },
  };
}

/** Why a rule with ports is not sent to a server that dropped the ports of another. */
export const noPortsMessage = 'not sent: the server drops the ports of rules';
