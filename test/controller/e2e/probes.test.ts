import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Sidecar, World } from '../support/sidecar.ts';
import { ensureBuilt, inEffect, makeWorld, rules, startSidecar } from '../support/sidecar.ts';

let world: World;
let sidecar: Sidecar;

beforeAll(ensureBuilt);

beforeEach(async () => {
  world = await makeWorld();
});

afterEach(async () => {
  await sidecar.stop();
  await world.close();
});

/** Text of about 2 MB that takes long to parse, and little else: people nobody grants anything. */
function manyUsers(file: number): string {
  const lines = Array.from({ length: 40_000 }, (_, index) => {
    const id = `${String(file).padStart(8, '0')}-0000-4000-8000-${String(index).padStart(12, '0')}`;
    return `  user-${file}-${index}: ${id}`;
  });
  return `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: users-${file}}\nspec:\n${lines.join('\n')}\n`;
}

describe('the probes', () => {
  it('threat 8: answer while very large manifests are parsed (long)', async () => {
    writeFileSync(path.join(world.manifests, 'a.yaml'), rules('10.0.0.1'));
    const quick = ['--quiet', '20ms', '--rescan', '300ms', '--interval', '60s'];
    sidecar = await startSidecar(world, [world.manifests, ...quick]);
    const before = await sidecar.until(inEffect());
    for (let file = 0; file < 3; file++) writeFileSync(path.join(world.manifests, `u${file}.yaml`), manyUsers(file));
    writeFileSync(path.join(world.manifests, 'a.yaml'), rules('10.0.0.1', '10.0.0.2'));
    const answersMs: number[] = [];
    for (let live = 1; live < 2; live = world.live().length) {
      const from = performance.now();
      expect((await fetch(`${sidecar.url}/healthz`)).status).toBe(200);
      answersMs.push(performance.now() - from);
    }
    const after = await sidecar.until(
      (status) => inEffect()(status) && status.revisions.applied !== before.revisions.applied,
    );
    // Parsed in place, one answer waits for nearly all of the pass (seen: 1513 ms of 1547); in threads for little (82 of 1582).
    const passMs = Math.max(...after.passes.map(({ durationMs }) => durationMs));
    const sorted = answersMs.toSorted((a, b) => a - b);
    expect(sorted.at(-1)).toBeLessThan(passMs / 2);
    // The pass was long beside an answer, on whatever machine: else this shows nothing.
    expect(passMs).toBeGreaterThan(20 * (sorted[Math.floor(sorted.length / 2)] ?? Number.NaN));
    expect(sorted.length).toBeGreaterThan(10);
  }, 120_000);
});
