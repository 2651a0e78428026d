import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { StateFiles } from '../../src/adapters/state-files.ts';
import type { ApplyReport } from '../../src/apply/outcome.ts';
import { createHistoryWriter, pruneHistory, walkHistory } from '../../src/cli/history.ts';
import { createRecentApplies, sidecarNames } from '../../src/cli/watch/pass.ts';
import type { BackOrder } from '../../src/pass/go-back.ts';
import { type ApplyRecord, decodeApplyRecord, encodeApplyRecord, joinApplyRecords } from '../../src/pass/history.ts';
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
    async (record) => {
      records.push(record);
      return [];
    },
    () => ({ name: 'r', expires: 7 }),
  );
  const plan = { steps: [deletion(first)], changes: [] } as unknown as Plan;
  const approved = history.recordApproved(async () => true, { by: 'test', server: null, revision: null });
  await approved(plan, null as never, { plan: 'digest' } as never);
  const outcomes = [first, later].map((one) => ({ step: deletion(one), outcome: 'done', status: 204 }) as const);
  expect(await history.onReplan({ ...plan, steps: [deletion(later)] }, outcomes.slice(0, 1))).toEqual([]);
  await history.end({ plan, apply: { end: 'converged', outcomes } as unknown as ApplyReport } as PassResult);
  expect(records.map(({ said }) => [...said].flatMap(([key, { expires }]) => (expires === 7 ? [key] : [])))).toEqual([
    ['accept 10.0.0.1 *'],
    ['accept 10.0.0.1 *', 'accept 10.0.0.2 *'],
    ['accept 10.0.0.1 *', 'accept 10.0.0.2 *'],
  ]);
  expect(records.map(({ end }) => end)).toEqual(['started', 'started', 'converged']);
});

it('knows the ends of the newest record where it takes back what an older version recorded', async () => {
  const id = '00000000-0000-4000-8000-000000000001';
  const [made] = liveRules('accept 10.0.0.1').map((live) => ({ ...live, id }));
  if (made === undefined) throw new Error('a rule');
  const said = new Map([['accept 10.0.0.9 *', { name: 'other', expires: 7 }]]);
  const origin = { at: '2026-11-22T00:00:00.000Z', by: 'test', server: null, revision: null, digest: null };
  const nothing = { deleted: [], created: [], fields: [], before: null, after: null, end: 'converged' } as const;
  const written = encodeApplyRecord({ ...origin, ...nothing, created: [made], said, endsBefore: new Map() });
  const { ends_before: _, ...older } = written as Record<string, unknown>;
  const decoded = decodeApplyRecord(JSON.parse(JSON.stringify(older)));
  const record = decoded.ok ? joinApplyRecords([decoded.value]) : null;
  if (record === null) throw new Error('a record');
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-history-'));
  try {
    await new StateFiles(folder, 'history').write('1.json', encodeApplyRecord(record));
    await (await beginApply(folder, made, 'back', { record, goesBack: true }))();
    for await (const { by, said: now } of walkHistory(new StateFiles(folder, 'history')))
      if (by === 'back') expect(now.get('accept 10.0.0.9 *')).toEqual({ name: 'other', expires: 7 });
    expect(await new StateFiles(folder, 'history').list()).toHaveLength(2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('keeps the record of each of two applies, though all were pruned while the first of them wrote', async () => {
  const id = '00000000-0000-4000-8000-000000000001';
  const [first, later] = liveRules('accept 10.0.0.1', 'accept 10.0.0.2').map((live) => ({ ...live, id }));
  if (first === undefined || later === undefined) throw new Error('two rules');
  const folder = mkdtempSync(join(tmpdir(), 'reconcile-history-'));
  const begin = (live: typeof first, by: string) => beginApply(folder, live, by);
  const files = new StateFiles(folder, 'history');
  try {
    const endFirst = await begin(first, 'first');
    await pruneHistory(files);
    await (await begin(later, 'later'))();
    await endFirst();
    const held: unknown[] = [];
    for await (const { by, end } of walkHistory(files)) held.push([by, end]);
    expect(held).toEqual([
      ['first', 'converged'],
      ['later', 'converged'],
    ]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it.each(['999999999', '999999999999999'])(
  'an apply ends though somebody put a record of number %s there',
  async (number) => {
    const id = '00000000-0000-4000-8000-000000000001';
    const [rule] = liveRules('accept 10.0.0.1').map((live) => ({ ...live, id }));
    if (rule === undefined) throw new Error('a rule');
    const folder = mkdtempSync(join(tmpdir(), 'reconcile-history-'));
    const files = new StateFiles(folder, 'history');
    try {
      await files.write(`${number}.json`, {});
      for (const by of ['first', 'second', 'third']) await (await beginApply(folder, rule, by))();
      expect(await files.list()).toHaveLength(4);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

/** Records what an apply that deletes this rule is about to do; the function records its end. */
async function beginApply(folder: string, live: ReturnType<typeof liveRules>[number], by: string, back?: BackOrder) {
  const deletion = {
    ...{ type: 'delete', id: live.id, live, change: 0, after: [], gap: null, mayRebuild: false },
  } as Step;
  const plan = { steps: [deletion], changes: [] } as unknown as Plan;
  const logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const history = createHistoryWriter(
    folder,
    logger,
    async () => [],
    () => undefined,
    back,
  );
  const approved = history.recordApproved(async () => true, { by, server: null, revision: null });
  await approved(plan, null as never, { plan: 'digest' } as never);
  const outcomes = [{ step: deletion, outcome: 'done', status: 204 }];
  return () => history.end({ plan, apply: { end: 'converged', outcomes } as unknown as ApplyReport } as PassResult);
}

it('what a revision changed while it waited belongs to it, also what ended, and what others had made meanwhile does not', async () => {
  const rules = liveRules(
    'accept 10.0.0.1',
    'accept 10.0.0.2',
    'accept 10.0.0.3',
    'accept 10.0.0.4',
    'accept 10.0.0.5',
  );
  const [first, former, begun, foreign, ended] = rules.map((one) => [one]);
  const rest = {
    server: null,
    digest: null,
    end: 'converged',
    said: new Map(),
    endsBefore: new Map(),
    fields: [],
    before: null,
    after: null,
  } as const;
  const recent = createRecentApplies(null);
  await recent.note(
    {
      ...rest,
      at: '1',
      by: sidecarNames.apply,
      revision: 'r2',
      created: first ?? [],
      deleted: former ?? [],
    },
    ['r2'],
  );
  await recent.note(
    {
      ...rest,
      at: '2',
      by: sidecarNames.held,
      revision: 'r2',
      created: begun ?? [],
      deleted: [...(foreign ?? []), ...(ended ?? [])],
      said: new Map([['accept 10.0.0.5 *', { name: 'guest', expires: 7 }]]),
    },
    ['r2'],
  );
  expect(await recent.join('r2')).toMatchObject({ created: [rules[0], rules[2]], deleted: [rules[1], rules[4]] });
});
