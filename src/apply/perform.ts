import { never } from '../model/result.ts';
import type { Plan, Step } from '../plan/plan.ts';
import { configure } from './configure.ts';
import { createRule, creationOf } from './create-rule.ts';
import { deleteById } from './delete-rule.ts';
import type { Lane } from './gate.ts';
import { noPortsMessage } from './port-rules.ts';
import { lookBeforeRebuild, outlastRebuild } from './rebuild.ts';
import type { Session } from './session.ts';
import type { Settled } from './settled.ts';
import { updateRule } from './update-rule.ts';

/** Carries one step out, to an outcome; never throws for what the server or the network does. */
export async function perform(step: Step, plan: Plan, session: Session, lane: Lane): Promise<Settled> {
  if ((step.type === 'create' || step.type === 'update') && step.rule.ports !== null && session.noPorts) {
    return { outcome: 'failed', status: null, message: noPortsMessage };
  }
  switch (step.type) {
    case 'create':
      return createRule(creationOf(step.rule), session, lane);
    case 'delete': {
      const before = step.mayRebuild ? await lookBeforeRebuild(session) : null;
      const settled = await deleteById(step.live.id, session, lane);
      if (step.mayRebuild && settled.outcome !== 'failed') await outlastRebuild(before, session, lane);
      return settled;
    }
    case 'update':
      return updateRule(step, session, lane);
    case 'configure':
      return configure(step, plan, session);
    default:
      return never(step);
  }
}
