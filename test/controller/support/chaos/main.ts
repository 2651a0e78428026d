import { writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { makeUpstream, serveGit } from '../git-host.ts';
import { ensureBuilt, inEffect, makeWorld } from '../sidecar.ts';
import type { Chaos } from './deeds.ts';
import { canary, deed, pause, start } from './deeds.ts';
import { countOf, verdict, watchCalls } from './judge.ts';
import type { Model } from './model.ts';
import { generator, randomModel, remembered } from './model.ts';
import { describeScene } from './scene.ts';

/** How long the sidecar may take to be in sync after the last fault, and to end after SIGTERM. */
const healMs = 180_000;
const endMs = 60_000;

let running: Chaos | null = null;

/** Runs for so long, then lets everything heal and judges. Gives the list of what is wrong. */
async function run(minutes: number, seed: number): Promise<readonly string[]> {
  ensureBuilt();
  const random = generator(seed);
  const world = await makeWorld();
  const upstream = makeUpstream();
  const host = await serveGit(upstream);
  host.password = canary;
  const tokenFile = path.join(world.folder, 'git-token');
  writeFileSync(tokenFile, `${canary}\n`);
  const models: Model[] = [];
  upstream.commit({ 'rules.yaml': remembered(models, randomModel(random)) });
  const meddled = new Set<string>();
  const watched = watchCalls(world, models, meddled);
  const chaos: Chaos = {
    world,
    upstream,
    host,
    random,
    sidecar: await start(world, host, tokenFile),
    doing: 'starting',
    outputs: [],
    counts: {},
    models,
    meddled,
  };
  running = chaos;
  const end = performance.now() + minutes * 60_000;
  while (performance.now() < end) {
    await deed(chaos, tokenFile);
    await pause(50 + random() * 400);
    if (chaos.sidecar.child.exitCode !== null) {
      chaos.outputs.push(chaos.sidecar.output());
      throw new Error(`the sidecar ended by itself\n${chaos.sidecar.output().slice(-3000)}`);
    }
  }
  chaos.doing = 'waiting until it is in sync after the last fault';
  world.sim.faults.clear();
  host.mode = 'serve';
  host.password = canary;
  writeFileSync(world.tokenFile, 'canary-api-token\n');
  const last = randomModel(random);
  const commit = upstream.commit({ 'rules.yaml': remembered(models, last) });
  const healedFrom = performance.now();
  const status = await chaos.sidecar.until(inEffect(commit), healMs);
  const healedMs = performance.now() - healedFrom;
  chaos.doing = 'waiting for one more pass';
  const deletesBefore = countOf(world, 'DELETE');
  await chaos.sidecar.until((now) => (now.passes[0]?.startedAt ?? 0) > (status.passes[0]?.startedAt ?? 0));
  const problems = await verdict(chaos, last, countOf(world, 'DELETE') - deletesBefore);
  if (watched.wrongDeletes.length > 0) problems.push(`wrong deletes: ${watched.wrongDeletes.join(', ')}`);
  chaos.doing = 'waiting for its end after SIGTERM';
  const code = await chaos.sidecar.stop();
  chaos.outputs.push(chaos.sidecar.output());
  if (code !== 0) problems.push(`the last process ended with ${code}`);
  const leaks = chaos.outputs.filter((output) => /canary-(git|api)-token/.test(output)).length;
  if (leaks > 0) problems.push(`${leaks} outputs hold a canary`);
  say(
    `seed ${seed}, ${minutes} minutes, ${watched.total} API calls, ${watched.writes} writes, healed in ${Math.round(healedMs)} ms`,
  );
  say(
    Object.entries(chaos.counts)
      .sort()
      .map(([name, count]) => `${name} ${count}`)
      .join(', '),
  );
  say(`processes ${chaos.outputs.length}, leaked canaries ${leaks}`);
  await host.close();
  upstream.remove();
  await world.close();
  return problems;
}

/** Ends the run with what it saw, whatever hangs. */
async function giveUp(why: string): Promise<never> {
  say(`FAILED: ${why}`);
  say(running === null ? 'while starting' : await describeScene(running));
  running?.sidecar.child.kill('SIGKILL');
  process.exit(1);
}

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' }, seed: { type: 'string' } } });
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const minutes = Number(values.minutes);
say(`chaos with seed ${seed}`);
const deadlineMs = minutes * 60_000 + healMs + 2 * endMs;
setTimeout(() => void giveUp(`no end after ${Math.round(deadlineMs / 1000)} s`), deadlineMs);
const problems = await run(minutes, seed).catch((error: unknown) =>
  giveUp(error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)),
);
for (const problem of problems) say(`WRONG: ${problem}`);
say(problems.length === 0 ? 'in sync, no wrong delete, no gap left open, no canary leaked' : 'FAILED');
process.exit(problems.length === 0 ? 0 : 1);

function say(line: string): void {
  writeSync(1, `${line}\n`);
}
