import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emptyRecord, type LoopRecord } from '../../src/controller/record.ts';
import type { Plan } from '../../src/plan/plan.ts';
import { defaultSettings, type FakeLoop, fakeLoop, planOf } from '../controller/support/fake-loop.ts';
import { runs } from './runs.ts';

const minute = 60_000;

/** What happens to a sidecar with `confirmWith`, one thing after the other. */
type Event =
  | { readonly kind: 'push' | 'restart' | 'drift' }
  | { readonly kind: 'confirms' | 'serves' | 'keeps' | 'suspends'; readonly is: boolean }
  | { readonly kind: 'pass'; readonly ms: number };

const events = fc.array(
  fc.oneof(
    {
      weight: 3,
      arbitrary: fc.constantFrom('push' as const, 'restart' as const, 'drift' as const).map((kind) => ({ kind })),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        kind: fc.constantFrom('confirms' as const, 'serves' as const, 'keeps' as const, 'suspends' as const),
        is: fc.boolean(),
      }),
    },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.nat({ max: 12 * minute }) }) },
  ),
  { maxLength: 25 },
);

/** A server, a Git branch and one sidecar after the other. */
class World {
  fake: FakeLoop;
  head = 1;
  live = 'r1';
  confirms = true;
  serves = true;
  keeps = true;
  suspends = false;
  /** Revisions that went back, as the record said first. */
  readonly failed = new Set<string>();
  readonly #aims = new Map<Plan, string>();
  #seen = 0;

  constructor() {
    this.fake = this.#start({ ...emptyRecord, appliedRevision: 'r1', inForceRevision: 'r1', knownRules: 1 });
  }

  #start(record: LoopRecord): FakeLoop {
    const fake = fakeLoop({ git: true, record });
    this.#seen = 0;
    fake.answer = ({ content, back }) => {
      this.look();
      if (!this.serves) return { kind: 'unreadable', code: 'refused' };
      if (back === 'rest' || back === 'before') return { kind: 'unreadable', code: 'no-record' };
      if (content.revision === this.live) return { kind: 'in-sync' };
      const plan = planOf([`+10.0.0.${(this.#aims.size % 250) + 1}`]);
      this.#aims.set(plan, content.revision);
      return { kind: 'apply', plan };
    };
    fake.confirms = () => (this.confirms ? null : 'it ended with 1');
    fake.running = fake.loop.run(false);
    this.fake = fake;
    this.#set();
    return fake;
  }

  #set(): void {
    this.fake.keepsRecord = this.keeps;
    this.fake.source = `r${this.head}`;
    this.fake.settings = { ...defaultSettings, confirmWithinMs: 5 * minute, suspended: this.suspends };
  }

  /** Takes over what was written since, and checks it. */
  look(): void {
    for (const plan of this.fake.applied.slice(this.#seen)) {
      this.live = this.#aims.get(plan) ?? this.live;
      expect([...this.failed]).not.toContain(this.live);
    }
    this.#seen = this.fake.applied.length;
    for (const one of this.kept.givenUp) this.failed.add(one);
  }

  /** The record as the next process would find it. */
  get kept(): LoopRecord {
    return this.#saved;
  }
  #saved: LoopRecord = emptyRecord;

  async play(event: Event): Promise<void> {
    if (event.kind === 'push') this.head += 1;
    if (event.kind === 'confirms') this.confirms = event.is;
    if (event.kind === 'serves') this.serves = event.is;
    if (event.kind === 'keeps') this.keeps = event.is;
    if (event.kind === 'suspends') this.suspends = event.is;
    if (event.kind === 'drift') this.live = 'something else';
    this.#set();
    this.fake.triggers.wake('webhook');
    await this.#pass(event.kind === 'pass' ? event.ms : 1);
    if (event.kind === 'restart') {
      const record = this.kept;
      await this.end();
      this.#start(record);
      await this.#pass(1);
    }
  }

  async #pass(ms: number): Promise<void> {
    await this.fake.clock.pass(ms);
    if (this.keeps) this.#saved = this.fake.saved.at(-1) ?? this.#saved;
    this.look();
  }

  async end(): Promise<void> {
    this.fake.stop();
    await this.fake.clock.pass(0);
    await this.fake.running;
  }
}

describe('confirmWith, whatever happens', () => {
  it('what was not confirmed is never applied again, and the end is what was confirmed last', async () => {
    await fc.assert(
      fc.asyncProperty(events, fc.boolean(), async (list, isKept) => {
        const world = new World();
        try {
          await world.play({ kind: 'pass', ms: 1 });
          for (const event of list) await world.play(event);
          // Everything works again, and the newest revision is confirmed or not.
          for (const kind of ['serves', 'keeps'] as const) await world.play({ kind, is: true });
          await world.play({ kind: 'suspends', is: false });
          await world.play({ kind: 'confirms', is: isKept });
          await world.play({ kind: 'push' });
          for (let round = 0; round < 4; round++) await world.play({ kind: 'pass', ms: 30 * minute });
          const { confirmedRevision, pendingRevision, givenUp } = world.kept;
          const newest = `r${world.head}`;
          expect(pendingRevision).toBeNull();
          expect(world.live).toBe(confirmedRevision);
          expect([confirmedRevision === newest, givenUp.at(-1) === newest]).toEqual([isKept, !isKept]);
        } finally {
          await world.end();
        }
      }),
      { numRuns: runs(300) },
    );
  });
});
