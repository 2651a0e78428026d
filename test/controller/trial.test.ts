import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/adapters/clock.ts';
import { createSoleWriter } from '../../src/controller/lease.ts';
import type { PassEnding } from '../../src/controller/pass-ending.ts';
import { emptyRecord, type LoopRecord, lostRecord } from '../../src/controller/record.ts';
import { askUntilConfirmed, Trial } from '../../src/controller/trial.ts';
import { createTriggers } from '../../src/controller/trigger.ts';
import { type EnforcementReport, type KernelState, reportUnreadable } from '../../src/enforcement/report.ts';
import { parseSchedule } from '../../src/plan/guard/windows.ts';
import type { Plan } from '../../src/plan/plan.ts';
import type { Clock } from '../../src/ports.ts';
import { defaultSettings, type FakeLoop, fakeLoop, planOf } from './support/fake-loop.ts';

let fake: FakeLoop;
const say = (): void => undefined;
const quiet = { debug: say, info: say, warn: say, error: say };
/** What each plan brings about, in the order in which they were made. */
let aims: Map<Plan, string>;

const confirming = { ...defaultSettings, confirmWithinMs: 300_000 };
const ready = () => fake.loop.status().conditions.Ready;
const saved = () => fake.saved.at(-1) ?? emptyRecord;
/** What was written, in order. */
const written = () => fake.applied.map((plan) => aims.get(plan));
const live = () => written().at(-1) ?? 'r1';
const inEffect = (revision: string) => () =>
  ready().status === 'True' && fake.loop.status().revisions.applied === revision;

/** A last look at the packet filter that found this. */
const seen = (state: EnforcementReport['state']): KernelState => ({
  report: { ...reportUnreadable('nft failed', 1), state },
  waitedMs: 0,
});

/** A loop whose server holds r1, which was applied before anything had to be confirmed. */
function begin(
  record: Partial<LoopRecord> = {},
  { once = false, ...options }: Parameters<typeof fakeLoop>[0] & { once?: boolean } = { git: true },
): void {
  const inForce = { appliedRevision: 'r1', inForceRevision: 'r1', knownRules: 1 };
  fake = fakeLoop({ ...options, record: { ...emptyRecord, ...inForce, ...record } });
  fake.settings = confirming;
  aims = new Map();
  fake.answer = ({ content, back }) => {
    if (back === 'rest' || back === 'before') return { kind: 'unreadable', code: 'no-record' };
    if (content.revision === live()) return { kind: 'in-sync' };
    const plan = planOf(['+10.0.0.1', '-10.0.0.2']);
    aims.set(plan, content.revision);
    return { kind: 'apply', plan };
  };
  fake.running = fake.loop.run(once);
}

/** What lay there before each apply is recorded, so that it can be taken back. */
function recordBefore(): void {
  const { answer } = fake;
  fake.answer = (request) => {
    if (request.back === undefined || request.back === 'confirmed') return answer(request);
    const plan = planOf(['-10.0.0.1']);
    aims.set(plan, `before ${request.content.revision}`);
    return { kind: 'apply', plan };
  };
}

/** Somebody changes what is live. */
function holds(what: string): void {
  const plan = planOf([]);
  aims.set(plan, what);
  fake.applied.push(plan);
}

async function end(): Promise<void> {
  fake.stop();
  await fake.clock.pass(0);
  await fake.running;
}

/** The process ends, and another one begins with what it left. */
async function restart(): Promise<void> {
  const [before, held] = [fake, live()];
  await end();
  begin(before.saved.at(-1));
  fake.source = before.source;
  holds(held);
}

async function push(revision: string): Promise<void> {
  fake.source = revision;
  fake.triggers.wake('webhook');
  await fake.clock.pass(0);
}

/** r2 is applied, and nothing confirms it. */
async function pushUnconfirmed(): Promise<void> {
  await fake.clock.until(inEffect('r1'));
  fake.confirms = () => 'it ended with 7: no route';
  await push('r2');
  await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
}

/** The server refuses to take back what was not confirmed; gives how it answered before. */
function refuseBack(status: number): typeof fake.answer {
  const { answer } = fake;
  fake.answer = (request) =>
    request.back === 'confirmed'
      ? { kind: 'apply', plan: planOf(['+10.0.0.9']), end: 'failed', status }
      : answer(request);
  return answer;
}

beforeEach(() => begin());
afterEach(end);

describe('a revision that has to be confirmed', () => {
  it('counts as applied only once the command ends with 0; the one in force when confirming began counts as confirmed', async () => {
    await fake.clock.until(inEffect('r1'));
    expect(saved()).toMatchObject({ confirmedRevision: 'r1', pendingRevision: null });
    let answer: string | null = 'it ended with 1';
    fake.confirms = () => answer;
    await push('r2');
    await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
    expect(written()).toEqual(['r2']);
    expect(fake.loop.status()).toMatchObject({
      revisions: { applied: 'r1' },
      confirmBy: fake.clock.wallTime() + 300_000,
    });
    expect(saved()).toMatchObject({ confirmedRevision: 'r1', pendingRevision: 'r2', appliedRevision: 'r1' });
    await fake.clock.pass(60_000);
    expect(ready()).toMatchObject({ status: 'False', reason: 'AwaitingConfirmation' });
    answer = null;
    await fake.clock.until(inEffect('r2'), 5000);
    expect(saved()).toMatchObject({ confirmedRevision: 'r2', pendingRevision: null, appliedRevision: 'r2' });
    expect(fake.loop.status().confirmBy).toBeNull();
    expect(fake.turns.map(({ what }) => what)).toEqual(['applied']);
    // What came meanwhile does not wait for the next interval.
    answer = 'it ended with 1';
    await push('r3');
    await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
    await push('r4');
    await fake.clock.pass(10_000);
    expect(written().at(-1)).toBe('r3');
    answer = null;
    await fake.clock.until(() => written().at(-1) === 'r4', 5000);
    await fake.clock.until(inEffect('r4'), 5000);
    await push('r2');
    await fake.clock.until(inEffect('r2'), 5000);
    // Drift of what is confirmed is corrected, and not tried out.
    holds('something else');
    await fake.clock.until(() => written().at(-1) === 'r2' && written().length === 6);
    expect(ready()).toMatchObject({ status: 'True', reason: 'Applied' });
  });

  it('goes back to the confirmed one when its time is over, says why, and is not tried again; the next commit is', async () => {
    await pushUnconfirmed();
    const from = fake.clock.now();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(fake.clock.now() - from).toBe(300_000);
    expect(written()).toEqual(['r2', 'r1']);
    expect(fake.loop.status().conditions.Stalled).toMatchObject({ status: 'True', reason: 'NotConfirmed' });
    expect(ready().message).toContain('r2 was not confirmed in time (it ended with 7: no route)');
    await fake.clock.pass(6 * 3_600_000);
    expect(written()).toEqual(['r2', 'r1']);
    expect(ready().message).toContain('and is not tried again; what it changed was taken back');
    expect(fake.turns.map(({ what }) => what)).toEqual(['broken', 'applied']);
    expect(saved()).toMatchObject({ givenUp: ['r2'], confirmedRevision: 'r1', pendingRevision: null });
    fake.confirms = () => null;
    await push('r3');
    await fake.clock.until(inEffect('r3'));
    expect(saved()).toMatchObject({ givenUp: [], confirmedRevision: 'r3' });
  });

  it('whose time ends during a pass is taken back at once, and nobody is told that the record cannot be written', async () => {
    for (const once of [false, true]) {
      await end();
      begin({ confirmedRevision: 'r1' }, { git: true, once });
      fake.source = 'r2';
      fake.confirms = () => 'it ended with 7: no route';
      await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
      await fake.clock.pass(295_000);
      fake.passMs = 10_000;
      holds('something else');
      fake.triggers.wake('webhook');
      await fake.clock.until(() => ready().reason === 'NotConfirmed', 30_000);
      expect(written()).toEqual(['r2', 'something else', 'r2', 'r1']);
      const told = fake.turns.filter(({ what }) => what === 'broken');
      expect(told.map(({ status }) => status.conditions.Ready.reason)).toEqual(['NotConfirmed']);
      fake.passMs = 0;
      await fake.clock.pass(20_000);
    }
  });

  it('is not tried again either when the branch is set back to it after the next one failed too, or after a restart', async () => {
    await pushUnconfirmed();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    await push('r3');
    await fake.clock.until(() => written().includes('r3'));
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(written()).toEqual(['r2', 'r1', 'r3', 'r1']);
    await push('r2');
    await fake.clock.pass(600_000);
    expect(ready().message).toContain('r2 was not confirmed in time');
    expect(written()).toEqual(['r2', 'r1', 'r3', 'r1']);
    await restart();
    await fake.clock.pass(600_000);
    expect(written()).toEqual(['r1']);
    fake.confirms = () => null;
    await push('r4');
    await fake.clock.until(inEffect('r4'));
    expect(saved()).toMatchObject({ givenUp: [] });
  });

  it('says who is to be in force and what failed in one and the same save', async () => {
    await pushUnconfirmed();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    const first = fake.saved.find(({ givenUp }) => givenUp.includes('r2'));
    expect(first).toMatchObject({ givenUp: ['r2'], inForceRevision: 'r1', pendingRevision: 'r2' });
  });

  it('confirmWith going back × the record cannot be written: it waits, since nobody may apply it again', async () => {
    await pushUnconfirmed();
    fake.keepsRecord = false;
    await fake.clock.until(() => ready().reason === 'RecordFailed');
    await fake.clock.pass(20_000);
    expect(written()).toEqual(['r2']);
    fake.keepsRecord = true;
    await fake.clock.until(() => ready().reason === 'NotConfirmed', 10_000);
    expect(written()).toEqual(['r2', 'r1']);
  });

  it('waits until the packet filter is expected to hold it before it is asked for', async () => {
    await fake.clock.until(inEffect('r1'));
    let asked = 0;
    fake.confirms = () => {
      asked += 1;
      return null;
    };
    fake.enforcedInMs = 8000;
    await push('r2');
    await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
    await fake.clock.pass(7999);
    expect(asked).toBe(0);
    await fake.clock.pass(1);
    expect([asked, inEffect('r2')()]).toEqual([1, true]);
  });

  it('is not confirmed while the packet filter is seen not to hold it, and is asked for once a later look finds it there', async () => {
    await fake.clock.until(inEffect('r1'));
    let asked = 0;
    fake.confirms = () => {
      asked += 1;
      return null;
    };
    fake.kernel = seen('differs');
    await push('r2');
    await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
    await fake.clock.pass(20_000);
    expect([asked, ready().reason]).toEqual([0, 'AwaitingConfirmation']);
    fake.kernel = seen('enforced');
    await fake.clock.until(inEffect('r2'), 8000);
    expect([asked, written()]).toEqual([1, ['r2']]);
  });

  it('is taken back unasked when the packet filter is never seen to hold it, and says so', async () => {
    await fake.clock.until(inEffect('r1'));
    const confirms = vi.fn(() => null);
    [fake.confirms, fake.kernel] = [confirms, seen('differs')];
    await push('r2');
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect([confirms.mock.calls.length, written()]).toEqual([0, ['r2', 'r1']]);
    expect(ready().message).toContain('r2 was not confirmed in time (the packet filter does not hold it)');
    // The next one has looks of its own.
    fake.kernel = seen('enforced');
    await push('r3');
    await fake.clock.until(inEffect('r3'), 8000);
  });

  it('is not confirmed before the estimate where the packet filter cannot be read', async () => {
    await fake.clock.until(inEffect('r1'));
    const confirms = vi.fn(() => null);
    [fake.confirms, fake.kernel, fake.enforcedInMs] = [confirms, seen('unreadable'), 8000];
    await push('r2');
    await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
    await fake.clock.pass(7999);
    expect(confirms).not.toHaveBeenCalled();
    await fake.clock.pass(1);
    expect([confirms.mock.calls.length, inEffect('r2')()]).toEqual([1, true]);
  });

  it('confirmWith waiting × a newer commit: that one waits; drift is corrected, and confirmed within the same time', async () => {
    await pushUnconfirmed();
    const { confirmBy } = fake.loop.status();
    holds('something else');
    await push('r3');
    await fake.clock.pass(120_000);
    expect(written()).toEqual(['r2', 'something else', 'r2']);
    expect(fake.loop.status().confirmBy).toBe(confirmBy);
    await fake.clock.until(() => written().includes('r3'));
    expect(written()).toEqual(['r2', 'something else', 'r2', 'r1', 'r3']);
    expect(saved()).toMatchObject({ confirmedRevision: 'r1', pendingRevision: 'r3' });
    const [told] = fake.turns.filter(({ what }) => what === 'broken');
    expect(told?.status.passes[0]).toMatchObject({ reason: 'NotConfirmed', failedRevision: 'r2' });
  });

  it('that the server carries out in part is tried out too, and the commit that mends it comes once it is confirmed', async () => {
    await fake.clock.until(inEffect('r1'));
    const { answer } = fake;
    fake.answer = (request) => {
      const given = answer(request);
      return given.kind === 'apply' && request.content.revision === 'r2'
        ? { ...given, end: 'failed', status: 422 }
        : given;
    };
    fake.confirms = () => 'it ended with 1';
    await push('r2');
    await fake.clock.until(() => ready().reason === 'ApplyFailed');
    await push('r3');
    await fake.clock.pass(30_000);
    expect(written()).not.toContain('r3');
    fake.confirms = () => null;
    await fake.clock.until(inEffect('r3'));
    expect(saved()).toMatchObject({ confirmedRevision: 'r3', pendingRevision: null });
  });

  it('is taken back with the one before, where that was confirmed and never came into effect, also after a restart', async () => {
    await fake.clock.until(inEffect('r1'));
    const { answer } = fake;
    fake.answer = (request) =>
      request.content.revision === 'r2'
        ? { kind: 'apply', plan: planOf(['+10.0.0.1']), end: 'failed', status: 422 }
        : answer(request);
    await push('r2');
    await fake.clock.until(() => ready().reason === 'ApplyFailed');
    await fake.clock.pass(30_000);
    fake.confirms = () => 'it ended with 1';
    await push('r3');
    await fake.clock.pass(5000);
    expect(saved()).toMatchObject({ pendingRevision: 'r3', passedOver: ['r2'] });
    await restart();
    fake.confirms = () => 'it ended with 1';
    await fake.clock.pass(400_000);
    expect(ready().reason).toBe('NotConfirmed');
    const back = fake.requests.find((request) => request.back === 'rest');
    expect(back?.record).toMatchObject({ pendingRevision: 'r3', passedOver: ['r2'] });
    expect(saved()).toMatchObject({ confirmedRevision: 'r1', pendingRevision: null, passedOver: [] });
  });

  it('whose time is over while a pass corrects drift gets no more time for what that pass wrote', async () => {
    const { clock } = fake;
    const trial = new Trial(
      { clock, logger: quiet, triggers: createTriggers(clock), confirm: () => Promise.resolve('it ended with 7') },
      new AbortController().signal,
    );
    const pass = (outcomes: PassEnding['outcomes']): PassEnding => ({
      ...{ content: { revision: 'r2', files: [] }, verdict: { kind: 'good', reason: 'Applied', message: '' } },
      ...{ triggers: new Set(), started: 0, from: 0, outcomes: outcomes ?? [] },
    });
    const wrote = [{ step: planOf(['+10.0.0.1']).steps[0], outcome: 'done' }] as unknown as PassEnding['outcomes'];
    const judge = (): string | null => {
      trial.passEnded('r2', pass(wrote), 10_000, { pendingUntil: null, graceGiven: false });
      return trial.wordOn('r2');
    };
    expect(judge()).toBe('waiting');
    await clock.pass(11_000);
    expect([trial.wordOn('r2'), judge()]).toEqual(['lost', 'lost']);
    trial.begin();
    expect(judge()).toBe('waiting');
  });

  it('and failed once is tried out anew when it comes again after one that was confirmed', async () => {
    await end();
    begin({}, {});
    await pushUnconfirmed();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    const { answer } = fake;
    fake.answer = (request) => (request.content.revision === 'r3' ? { kind: 'in-sync' } : answer(request));
    await push('r3');
    await fake.clock.until(inEffect('r3'));
    fake.answer = answer;
    fake.confirms = () => null;
    await push('r2');
    await fake.clock.until(inEffect('r2'));
  });

  it('goes back though its process is moved more often than the time of one run of the command', async () => {
    begin({ confirmedRevision: 'r1' });
    fake.confirms = () => 'it ended with 7';
    await push('r2');
    let record: Partial<LoopRecord> = {};
    for (let moved = 0; moved < 12; moved++) {
      await fake.clock.pass(35_000);
      const [{ clock, source }, held] = [fake, live()];
      record = { ...record, ...fake.saved.at(-1) };
      await end();
      begin(record, { git: true, replica: { clock, lease: createSoleWriter } });
      fake.source = source;
      fake.confirms = () => 'it ended with 7';
      holds(held);
    }
    await fake.clock.pass(1000);
    expect([ready().reason, live()]).toEqual(['NotConfirmed', 'r1']);
  });

  it('a record that cannot be read: what is in effect is confirmed anew, and taken back otherwise', async () => {
    for (const confirms of [null, 'it ended with 7']) {
      begin({ ...lostRecord });
      recordBefore();
      fake.source = 'r2';
      holds('r2');
      fake.confirms = () => confirms;
      await fake.clock.pass(20_000);
      expect(saved()).toMatchObject(
        confirms === null
          ? { pendingRevision: null, confirmedRevision: 'r2' }
          : { pendingRevision: 'r2', isLost: true },
      );
      await fake.clock.pass(310_000);
      expect(live()).toBe(confirms === null ? 'r2' : 'before r2');
      await end();
    }
  });

  it('needs nothing once confirmWith is gone from the settings', async () => {
    await pushUnconfirmed();
    fake.settings = defaultSettings;
    fake.triggers.wake('settings');
    await fake.clock.until(inEffect('r2'));
    expect(saved()).toMatchObject({ confirmedRevision: null, pendingRevision: null, givenUp: [] });
    await fake.clock.pass(600_000);
    expect(written()).toEqual(['r2']);
  });
});

describe('going back', () => {
  const nothingOpen = [
    { kind: 'deny' as const, schedule: scheduleOf('* * * * *'), durationMs: 3_600_000, scope: ['rules'] as const },
  ];

  it.each([
    ['a window that is closed', { windows: nothingOpen }],
    ['suspend', { suspended: true }],
    ['drift that is only reported', { onDrift: 'report' as const }],
    ['deletes that wait until the content is stable', { deleteQuietMs: 3_600_000 }],
  ])('confirmWith going back × %s: it goes back', async (_, change) => {
    await pushUnconfirmed();
    fake.settings = { ...confirming, ...change };
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(written()).toEqual(['r2', 'r1']);
    expect(fake.requests.filter(({ back }) => back === 'confirmed').length).toBeGreaterThan(0);
  });

  it('confirmWith waiting × SIGTERM: the wait ends and nothing goes back; the next start goes on waiting', async () => {
    await pushUnconfirmed();
    await end();
    expect(written()).toEqual(['r2']);
    expect(saved()).toMatchObject({ pendingRevision: 'r2', givenUp: [] });
    await restart();
    fake.confirms = () => 'it ended with 7';
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(written()).toEqual(['r2', 'r1']);
  });

  it('a start confirms by itself what waits, and does not take back what is confirmed then', async () => {
    await pushUnconfirmed();
    await restart();
    await fake.clock.until(inEffect('r2'));
    expect(written()).toEqual(['r2']);
    expect(saved()).toMatchObject({ confirmedRevision: 'r2' });
  });

  it('a start does not try again what was not confirmed', async () => {
    await pushUnconfirmed();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    await restart();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    // This process does not know whether something had to stay.
    expect(ready().message).toContain(
      'what it changed was taken back by an earlier process, whose log says what stayed',
    );
    await fake.clock.pass(3_600_000);
    expect(written()).toEqual(['r1']);
  });

  it('is tried again as long as it fails, says what is open, and does not hold up the next commit for good', async () => {
    await pushUnconfirmed();
    refuseBack(403);
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(ready().message).toContain('what it changed is not taken back yet: POST /v0/rules: 403');
    const tries = () => fake.requests.filter(({ back }) => back === 'confirmed').length;
    const before = tries();
    await fake.clock.until(() => tries() > before + 2);
    fake.confirms = () => null;
    await push('r3');
    await fake.clock.until(inEffect('r3'));
    expect(saved()).toMatchObject({ confirmedRevision: 'r3', pendingRevision: null });
  });

  it('that the server refused for good is tried again with the next commit that fails too', async () => {
    await pushUnconfirmed();
    const answer = refuseBack(422);
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    await push('r3');
    await fake.clock.until(() => saved().pendingRevision === 'r3');
    expect(saved()).toMatchObject({ passedOver: ['r2'], givenUp: ['r2'] });
    fake.answer = answer;
    await fake.clock.until(() => saved().givenUp.includes('r3') && saved().pendingRevision === null);
    const back = fake.requests.findLast((request) => request.back === 'rest');
    expect(back?.record).toMatchObject({ pendingRevision: 'r3', passedOver: ['r2'] });
  });

  it.each([6000, 300_000])('a source that hangs does not hold it up, whose time is %i ms', async (withinMs) => {
    await fake.clock.until(inEffect('r1'));
    fake.settings = { ...confirming, confirmWithinMs: withinMs };
    fake.confirms = () => 'it ended with 7';
    await push('r2');
    await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
    fake.hangsMs = 60_000;
    await fake.clock.pass(withinMs + 6000);
    expect([ready().reason, written()]).toEqual(['NotConfirmed', ['r2', 'r1']]);
  });

  it('a source that hangs does not hold up a process that takes over: it asks the command, and goes back', async () => {
    await end();
    let mine = false;
    const { signal } = new AbortController();
    const lease = { ...createSoleWriter(), mayStart: () => mine, mayWrite: () => mine, signal: () => signal };
    begin({ confirmedRevision: 'r1', pendingRevision: 'r2', inForceRevision: 'r2' }, { git: true, lease });
    fake.source = 'r2';
    holds('r2');
    fake.hangsMs = 3_600_000;
    fake.confirms = () => 'it ended with 7';
    await fake.clock.pass(10_000);
    mine = true;
    fake.triggers.wake('lease');
    await fake.clock.pass(10_000);
    expect(ready().reason).toBe('AwaitingConfirmation');
    const { confirmBy } = fake.loop.status();
    await fake.clock.pass((confirmBy ?? 0) - fake.clock.wallTime() + 6000);
    expect([ready().reason, live()]).toEqual(['NotConfirmed', 'r1']);
  });

  it('what is put back from the history is not taken for what the confirmed revision asks for', async () => {
    await pushUnconfirmed();
    const { answer } = fake;
    fake.answer = (request) => {
      fake.asksFor = request.back === 'rest' ? 'what was before' : 'this';
      return request.back === 'rest' ? { kind: 'in-sync' } : answer(request);
    };
    await fake.clock.until(() => ready().reason === 'NotConfirmed' && saved().pendingRevision === null);
    const asked = new Set(fake.saved.map(({ appliedDesired }) => appliedDesired));
    expect([written(), asked]).toEqual([['r2', 'r1'], new Set([null, saved().appliedDesired])]);
  });

  it('counts in its pass all steps that it wrote, and says of which revision nothing is recorded', async () => {
    await pushUnconfirmed();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    const { passes } = fake.loop.status();
    const [first] = passes.filter(({ reason }) => reason === 'NotConfirmed');
    const { answer } = fake;
    fake.answer = (request) => (request.back === 'rest' ? { kind: 'in-sync' } : answer(request));
    await push('r3');
    await fake.clock.until(() => ready().message.startsWith('r3 was not confirmed in time'));
    const back = fake.loop
      .status()
      .passes.filter(({ reason, outcomes }) => reason === 'NotConfirmed' && outcomes.done > 0);
    expect(back.map(({ steps, outcomes }) => [steps, outcomes.done])).toEqual([
      [2, 2],
      [2, 2],
    ]);
    expect(first?.message).toContain('but for this: What r1 leaves alone');
  });

  it.each([false, true])(
    'is taken back once more when a request without an answer has had its time, also by the next process (%j)',
    async (isMoved) => {
      recordBefore();
      const { answer } = fake;
      fake.settings = { ...confirming, confirmWithinMs: 3000 };
      fake.answer = (request) => ({ ...answer(request), ...(request.content.revision === 'r2' && { mayLand: true }) });
      await pushUnconfirmed();
      const openUntil = fake.clock.wallTime() + 14_000;
      const looks = () => fake.requests.filter(({ back }) => back === 'rest').length;
      await fake.clock.until(() => looks() === 1);
      await fake.clock.pass(0);
      expect(saved()).toMatchObject({ pendingRevision: 'r2', givenUp: ['r2'], inForceRevision: 'r1' });
      fake.confirms = () => null;
      await push('r3');
      expect(written()).not.toContain('r3');
      if (isMoved) {
        await restart();
        recordBefore();
        fake.confirms = () => null;
      }
      await fake.clock.until(inEffect('r3'));
      expect(fake.clock.wallTime()).toBeGreaterThanOrEqual(openUntil);
      expect(looks()).toBeGreaterThanOrEqual(2);
      expect(saved()).toMatchObject({ confirmedRevision: 'r3', pendingRevision: null });
    },
  );

  it.each([0, 1e15])(
    'leaves a run with --once to a newer revision, also after one more look (until %i)',
    async (openUntil) => {
      await end();
      const pending = { confirmedRevision: 'r1', pendingRevision: 'r2', givenUp: ['r2'], openUntil };
      begin(pending, { git: true, once: true });
      recordBefore();
      fake.source = 'r3';
      fake.confirms = () => null;
      const began = fake.clock.wallTime();
      await fake.clock.until(inEffect('r3'), 60_000);
      // However far ahead that time lies: a clock may have been set back.
      expect(fake.clock.wallTime() - began).toBeLessThan(45_000);
      await fake.running;
    },
  );

  it('ends a run with --once where that fails, though a newer revision is there and a request may be carried out yet', async () => {
    await end();
    const pending = { confirmedRevision: 'r1', pendingRevision: 'r2', givenUp: ['r2'], openUntil: 1e15 };
    begin(pending, { git: true, once: true });
    fake.answer = () => ({ kind: 'unreadable', code: 'refused' });
    fake.source = 'r3';
    const began = fake.clock.wallTime();
    let isOver = false;
    void fake.running.then(() => (isOver = true));
    await fake.clock.until(() => isOver, 60_000);
    expect(fake.clock.wallTime() - began).toBeLessThan(10_000);
  });

  it('an outage: it is tried again until the server answers', async () => {
    await pushUnconfirmed();
    const { answer } = fake;
    fake.answer = ({ back }) => ({
      kind: 'unreadable',
      code: back === 'rest' || back === 'before' ? 'no-record' : 'refused',
    });
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(ready().message).toContain('what it changed is not taken back yet: no: refused');
    await fake.clock.pass(600_000);
    fake.answer = answer;
    await fake.clock.until(() => written().at(-1) === 'r1');
  });

  it('without a confirmed revision takes back what is recorded of its applies', async () => {
    await end();
    begin({ appliedRevision: null, inForceRevision: null });
    recordBefore();
    fake.confirms = () => 'it ended with 7';
    await push('r2');
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(written()).toEqual(['r2', 'before r2']);
    await fake.clock.pass(3_600_000);
    expect(written()).toEqual(['r2', 'before r2']);
    expect(saved()).toMatchObject({ pendingRevision: null, inForceRevision: null, confirmedRevision: null });
  });

  it('where nothing is recorded says so, and the next commit comes', async () => {
    await end();
    begin({ appliedRevision: null, inForceRevision: null });
    fake.confirms = () => 'it ended with 7';
    await push('r2');
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(ready().message).toContain('what it changed is not taken back yet: no: no-record');
    fake.confirms = () => null;
    await push('r3');
    await fake.clock.until(inEffect('r3'));
  });

  it.each<[string, () => Promise<void>]>([
    ['what nobody confirmed is taken back first', () => Promise.resolve()],
    [
      'also where its deletes wait at first',
      () => {
        fake.settings = { ...confirming, deleteQuietMs: 5000 };
        return Promise.resolve();
      },
    ],
    [
      'also where it is invalid at first',
      async () => {
        const { answer } = fake;
        fake.answer = (request) => (request.content.revision === 'broken' ? { kind: 'invalid' } : answer(request));
        fake.source = 'broken';
        await fake.clock.until(() => ready().reason === 'ManifestsInvalid');
        await fake.clock.pass(3000);
      },
    ],
  ])('confirmWith waiting × a directory that changed while no process ran: %s', async (_, first) => {
    await end();
    begin({}, {});
    fake.confirms = () => 'it ended with 7';
    await push('r2');
    await fake.clock.until(() => ready().reason === 'AwaitingConfirmation');
    const before = saved();
    await end();
    begin(before, {});
    recordBefore();
    holds('r2');
    fake.confirms = () => 'it ended with 7';
    await first();
    await push('r3');
    await fake.clock.until(() => written().at(-1) === 'r3');
    expect(written()).toEqual(['r2', 'before r2', 'r3']);
    expect(saved()).toMatchObject({ pendingRevision: 'r3', confirmedRevision: 'r1', givenUp: ['r2'] });
  });

  it('confirmWith waiting × a directory that changed while no process ran: what waits is taken back too where that is the confirmed content again', async () => {
    await end();
    begin({}, {});
    await pushUnconfirmed();
    const before = saved();
    await end();
    begin(before, {});
    recordBefore();
    holds('r2');
    fake.confirms = () => 'it ended with 7';
    fake.keepsRecord = false;
    await fake.clock.pass(60_000);
    expect([written(), ready().reason]).toEqual([['r2'], 'RecordFailed']);
    fake.keepsRecord = true;
    await fake.clock.until(() => ready().reason === 'InSync');
    // The last one is for the loop of this test, whose server holds one thing at a time.
    expect(written()).toEqual(['r2', 'r1', 'before r2', 'r1']);
    expect(saved()).toMatchObject({ pendingRevision: null, confirmedRevision: 'r1', givenUp: ['r2'] });
  });

  it.each([
    ['is taken back', 'it ended with 7', ['before r2'], { pendingRevision: null, givenUp: ['r2'] }],
    ['stays once the command ends with 0', null, [], { pendingRevision: 'r2', givenUp: [] }],
  ] as const)(
    'confirmWith waiting × a directory that is gone at the next start: what waits %s',
    async (_, answer, ways, left) => {
      await end();
      begin({}, {});
      await pushUnconfirmed();
      const before = saved();
      await end();
      begin(before, {});
      recordBefore();
      holds('r2');
      fake.confirms = () => answer;
      fake.source = [{ code: 'no-source', severity: 'error', summary: 'it is gone' }];
      await fake.clock.pass(600_000);
      // What follows looks for what ended by the revision in force.
      expect(written().slice(1, 2)).toEqual(ways);
      expect({ ...before, ...fake.saved.at(-1) }).toMatchObject({ confirmedRevision: 'r1', ...left });
      fake.source = 'r2';
      if (ways.length === 0) await fake.clock.until(inEffect('r2'));
      else await fake.clock.until(() => ready().reason === 'NotConfirmed');
      expect(written().filter((one) => one === 'r2')).toEqual(['r2']);
    },
  );

  it('a directory: the content that was confirmed is applied from memory, and kept up', async () => {
    await end();
    begin({}, {});
    await pushUnconfirmed();
    await fake.clock.until(() => ready().reason === 'NotConfirmed');
    expect(written()).toEqual(['r2', 'r1']);
    await fake.clock.pass(600_000);
    holds('something else');
    await fake.clock.until(() => written().at(-1) === 'r1');
  });
});

function scheduleOf(text: string) {
  const parsed = parseSchedule(text, 'UTC');
  if (!parsed.ok) throw new Error(parsed.error);
  return parsed.value;
}

it('a command that was asked in time is not asked again in the last milliseconds, when it could only be too slow', async () => {
  let now = 0;
  const asked: number[] = [];
  const early: Clock = {
    ...systemClock,
    sleep: async (ms) => {
      now += ms - 5;
    },
  };
  const wrong = await askUntilConfirmed(early, {
    ask: async (leftMs) => {
      asked.push(leftMs);
      return 'it ended with 7';
    },
    leftMs: () => 1000 - now,
    signal: new AbortController().signal,
    tell: () => undefined,
  });
  expect([wrong, asked]).toEqual(['it ended with 7', [1000]]);
});
