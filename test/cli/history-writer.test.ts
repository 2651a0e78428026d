import { expect, it } from 'vitest';
import type { ApplyReport } from '../../src/apply/outcome.ts';
import { createHistoryWriter } from '../../src/cli/history.ts';
import type { ApplyRecord } from '../../src/pass/history.ts';
import type { PassResult } from '../../src/pass/pass.ts';
import type { Plan, Step } from '../../src/plan/plan.ts';
import { liveRules } from '../plan/support.ts';

it('says when a rule ends that only a plan made on the way deleted, so that an undo does not bring it back for good', async () => {
  const [first, later] = liveRules('accept 10.0.0.1', 'accept 10.0.0.2');
  if (first === undefined || later === undefined) throw new Error('two rules');
  const deletion = (live: typeof first): Step => ({
    ...{ type: 'delete', id: live.id, live, change: 0, after: [], gap: null, mayRebuild: false },
  });
  const records: ApplyRecord[] = [];
  const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const history = createHistoryWriter(
    null,
    logger,
    async (record) => void records.push(record),
    () => ({ name: 'r', expires: 7 }),
  );
  const plan = { steps: [deletion(first)], changes: [] } as unknown as Plan;
  const approved = history.recordApproved(async () => true, { by: 'test', server: null, revision: null });
  await approved(plan, null as never, { plan: 'digest' } as never);
  const outcomes = [first, later].map((one) => ({ step: deletion(one), outcome: 'done', status: 204 }));
  await history.end({ plan, apply: { end: 'converged', outcomes } as unknown as ApplyReport } as PassResult);
  expect(records.map(({ said }) => [...said].flatMap(([key, { expires }]) => (expires === 7 ? [key] : [])))).toEqual([
    ['accept 10.0.0.1 *'],
    ['accept 10.0.0.1 *', 'accept 10.0.0.2 *'],
  ]);
});
