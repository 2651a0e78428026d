import { describe, expect, it } from 'vitest';
import { emptyRecord } from '../../src/controller/record.ts';
import { type EnforcementReport, reportUnreadable } from '../../src/enforcement/report.ts';
import type { Problem } from '../../src/model/problem.ts';
import { parseSchedule } from '../../src/plan/guard/windows.ts';
import type { Plan } from '../../src/plan/plan.ts';
import type { Answer, FakeLoop } from './support/fake-loop.ts';
import { defaultSettings, fakeLoop, planOf } from './support/fake-loop.ts';

function start(fake: FakeLoop): void {
  fake.running = fake.loop.run(false);
}

async function end(fake: FakeLoop): Promise<void> {
  fake.stop();
  await fake.clock.pass(0);
  await fake.running;
}

/** Lets the revision that waits begin. */
async function release(fake: FakeLoop): Promise<void> {
  fake.holds = () => null;
  fake.triggers.wake('released');
  await fake.clock.until(() => fake.loop.status().revisions.applied === 'r2');
  await end(fake);
}

const ready = (fake: FakeLoop) => fake.loop.status().conditions.Ready;
const stalled = (fake: FakeLoop) => fake.loop.status().conditions.Stalled;

describe('the loop', () => {
  it('runs a pass at once, then one an interval with jitter', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    const from = fake.clock.now();
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.clock.now() - from).toBe(120_000);
    expect(ready(fake)).toMatchObject({ status: 'True', reason: 'InSync' });
    await end(fake);
  });

  it('looks again at the time at which a rule begins or ends, and not before', async () => {
    const fake = fakeLoop();
    const boundary = fake.clock.wallTime() + 25_000;
    fake.answer = () => ({
      kind: 'apply',
      plan: { ...planOf(['+10.0.0.1']), ...(fake.clock.wallTime() < boundary ? { nextBoundary: boundary } : {}) },
    });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    await fake.clock.until(() => fake.requests.length === 2);
    expect(fake.clock.wallTime() - boundary).toBeGreaterThanOrEqual(0);
    expect(fake.clock.wallTime() - boundary).toBeLessThan(1_000);
    await end(fake);
  });

  it('fault 34: ten thousand events while a pass runs become one more pass', async () => {
    const fake = fakeLoop();
    let during = 0;
    fake.answer = () => {
      if (fake.requests.length === 1) for (let index = 0; index < 10_000; index++) fake.triggers.wake('file');
      during += 1;
      return { kind: 'in-sync' };
    };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 2);
    await fake.clock.pass(10_000);
    expect(during).toBe(2);
    await end(fake);
  });

  it('records what is in effect, and tells once that something was applied', async () => {
    const fake = fakeLoop();
    fake.answer = () =>
      fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['+10.0.0.1']) } : { kind: 'in-sync' };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.loop.status().revisions).toMatchObject({ observed: 'r1', attempted: 'r1', applied: 'r1' });
    expect(fake.saved.map((record) => [record.inForceRevision, record.appliedRevision])).toEqual([
      ['r1', null],
      ['r1', 'r1'],
    ]);
    expect(fake.turns.map((turn) => turn.what)).toEqual(['applied']);
    expect(fake.turns[0]?.status).toMatchObject({ liveRules: 2, plan: null });
    await end(fake);
  });

  it('tells that a revision is in effect though nothing had to be written for it, and not again after that', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    expect(fake.turns).toEqual([]);
    fake.source = 'r2';
    await fake.clock.until(() => fake.requests.length === 4);
    expect(fake.turns.map((turn) => [turn.what, turn.status.revisions.applied])).toEqual([['applied', 'r2']]);
    await end(fake);
  });

  it('never says that the kernel holds a revision, or that a part is ready, before it says that the revision is in effect', async () => {
    const fake = fakeLoop();
    const counts = { missing: 0, stale: 0, extra: 0, structure: 0 };
    const report = {
      state: 'enforced',
      counts,
      elements: 1,
      liveRules: 1,
      findings: [],
    } as unknown as EnforcementReport;
    fake.kernel = { report, waitedMs: null };
    const said = () => {
      const { conditions, liveRules, revisions } = fake.loop.status();
      return [conditions.Enforced?.status, liveRules, revisions.applied];
    };
    let meanwhile: unknown;
    fake.whileSaving = () => {
      meanwhile = said();
    };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    await fake.clock.pass(10);
    expect(meanwhile).toEqual([undefined, null, null]);
    expect(said()).toEqual(['True', 1, 'r1']);
    await end(fake);
  });

  it('backs off exponentially after transient failures, and says so', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'unreadable', code: 'timeout' });
    const times: number[] = [];
    start(fake);
    for (let count = 1; count <= 6; count++) {
      await fake.clock.until(() => fake.requests.length >= count);
      times.push(fake.clock.now());
    }
    const waits = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    expect(waits).toEqual([750, 1500, 3000, 6000, 12_000]);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'ApiUnreachable' });
    expect(fake.loop.status().conditions.Reconciling).toMatchObject({ status: 'True', reason: 'Retrying' });
    expect(stalled(fake).status).toBe('False');
    expect(fake.turns.map((turn) => turn.what)).toEqual(['broken']);
    fake.answer = () => ({ kind: 'in-sync' });
    await fake.clock.until(() => ready(fake).status === 'True');
    expect(fake.turns.map((turn) => turn.what)).toEqual(['broken', 'recovered']);
    await end(fake);
  });

  it('fault 26: a fixed revision pre-empts the backoff of the one before', async () => {
    const fake = fakeLoop();
    fake.answer = (request) =>
      request.content.revision === 'r1' ? { kind: 'unreadable', code: 'timeout' } : { kind: 'in-sync' };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 9);
    const from = fake.clock.now();
    fake.source = 'r2';
    fake.triggers.wake('file');
    await fake.clock.until(() => ready(fake).status === 'True', 0);
    expect(fake.clock.now()).toBe(from);
    await end(fake);
  });

  it('is ready within one interval after a long outage of the source, though the revision is still the same', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.source = [{ code: 'git-timeout', severity: 'error', summary: 'no answer' }];
    await fake.clock.pass(3_600_000);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'SourceFailed' });
    fake.source = 'r1';
    await fake.clock.pass(66_000);
    expect(ready(fake)).toMatchObject({ status: 'True', reason: 'InSync' });
    await end(fake);
  });

  it('does not count the failures of one revision against the next', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'unreadable', code: 'timeout' });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 12);
    fake.source = 'r2';
    fake.triggers.wake('file');
    await fake.clock.until(() => fake.requests.length === 13, 0);
    fake.answer = () => ({ kind: 'in-sync' });
    await fake.clock.pass(1000);
    expect(ready(fake).status).toBe('True');
    await end(fake);
  });

  it('fault 2: leaves a server alone for as long as it asks, however short the backoff would be', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, intervalMs: 600_000 };
    fake.answer = () => ({ kind: 'unreadable', code: 'server-error', retryAfterMs: 120_000 });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    await fake.clock.pass(119_000);
    expect(fake.requests.length).toBe(1);
    await fake.clock.pass(2000);
    expect(fake.requests.length).toBe(2);
    await end(fake);
  });

  it('asks a server again within the hour though it asked to be left alone for a year', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'unreadable', code: 'server-error', retryAfterMs: 31_536_000_000 });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.answer = () => ({ kind: 'in-sync' });
    await fake.clock.pass(3_700_000);
    expect(ready(fake).status).toBe('True');
    await end(fake);
  });

  it.each(['no', 'unknown', 'yes'] as const)(
    'threat 41: a record without our seal counts only where the branch descends from its revisions (%s)',
    async (descends) => {
      const record = { ...emptyRecord, isSealed: false, appliedRevision: 'fork', inForceRevision: 'fork' };
      const fake = fakeLoop({ git: true, record });
      fake.descends = descends;
      fake.answer = ({ content }) => ({ kind: content.revision === 'r1' ? 'invalid' : 'in-sync' });
      await fake.loop.run(true);
      const tried = fake.requests.map(({ content }) => content.revision);
      expect(tried).toEqual(descends === 'yes' ? ['r1', 'fork'] : ['r1']);
      const isSaid = fake.log.some(({ message }) => message.includes('no seal'));
      expect(isSaid).toBe(descends !== 'yes');
    },
  );

  it('seals the record of a directory again after a restart with another token: what failed there stays known', async () => {
    const fake = fakeLoop({ record: { ...emptyRecord, isSealed: false, appliedRevision: 'r0' } });
    fake.answer = () => ({ kind: 'in-sync' });
    await fake.loop.run(true);
    expect(fake.saved.at(-1)).toMatchObject({ isSealed: true, appliedRevision: 'r1' });
  });

  it('starts though the earlier state cannot be taken up', async () => {
    const record = { ...emptyRecord, appliedRevision: 'r1', inForceRevision: 'r1' };
    const fake = fakeLoop({ git: true, broken: true, record });
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    expect(JSON.stringify(fake.log)).not.toContain('canary');
    await end(fake);
  });

  it('tells of a recovery also when the mended content had to settle first, and nothing of the settling', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, deleteQuietMs: 5000 };
    fake.answer = () => ({ kind: 'invalid' });
    start(fake);
    await fake.clock.until(() => fake.turns.length === 1);
    fake.source = 'r2';
    fake.answer = () =>
      fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['-10.0.0.1']) } : { kind: 'in-sync' };
    fake.triggers.wake('file');
    await fake.clock.until(() => ready(fake).reason === 'Settling');
    await fake.clock.until(() => ready(fake).status === 'True');
    expect(fake.turns.map((turn) => turn.what)).toEqual(['broken', 'recovered', 'applied']);
    await end(fake);
  });

  it('tells nobody that something broke when it is only told to stop in the middle of an apply', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'stopped' });
    start(fake);
    await fake.clock.until(() => ready(fake).reason === 'Stopped');
    expect(fake.turns).toEqual([]);
    await end(fake);
  });

  it('does not run a pass for events during a backoff while the revision stays', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'unreadable', code: 'timeout' });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 5);
    fake.triggers.wake('file');
    await fake.clock.pass(0);
    expect(fake.requests.length).toBe(5);
    fake.triggers.wake('webhook');
    await fake.clock.pass(0);
    expect(fake.requests.length).toBe(6);
    await end(fake);
  });

  it('a rule that begins or ends while a failure waits to be tried again is acted on within a second, once', async () => {
    const fake = fakeLoop();
    let boundary = Number.POSITIVE_INFINITY;
    fake.answer = () => {
      const next = boundary > fake.clock.wallTime() ? { nextBoundary: boundary } : {};
      return { kind: 'apply', plan: { ...planOf(['+10.0.0.1']), ...next }, end: 'failed', status: 503 };
    };
    fake.settings = { ...defaultSettings, intervalMs: 3_600_000 };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 11);
    boundary = fake.clock.wallTime() + 325_000;
    await fake.clock.until(() => fake.requests.length === 12);
    const left = boundary - fake.clock.wallTime();
    expect(left).toBeGreaterThan(2000);
    fake.triggers.wake('file');
    await fake.clock.pass(left - 2000);
    expect(fake.requests.length).toBe(12);
    await fake.clock.pass(2000);
    expect(fake.requests.length).toBe(13);
    expect(fake.loop.status().passes[0]?.triggers).toEqual(['time']);
    await fake.clock.pass(100_000);
    expect(fake.requests.length).toBe(13);
    await end(fake);
  });

  it('a source that hangs keeps no rule from ending in time; it is asked again at once, and said when it gives up', async () => {
    const fake = fakeLoop();
    let boundary = fake.clock.wallTime() + 90_000;
    const ended: number[] = [];
    fake.answer = () => {
      if (fake.clock.wallTime() < boundary)
        return { kind: 'apply', plan: { ...planOf(['+10.0.0.1']), nextBoundary: boundary } };
      ended.push(fake.clock.wallTime() - boundary);
      boundary = Number.POSITIVE_INFINITY;
      return { kind: 'in-sync' };
    };
    fake.settings = { ...defaultSettings, intervalMs: 60_000 };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.hangsMs = 3_600_000;
    await fake.clock.until(() => ended.length === 1);
    expect(ended).toEqual([expect.closeTo(0, -3)]);
    expect(fake.loop.status().conditions.Ready.status).toBe('True');
    const { reads } = fake;
    fake.hangsMs = 30_000;
    await fake.clock.until(() => fake.loop.status().conditions.Ready.reason === 'SourceFailed', 3_700_000);
    expect(fake.reads).toBe(reads);
    await end(fake);
  });

  it.each(['a directory that does not stand still', 'a server that hangs while it is asked for history'])(
    '%s keeps no rule from ending in time',
    async (what) => {
      const fake = fakeLoop({ git: what.includes('history') });
      const boundary = fake.clock.wallTime() + 90_000;
      fake.answer = () =>
        fake.clock.wallTime() < boundary
          ? { kind: 'apply', plan: { ...planOf(['+10.0.0.1']), nextBoundary: boundary } }
          : { kind: 'in-sync' };
      fake.settings = { ...defaultSettings, quietMs: what.includes('history') ? 0 : 2000, intervalMs: 600_000 };
      start(fake);
      await fake.clock.until(() => ready(fake).status === 'True');
      const before = fake.requests.length;
      fake.historyHangs = what.includes('history');
      for (let count = 0; count < 400; count++) {
        if (count === 0 || !fake.historyHangs) fake.source = `r${count + 2}`;
        if (count === 0 || !fake.historyHangs) fake.triggers.wake('file');
        const isDue = fake.clock.wallTime() > boundary + 1000;
        expect([count, fake.requests.length > before]).toEqual([count, isDue || fake.requests.length > before]);
        if (!isDue && fake.clock.wallTime() < boundary) expect(fake.requests.length).toBe(before);
        await fake.clock.pass(300);
      }
      expect(fake.requests.slice(before).every(({ content }) => content.revision === 'r1')).toBe(true);
      fake.historyHangs = false;
      await fake.clock.until(() => fake.loop.status().revisions.applied !== 'r1');
      await end(fake);
    },
  );

  it('keeps the last good revision in force while the newest has errors, and looks at both with each pass', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.answer = (request) => (request.content.revision === 'bad' ? { kind: 'invalid' } : { kind: 'in-sync' });
    fake.source = 'bad';
    fake.triggers.wake('file');
    await fake.clock.until(() => fake.requests.length === 5);
    expect(fake.requests.slice(1).map((one) => one.content.revision)).toEqual(['bad', 'r1', 'bad', 'r1']);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'ManifestsInvalid', message: 'a.yaml:1:2: broken' });
    expect(stalled(fake)).toMatchObject({ status: 'True', reason: 'ManifestsInvalid' });
    expect(fake.loop.status().revisions).toMatchObject({ observed: 'bad', attempted: 'bad', applied: 'r1' });
    fake.source = 'good';
    fake.triggers.wake('file');
    await fake.clock.until(() => ready(fake).status === 'True', 0);
    expect(fake.loop.status().revisions.applied).toBe('good');
    await end(fake);
  });

  it('backs off while the server is away, though the newest revision has errors', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    fake.answer = ({ content }) =>
      content.revision === 'bad' ? { kind: 'invalid' } : { kind: 'unreadable', code: 'timeout' };
    fake.source = 'bad';
    fake.triggers.wake('file');
    const times: number[] = [];
    for (let count = 1; count <= 5; count++) {
      await fake.clock.until(() => fake.requests.length === 1 + 2 * count);
      times.push(fake.clock.now());
      fake.triggers.wake('file');
    }
    expect(times.slice(1).map((time, index) => time - (times[index] ?? 0))).toEqual([750, 1500, 3000, 6000]);
    await end(fake);
  });

  it('looks again at every interval at errors that others can mend: a user who is missing on the server', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    fake.source = 'r2';
    fake.answer = ({ content }) =>
      content.revision === 'r2' ? { kind: 'invalid', code: 'unknown-user-id' } : { kind: 'in-sync' };
    await fake.clock.until(() => fake.requests.length === 5);
    expect(fake.requests.slice(1).map((one) => one.content.revision)).toEqual(['r2', 'r1', 'r2', 'r1']);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'ManifestsInvalid' });
    fake.answer = () => ({ kind: 'in-sync' });
    await fake.clock.pass(66_000);
    expect(fake.loop.status().revisions.applied).toBe('r2');
    expect(ready(fake).status).toBe('True');
    await end(fake);
  });

  it('is ready again when the errors of the revision in effect are gone: a user was deleted and made again', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    fake.answer = () => ({ kind: 'invalid', code: 'unknown-user-id' });
    await fake.clock.until(() => ready(fake).reason === 'ManifestsInvalid');
    fake.answer = () => ({ kind: 'in-sync' });
    await fake.clock.pass(66_000);
    expect(ready(fake).status).toBe('True');
    await end(fake);
  });

  it('begins no revision that has to wait, keeps the last good one in force, says so, and tells nobody', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.holds = (revision) => (revision === 'r2' ? 'r2 waits for eu' : null);
    fake.source = 'r2';
    await fake.clock.until(() => ready(fake).reason === 'Waiting');
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.requests.map(({ content }) => content.revision)).toEqual(['r1', 'r1', 'r1']);
    expect(ready(fake)).toMatchObject({ status: 'False', message: 'r2 waits for eu' });
    expect(fake.loop.status().revisions).toMatchObject({ observed: 'r2', applied: 'r1', attempted: 'r1' });
    expect(fake.turns).toEqual([]);
    await release(fake);
  });

  it('says of a revision that is to begin or go on whether something of it was written', async () => {
    const fake = fakeLoop();
    const asked: unknown[] = [];
    fake.holds = (...one) => {
      asked.push(one);
      return null;
    };
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    fake.settings = { ...defaultSettings, suspended: true };
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'failed', status: 422 });
    fake.source = 'r2';
    await fake.clock.until(() => fake.requests.length === 4);
    expect([ready(fake).reason, asked.at(-1)]).toEqual(['Suspended', ['r2', 'chosen']]);
    fake.settings = defaultSettings;
    await fake.clock.until(() => ready(fake).reason === 'ApplyFailed');
    expect(asked.slice(-2)).toEqual([
      ['r2', 'chosen'],
      ['r2', 'first-write'],
    ]);
    await fake.clock.until(() => fake.requests.length === 7);
    expect(asked.at(-1)).toEqual(['r2', 'in-force']);
    await end(fake);
  });

  it('writes nothing of a revision whose turn is over by then, says so, and looks after the one in effect', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    fake.holds = (revision, stage) => (stage === 'first-write' ? `${revision} waits: maxParallel is 1` : null);
    fake.answer = ({ content }) =>
      content.revision === 'r2' && fake.applied.length === 0
        ? { kind: 'apply', plan: planOf(['+10.0.0.1']) }
        : { kind: 'in-sync' };
    fake.source = 'r2';
    await fake.clock.until(() => ready(fake).reason === 'Waiting');
    expect([ready(fake).message, fake.applied.length]).toEqual(['r2 waits: maxParallel is 1', 0]);
    expect(fake.loop.status().revisions.applied).toBe('r1');
    await release(fake);
  });

  it('a revision that waits for its turn hides nothing that is wrong with the one in effect', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.holds = (revision) => (revision === 'r2' ? 'r2 waits for eu' : null);
    fake.source = 'r2';
    await fake.clock.until(() => ready(fake).reason === 'Waiting');
    fake.answer = () => ({ kind: 'unreadable', code: 'unauthorized' });
    await fake.clock.pass(70_000);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'Unauthorized' });
    expect(stalled(fake)).toMatchObject({ status: 'True', reason: 'Unauthorized' });
    expect(fake.loop.status().passes[0]).toMatchObject({ revision: 'r1', failedRevision: undefined });
    expect(fake.turns.map(({ what }) => what)).toEqual(['broken']);
    fake.answer = () => ({ kind: 'in-sync' });
    await fake.clock.until(() => ready(fake).reason === 'Waiting');
    expect(fake.loop.status().passes[0]).toMatchObject({ revision: 'r1', failedRevision: 'r2' });
    await end(fake);
  });

  it('fault 29: a source that is gone prunes nothing: the last good revision stays in force', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    await fake.clock.until(() => ready(fake).status === 'True');
    const { lastSuccessAt } = fake.loop.status();
    fake.source = [{ code: 'no-manifests', severity: 'error', summary: 'the directory is empty' }];
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.requests.map((one) => one.content.revision)).toEqual(['r1', 'r1', 'r1']);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'SourceFailed' });
    expect(fake.loop.status().lastSuccessAt).toBe(lastSuccessAt);
    await end(fake);
  });

  it('fault 29: a source that is gone does not undo what could be carried out of a revision that the server refused in part', async () => {
    const gone: readonly Problem[] = [{ code: 'git-timeout', severity: 'error', summary: 'no answer' }];
    const fake = fakeLoop({ git: true });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1', '+10.0.0.2']), end: 'failed', status: 422 });
    fake.source = 'r2';
    await fake.clock.until(() => ready(fake).reason === 'ApplyFailed');
    expect(fake.loop.status().revisions.applied).toBe('r1');
    fake.source = gone;
    await fake.clock.until(() => ready(fake).reason === 'SourceFailed');
    expect(fake.requests.at(-1)?.content.revision).toBe('r2');
    await end(fake);

    const record = fake.saved.at(-1);
    const next = fakeLoop({ git: true, ...(record === undefined ? {} : { record }) });
    next.source = gone;
    start(next);
    await next.clock.until(() => ready(next).reason === 'SourceFailed');
    expect(next.requests.map((one) => one.content.revision)).toEqual(['r2']);
    await end(next);
  });

  it('runs nothing at all while no revision was ever good', async () => {
    const fake = fakeLoop();
    fake.source = [{ code: 'git-timeout', severity: 'error', summary: 'no answer' }];
    start(fake);
    await fake.clock.until(() => fake.reads === 5);
    expect(fake.requests).toEqual([]);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'SourceFailed' });
    await end(fake);
  });

  it('fault 27: content counts once it has been the same for the quiet period, and each change starts it anew', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, quietMs: 500 };
    start(fake);
    await fake.clock.pass(300);
    fake.source = 'r2';
    fake.triggers.wake('file');
    await fake.clock.pass(400);
    expect(fake.requests).toEqual([]);
    expect(fake.loop.status().conditions.Reconciling.reason).toBe('Settling');
    await fake.clock.pass(100);
    expect(fake.requests.map((one) => one.content.revision)).toEqual(['r2']);
    expect(fake.loop.status().passes[0]?.triggers).toEqual(['file', 'start']);
    await end(fake);
  });

  it('fault 27: a source that never stands still is named, and the last good revision is enforced once an interval', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, quietMs: 500 };
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    const { lastSuccessAt } = fake.loop.status();
    const before = fake.requests.length;
    for (let count = 0; count < 2000; count++) {
      fake.source = `r${count + 2}`;
      fake.triggers.wake('file');
      await fake.clock.pass(100);
    }
    expect(fake.requests.length - before).toBe(3);
    expect(fake.prepared).toEqual(['r1', 'r2']);
    expect(fake.requests.at(-1)?.content.revision).toBe('r1');
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'Settling' });
    expect(fake.loop.status()).toMatchObject({ lastSuccessAt });
    await fake.clock.until(() => ready(fake).status === 'True');
    expect(fake.loop.status().revisions.applied).toBe('r2001');
    await end(fake);
  });

  it('fault 27: a plan that deletes waits for the longer quiet period', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, quietMs: 500, deleteQuietMs: 5000 };
    fake.answer = () =>
      fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['-10.0.0.1']) } : { kind: 'in-sync' };
    start(fake);
    await fake.clock.pass(4900);
    expect([fake.requests.length, fake.applied.length]).toEqual([1, 0]);
    expect(ready(fake).reason).toBe('Settling');
    expect(fake.loop.status().conditions.Reconciling).toMatchObject({ status: 'True', reason: 'Settling' });
    expect(fake.turns).toEqual([]);
    await fake.clock.pass(200);
    expect(fake.applied.length).toBe(1);
    await end(fake);
  });

  it('a plan that only creates waits for the short quiet period', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, quietMs: 500, deleteQuietMs: 5000 };
    fake.answer = () =>
      fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['+10.0.0.1']) } : { kind: 'in-sync' };
    start(fake);
    await fake.clock.pass(500);
    expect(fake.applied.length).toBe(1);
    await end(fake);
  });

  it('threat 18: a revision that does not descend from the applied one is not applied without a word', async () => {
    for (const descends of ['no', 'unknown'] as const) {
      const fake = fakeLoop({
        git: true,
        record: { ...emptyRecord, appliedRevision: 'r1', inForceRevision: 'r1' },
      });
      fake.descends = descends;
      fake.source = 'r0';
      start(fake);
      await fake.clock.until(() => fake.requests.length === 1);
      expect(fake.requests[0]?.content.revision).toBe('r1');
      expect(ready(fake)).toMatchObject({ status: 'False', reason: 'RewindRefused' });
      fake.settings = { ...defaultSettings, allowRewind: true };
      fake.triggers.wake('settings');
      await fake.clock.until(() => fake.requests.length === 2);
      expect(fake.loop.status().revisions.applied).toBe('r0');
      await end(fake);
    }
  });

  it('keeps when a commit was first seen, from before it is applied until another one is, also over a restart', async () => {
    const fake = fakeLoop({ git: true });
    fake.answer = () => ({ kind: 'refused', plan: planOf(['-10.0.0.1']) });
    start(fake);
    await fake.clock.until(() => ready(fake).reason === 'Refused');
    const seen = fake.saved.at(-1)?.firstSeen;
    expect(seen).toEqual({ r1: expect.any(Number) });
    await fake.clock.pass(200_000);
    await end(fake);
    const next = fakeLoop({ git: true, record: { ...emptyRecord, firstSeen: { r1: 5 } } });
    start(next);
    await next.clock.until(() => ready(next).status === 'True');
    expect(next.firstSeen).toEqual({ r1: 5 });
    next.source = 'r2';
    next.descends = 'yes';
    await next.clock.until(() => next.loop.status().revisions.applied === 'r2');
    await next.clock.pass(140_000);
    expect(Object.keys(next.firstSeen)).toEqual(['r2']);
    await end(next);
  });

  it('takes a history that cannot be asked for just now for a failure that passes, not for a rewind', async () => {
    const record = { ...emptyRecord, appliedRevision: 'r1', inForceRevision: 'r1' };
    const fake = fakeLoop({ git: true, record });
    fake.descends = 'unasked';
    fake.source = 'r2';
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    expect(fake.requests[0]?.content.revision).toBe('r1');
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'SourceFailed' });
    expect(stalled(fake).status).toBe('False');
    fake.descends = 'yes';
    await fake.clock.until(() => ready(fake).status === 'True');
    expect(fake.loop.status().revisions.applied).toBe('r2');
    await end(fake);
  });

  it('fault 8: what the server refuses is named in its words and not written again, until the input changes', async () => {
    const fake = fakeLoop();
    const all = planOf(['+10.0.0.1', '+10.0.0.2']);
    const rest = planOf(['+10.0.0.1']);
    fake.answer = () => ({
      kind: 'apply',
      plan: fake.applied.length === 0 ? all : rest,
      end: 'not-converged',
      status: 422,
    });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 4);
    expect(fake.applied.length).toBe(1);
    const message = 'POST /v0/rules: 422, destination is invalid';
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'ApplyFailed', message });
    expect(stalled(fake)).toMatchObject({ status: 'True', reason: 'ApplyFailed' });
    expect(fake.log.filter((line) => line.message === 'A step failed').map((line) => line.fields)).toEqual([
      { method: 'POST', path: '/v0/rules', outcome: 'failed', status: 422, detail: message },
    ]);
    fake.source = 'r2';
    await fake.clock.until(() => fake.applied.length === 2);
    fake.triggers.wake('token');
    await fake.clock.until(() => fake.applied.length === 3);
    await end(fake);
  });

  it('writes again when there is more to do than what the server refused', async () => {
    const fake = fakeLoop();
    let steps = ['+10.0.0.1'];
    fake.answer = () => ({ kind: 'apply', plan: planOf(steps), end: 'not-converged', status: 422 });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.applied.length).toBe(1);
    steps = ['+10.0.0.1', '+10.0.0.9'];
    await fake.clock.until(() => fake.applied.length === 2);
    await end(fake);
  });

  it('tries again what failed for a reason that may pass', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'not-converged', status: 500 });
    start(fake);
    await fake.clock.until(() => fake.applied.length === 6);
    expect(ready(fake).reason).toBe('ApplyFailed');
    expect(stalled(fake).status).toBe('False');
    await end(fake);
  });

  it.each<[string, Answer]>([
    ['was refused', { kind: 'refused', plan: planOf(['-10.0.0.1']) }],
    ['was not carried out', { kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'failed', status: 500 }],
  ])('keeps in its record, over a restart and while it waits, which revision %s', async (_, answer) => {
    const fake = fakeLoop({ git: true });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.answer = () => answer;
    fake.source = 'r2';
    await fake.clock.until(() => fake.loop.status().revisions.stuck === 'r2');
    fake.holds = (_revision, stage) => (stage === 'chosen' ? 'r2 waits' : null);
    await fake.clock.pass(200_000);
    await end(fake);
    const record = fake.saved.at(-1) ?? emptyRecord;
    expect(record.stuckRevision).toBe('r2');

    const next = fakeLoop({ git: true, record });
    next.source = 'r2';
    next.answer = () => {
      expect(next.loop.status()).toMatchObject({ passes: [], revisions: { stuck: 'r2' } });
      return { kind: 'unreadable', code: 'unreachable' };
    };
    await next.loop.run(true);
    expect([next.loop.status().revisions.stuck, next.saved.at(-1)?.stuckRevision ?? 'r2']).toEqual(['r2', 'r2']);
  });

  it('keeps which revision was refused while the source hangs, and the one in force is looked after', async () => {
    const fake = fakeLoop({ git: true });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.answer = ({ content }) =>
      content.revision === 'r2' ? { kind: 'refused', plan: planOf(['-10.0.0.1']) } : { kind: 'in-sync' };
    fake.source = 'r2';
    await fake.clock.until(() => fake.loop.status().revisions.stuck === 'r2');
    fake.hangsMs = 3_600_000;
    fake.requests.length = 0;
    await fake.clock.until(
      () => fake.requests.at(-1)?.content.revision === 'r1' && fake.loop.status().passes.length > 3,
    );
    expect([ready(fake).reason, fake.loop.status().revisions.stuck]).toEqual(['Refused', 'r2']);
    fake.hangsMs = 0;
    fake.source = 'r3';
    await fake.clock.until(() => fake.loop.status().revisions.applied === 'r3');
    expect([ready(fake).reason, fake.loop.status().revisions.stuck]).toEqual(['InSync', null]);
    await end(fake);
  });

  it('counts a revision as not carried out where the server took the writes from nobody: the token is refused', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'failed', status: 401 });
    await fake.loop.run(true);
    expect([ready(fake).reason, fake.saved.at(-1)?.stuckRevision]).toEqual(['Unauthorized', 'r1']);
  });

  it('fault 13: names non-convergence and stops writing after three attempts', async () => {
    const fake = fakeLoop();
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'not-converged' });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 8);
    expect(fake.applied.length).toBe(3);
    expect(stalled(fake)).toMatchObject({ status: 'True', reason: 'NotConverging' });
    await end(fake);
  });

  it('corrects drift, or reports it when asked to', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.settings = { ...defaultSettings, onDrift: 'report' };
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']) });
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.applied).toEqual([]);
    expect(ready(fake)).toMatchObject({
      status: 'False',
      reason: 'DriftReported',
      message: expect.stringContaining('undo it: 1'),
    });
    expect(fake.loop.status().drift).toBe(1);
    expect(stalled(fake).status).toBe('False');
    fake.settings = defaultSettings;
    fake.triggers.wake('settings');
    await fake.clock.until(() => fake.applied.length === 1);
    expect(fake.log.find((line) => line.message === 'Drift is corrected')?.fields).toMatchObject({
      object: '+10.0.0.1',
      action: 'create',
    });
    await end(fake);
  });

  it('applies what the same revision asks for anew though drift is only reported: values or a secret have changed', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, onDrift: 'report' };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.asksFor = 'something else';
    fake.answer = () =>
      fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['+10.0.0.1']) } : { kind: 'in-sync' };
    await fake.clock.until(() => fake.applied.length === 1);
    await fake.clock.until(() => ready(fake).reason === 'InSync');
    expect(fake.log.some((line) => line.message === 'Drift is corrected')).toBe(false);
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.2']) });
    await fake.clock.until(() => ready(fake).reason === 'DriftReported');
    expect(fake.applied.length).toBe(1);
    await end(fake);
  });

  it('puts back the Configuration of a refused revision, which was written alone, though drift is only reported', async () => {
    const fake = fakeLoop();
    [fake.configuration, fake.settings] = [true, { ...defaultSettings, onDrift: 'report' }];
    start(fake);
    await fake.clock.until(() => ready(fake).reason === 'InSync');
    fake.answer = ({ part }) =>
      part === 'configuration' && fake.applied.length === 0
        ? { kind: 'apply', plan: planOf(['+10.0.0.1']) }
        : { kind: 'refused', plan: planOf(['+10.0.0.2']) };
    fake.source = 'r2';
    await fake.clock.until(() => fake.applied.length === 1);
    fake.answer = () =>
      fake.applied.length === 1 ? { kind: 'apply', plan: planOf(['-10.0.0.1']) } : { kind: 'in-sync' };
    fake.source = 'r1';
    await fake.clock.until(() => ['InSync', 'DriftReported'].includes(ready(fake).reason));
    expect([ready(fake).reason, fake.applied.length]).toEqual(['InSync', 2]);
    await end(fake);
  });

  it('applies a new revision though drift is only reported', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, onDrift: 'report' };
    fake.answer = () =>
      fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['+10.0.0.1']) } : { kind: 'in-sync' };
    start(fake);
    await fake.clock.until(() => fake.applied.length === 1);
    await end(fake);
  });

  it('fault 16: a fight with another writer is named and damped, and a new revision ends the pause', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']) });
    await fake.clock.until(() => ready(fake).reason === 'Fighting');
    expect(ready(fake).message).toMatch(/^corrections that another writer keeps undoing: 1 \(/);
    expect(fake.applied.length).toBe(3);
    expect(fake.loop.status().fights).toBe(1);
    const from = fake.clock.now();
    await fake.clock.until(() => fake.applied.length === 6);
    expect(fake.clock.now() - from).toBeGreaterThan(6 * 60_000);
    fake.source = 'r2';
    fake.triggers.wake('file');
    await fake.clock.until(() => fake.applied.length === 7, 0);
    await end(fake);
  });

  it('observes and plans while suspended, and writes nothing', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, suspended: true };
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']) });
    start(fake);
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.applied).toEqual([]);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'Suspended' });
    expect(fake.loop.status().plan?.steps.length).toBe(1);
    await end(fake);
  });

  it('tries the rules and the Configuration apart when together they are refused', async () => {
    const fake = fakeLoop();
    fake.configuration = true;
    fake.answer = (request) => {
      if (request.part === 'rules')
        return fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['+10.0.0.1']) } : { kind: 'in-sync' };
      return { kind: 'refused', plan: planOf(['+10.0.0.1']) };
    };
    start(fake);
    await fake.clock.until(() => fake.requests.length === 3);
    expect(fake.applied.length).toBe(1);
    const message = 'the rules of r1 are in effect, its Configuration is not: too many; raise it';
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'Refused', message });
    expect(fake.loop.status().revisions).toMatchObject({ applied: null, inForce: 'r1' });
    await end(fake);
  });

  it('shows the plan, the live rules and the blocked deletes of refused rules, also beside a Configuration that is fine', async () => {
    const fake = fakeLoop();
    fake.configuration = true;
    fake.answer = (request) =>
      request.part === 'configuration'
        ? { kind: 'in-sync' }
        : { kind: 'refused', plan: planOf(['-10.0.0.1', '-10.0.0.2']) };
    start(fake);
    await fake.clock.until(() => ready(fake).reason === 'Refused');
    const { blockedDeletes, liveRules, plan } = fake.loop.status();
    expect({ blockedDeletes, liveRules }).toEqual({ blockedDeletes: 2, liveRules: 1 });
    const message = 'the Configuration of r1 is in effect, its rules are not: too many; raise it';
    expect(ready(fake)).toMatchObject({ message });
    expect(plan?.refusals.length).toBe(1);
    await end(fake);
  });

  it('writes nothing while another replica holds the lease, and begins when it is handed over', async () => {
    let mine = false;
    const held = new AbortController().signal;
    const fake = fakeLoop({
      lease: {
        mayStart: () => mine,
        mayWrite: () => mine,
        signal: () => held,
        holder: () => 'other',
        election: () => ({ problem: null, ageMs: 0 }),
        record: null,
        release: () => Promise.resolve(),
      },
    });
    fake.answer = () => ({ kind: 'apply', plan: planOf(['+10.0.0.1']) });
    start(fake);
    await fake.clock.pass(200_000);
    expect(fake.requests).toEqual([]);
    expect(fake.loop.status()).toMatchObject({ role: 'standby', holder: 'other' });
    expect(ready(fake).message).toBe('other holds the lease');
    mine = true;
    fake.triggers.wake('lease');
    await fake.clock.until(() => fake.applied.length === 1, 0);
    await end(fake);
  });

  it('forgets what it saw as the writer once another replica writes: no alarm outlives its cause', async () => {
    let mine = true;
    const held = new AbortController().signal;
    const fake = fakeLoop({
      lease: {
        mayStart: () => mine,
        mayWrite: () => mine,
        signal: () => held,
        holder: () => null,
        election: () => ({ problem: null, ageMs: 0 }),
        record: null,
        release: () => Promise.resolve(),
      },
    });
    fake.answer = () => ({ kind: 'refused', plan: planOf(['-10.0.0.1']) });
    fake.kernel = { report: reportUnreadable('nft failed', 1), waitedMs: 0 };
    start(fake);
    await fake.clock.until(() => stalled(fake).status === 'True');
    expect(fake.loop.status().blockedDeletes).toBe(1);
    expect(fake.loop.status().conditions.Enforced?.status).toBe('Unknown');
    mine = false;
    fake.triggers.wake('lease');
    await fake.clock.pass(0);
    const standby = fake.loop.status();
    expect(standby).toMatchObject({ blockedDeletes: 0, drift: 0, fights: 0, liveRules: null, plan: null });
    expect(Object.values(standby.conditions).map(({ type, status, reason }) => [type, status, reason])).toEqual([
      ['Ready', 'Unknown', 'Standby'],
      ['Reconciling', 'False', 'Idle'],
      ['Stalled', 'False', 'Progress'],
    ]);
    expect(ready(fake).message).toContain('nobody is known to hold it');
    fake.badSettings = 'interval is wrong';
    fake.triggers.wake('settings');
    await fake.clock.pass(0);
    expect(stalled(fake)).toMatchObject({ status: 'True', reason: 'BadSettings' });
    mine = true;
    fake.triggers.wake('lease');
    await fake.clock.pass(0);
    expect(ready(fake)).toMatchObject({ status: 'False', reason: 'Refused' });
    await end(fake);
  });

  it('an error in the program ends the pass, not the process, and shows neither message nor value', async () => {
    const fake = fakeLoop();
    fake.answer = () => {
      if (fake.requests.length === 1) throw new TypeError('canary');
      return { kind: 'in-sync' };
    };
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    expect(JSON.stringify(fake.log)).not.toContain('canary');
    expect(fake.log.some((line) => line.message === 'An internal error ended the pass')).toBe(true);
    await end(fake);
  });

  it('with --once ends after the first pass that was judged', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, quietMs: 500 };
    let verdict: unknown;
    void fake.loop.run(true).then((given) => (verdict = given));
    await fake.clock.until(() => verdict !== undefined);
    expect(verdict).toMatchObject({ kind: 'good' });
  });

  it('fault 41: is not alive while a pass hangs, and measures that by the interval that a reload set', async () => {
    const fake = fakeLoop();
    start(fake);
    await fake.clock.until(() => fake.requests.length === 1);
    fake.clock.skip(659_000);
    expect(fake.loop.isAlive()).toBe(true);
    fake.clock.skip(2000);
    expect(fake.loop.isAlive()).toBe(false);
    fake.settings = { ...defaultSettings, intervalMs: 120_000 };
    expect(fake.loop.isAlive()).toBe(true);
    await fake.clock.until(() => fake.requests.length === 2);
    expect(fake.clock.now()).toBeGreaterThan(660_000);
    expect(fake.loop.isAlive()).toBe(true);
    await end(fake);
  });
});

describe('windows', () => {
  const friday = parseSchedule('0 0 * * fri', 'UTC');
  if (!friday.ok) throw new Error(friday.error);
  const windows = [
    { kind: 'deny', schedule: friday.value, durationMs: 86_400_000, scope: ['rules', 'configuration'] },
  ] as const;
  const opening = { ...planOf(['+10.0.0.1']), effect: { opens: [{}], closes: [{}] } } as unknown as Plan;

  it('a plan that opens waits whole until the window opens, says until when, and is written at once then', async () => {
    const fake = fakeLoop();
    fake.settings = {
      ...defaultSettings,
      windows,
      intervalMs: 7 * 86_400_000,
    };
    await fake.clock.pass(Date.parse('2023-11-17T12:00:00Z') - fake.clock.wallTime());
    fake.passMs = 4000;
    fake.answer = () => (fake.applied.length === 0 ? { kind: 'apply', plan: opening } : { kind: 'in-sync' });
    start(fake);
    await fake.clock.until(() => ready(fake).reason === 'OutsideWindow');
    expect(ready(fake).message).toContain('the next window opens at 2023-11-18T00:00:00Z');
    expect(fake.loop.status().windowOpensAt).toBe(Date.parse('2023-11-18T00:00:00Z'));
    expect(fake.turns.map(({ what }) => what)).toEqual(['broken']);
    expect(stalled(fake).status).toBe('False');
    await fake.clock.until(() => fake.applied.length === 1);
    expect(fake.clock.wallTime()).toBe(Date.parse('2023-11-18T00:00:00Z'));
    await fake.clock.until(() => ready(fake).status === 'True');
    expect(fake.loop.status().windowOpensAt).toBeNull();
    await end(fake);
  });

  it('a machine that slept over the opening writes within a second of waking up', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, windows, intervalMs: 7 * 86_400_000 };
    await fake.clock.pass(Date.parse('2023-11-17T12:00:00Z') - fake.clock.wallTime());
    fake.answer = () => (fake.applied.length === 0 ? { kind: 'apply', plan: opening } : { kind: 'in-sync' });
    start(fake);
    await fake.clock.until(() => ready(fake).reason === 'OutsideWindow');
    fake.clock.suspend(13 * 3_600_000);
    await fake.clock.pass(1000);
    expect(fake.applied.length).toBe(1);
    await end(fake);
  });

  it('drift that opens nothing is corrected at any time; what opens waits, as any other', async () => {
    const fake = fakeLoop();
    fake.settings = { ...defaultSettings, windows };
    await fake.clock.pass(Date.parse('2023-11-17T12:00:00Z') - fake.clock.wallTime());
    start(fake);
    await fake.clock.until(() => ready(fake).status === 'True');
    fake.answer = () =>
      fake.applied.length === 0 ? { kind: 'apply', plan: planOf(['-10.0.0.1']) } : { kind: 'in-sync' };
    await fake.clock.until(() => fake.applied.length === 1);
    fake.answer = () => ({ kind: 'apply', plan: opening });
    await fake.clock.until(() => ready(fake).reason === 'OutsideWindow');
    expect(fake.applied.length).toBe(1);
    await end(fake);
  });
});
