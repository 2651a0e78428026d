import { assertNever } from '../model/result.ts';
import { toWire } from '../model/rule.ts';
import type { Plan, Step } from '../plan/plan.ts';
import { configure } from './configure.ts';
import { deleteModified } from './rebuild.ts';
import type { Session } from './session.ts';
import type { Settled, WriteOrder } from './write.ts';
import { createRule, deleteRule, noPortsMessage, updateRule } from './write-rule.ts';

/** Carries one step out, to an outcome; never throws for what the server or the network does. */
export async function perform(step: Step, plan: Plan, session: Session, order: WriteOrder): Promise<Settled> {
  if ((step.type === 'create' || step.type === 'update') && step.rule.ports !== null && session.noPorts) {
    return { outcome: 'failed', status: null, message: noPortsMessage };
  }
  switch (step.type) {
    case 'create':
      return createRule({ rule: step.rule, wire: toWire(step.rule) }, session, order);
    case 'delete': {
      const send = (): Promise<Settled> => deleteRule(step.live.id, step.live.rule, session, order);
      return step.mayRebuild ? deleteModified(send, session, order.priority) : send();
    }
    case 'update':
      return updateRule(step, session, order);
    case 'configure':
      return configure(step, plan, session, order);
    default:
      return assertNever(step);
  }
}
