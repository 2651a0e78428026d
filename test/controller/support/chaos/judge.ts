import { readFileSync } from 'node:fs';
import path from 'node:path';
import { findOpenGaps } from '../../../../src/apply/open-gaps.ts';
import type { LoggedRequest } from '../../../../src/simulator/server.ts';
import type { World } from '../sidecar.ts';
import type { Chaos } from './deeds.ts';
import type { Model } from './model.ts';

/** How far behind the newest push a sidecar among faults may be. */
const lag = 8;

/** What was seen of the calls. */
export interface Watched {
  total: number;
  writes: number;
  /** Rules that the sidecar deleted although every revision it may have been at wants them. */
  readonly wrongDeletes: string[];
}

/** Counts the calls, and watches the deletes. */
export function watchCalls(world: World, models: readonly Model[], meddled: ReadonlySet<string>): Watched {
  const watched: Watched = { total: 0, writes: 0, wrongDeletes: [] };
  const known = new Map<string, string>();
  const learn = (): void => {
    for (const rule of world.sim.rules()) known.set(rule.id, `${rule.action} ${rule.destination}`);
  };
  world.sim.onCall((call: LoggedRequest) => {
    watched.total += 1;
    if (call.method !== 'GET') watched.writes += 1;
    const id = call.path.split('/').at(-1) ?? '';
    const key = known.get(id);
    if (call.method === 'DELETE' && call.status === 204 && key !== undefined && !meddled.has(id)) {
      const recent = models.slice(-lag);
      const isWanted =
        recent.length === lag && recent.every((model) => [...model].some(([to, action]) => `${action} ${to}` === key));
      if (isWanted) watched.wrongDeletes.push(key);
    }
    learn();
  });
  return watched;
}

/** How many calls of this method there were. */
export function countOf(world: World, method: string): number {
  return world.sim.requests().filter((call) => call.method === method).length;
}

/** What is wrong once everything has healed. */
export async function verdict(chaos: Chaos, last: Model, idleDeletes: number): Promise<string[]> {
  const problems: string[] = [];
  const expected = [...last.keys()].map((destination) => destination.replace(/\/32$/, '')).sort();
  const live = chaos.world.live();
  if (live.join() !== expected.join()) problems.push(`not in sync: ${live.join(' ')} instead of ${expected.join(' ')}`);
  if (idleDeletes > 0) problems.push(`${idleDeletes} deletes although everything was in sync`);
  const journal = readFileSync(path.join(chaos.world.state, 'reconcile/journal.jsonl'), 'utf8');
  if (findOpenGaps(journal).size > 0) problems.push('a gap was left open');
  if (/canary/.test(journal)) problems.push('the journal holds a canary');
  const page = `${JSON.stringify(await chaos.sidecar.status())}${await chaos.sidecar.metrics()}`;
  if (/canary/.test(page)) problems.push('status or metrics hold a canary');
  return problems;
}
