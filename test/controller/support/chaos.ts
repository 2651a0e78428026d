import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { LoggedRequest } from '../../../src/simulator/exchanges.ts';
import type { Fault } from '../../../src/simulator/faults.ts';
import type { GitHost, HostMode, Upstream } from './git-host.ts';
import { makeUpstream, serveGit } from './git-host.ts';
import type { Sidecar, World } from './sidecar.ts';
import { ensureBuilt, inEffect, makeWorld, startSidecar } from './sidecar.ts';

const canary = 'canary-git-token-3141';

/** How long the sidecar may take to be in sync after the last fault, and to end after SIGTERM. */
const healMs = 180_000;
const endMs = 60_000;

/** What the run is doing and with whom, for the report of a run that does not end. */
interface Scene {
  doing: string;
  chaos: Chaos | null;
}

interface Chaos {
  readonly world: World;
  readonly upstream: Upstream;
  readonly host: GitHost;
  readonly random: () => number;
  sidecar: Sidecar;
  /** Every output of every process so far. */
  readonly outputs: string[];
  readonly counts: Record<string, number>;
  /** The models of the last good pushes, the newest last. */
  readonly models: Model[];
  /** Ids that the other writer deleted. */
  readonly meddled: Set<string>;
}

/** One rule of the model: drop or accept of one network. Networks of one action never overlap. */
type Model = ReadonlyMap<string, 'accept' | 'drop'>;

/** A small generator of numbers (mulberry32): a run is repeated by its seed. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const scene: Scene = { doing: 'starting', chaos: null };

const pick = <T>(random: () => number, items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

/** Networks that widen and narrow (so that gaps are needed), never overlapping within one action. */
function randomModel(random: () => number): Model {
  const model = new Map<string, 'accept' | 'drop'>();
  for (let net = 0; net < 12; net++) {
    const size = pick(random, ['', '/24', '/28', null]);
    if (size === null) continue;
    const address = size === '' ? `10.0.${net}.5` : `10.0.${net}.0${size}`;
    model.set(address, random() < 0.5 ? 'accept' : 'drop');
  }
  if (model.size === 0) model.set('10.1.0.0/16', 'drop');
  return model;
}

function manifest(model: Model): string {
  return [...model]
    .map(
      ([destination, action], index) =>
        `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: r${index}}\nspec: {action: ${action}, destination: ${destination}}\n`,
    )
    .join('---\n');
}

async function start(world: World, host: GitHost, tokenFile: string): Promise<Sidecar> {
  const sidecar = await startSidecar(world, [
    ...['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http', '--git-token-file', tokenFile],
    ...['--state-dir', world.state, '--interval', '500ms', '--git-timeout', '1s', '--timeout', '1s'],
    ...['--allow-rewind', '--max-deletes', '100%'],
  ]);
  await sidecar.until(() => true);
  return sidecar;
}

const apiFaults: readonly Fault[] = [
  { kind: 'status', status: 500 },
  { kind: 'status', status: 502, commit: true },
  { kind: 'status', status: 503, headers: { 'retry-after': '1' } },
  { kind: 'status', status: 429, headers: { 'retry-after': '1' } },
  { kind: 'status', status: 200, body: '<html>login</html>', headers: { 'content-type': 'text/html' } },
  { kind: 'delay', milliseconds: 300 },
  { kind: 'reset-before' },
  { kind: 'reset-after' },
  { kind: 'torn' },
  { kind: 'lost-answer' },
];

/** One random deed: a fault, a change, a signal, another writer. */
async function deed(chaos: Chaos, tokenFile: string): Promise<void> {
  const { world, upstream, host, random } = chaos;
  const deeds: Readonly<Record<string, () => Promise<void> | void>> = {
    push: () => void upstream.commit({ 'rules.yaml': remembered(chaos.models, randomModel(random)) }),
    'bad push': () =>
      void upstream.commit({ 'rules.yaml': pick(random, ['kind: [', '', 'a: 1\n---\n', 'kind: Rule\n']) }),
    'api fault': () => {
      world.sim.faults.inject({
        match: { times: 1 + Math.floor(random() * 4), probability: 0.5 },
        fault: pick(random, apiFaults),
      });
    },
    'api calm': () => world.sim.faults.clear(),
    'git fault': () => {
      host.mode = pick<HostMode>(random, ['black-hole', 'trickle', 'redirect', 'serve']);
      host.password = random() < 0.3 ? 'something else' : canary;
    },
    'git calm': () => {
      host.mode = 'serve';
      host.password = canary;
    },
    'clone damage': () => damage(path.join(world.state, 'git/clone.git'), random),
    'record damage': () => writeFileSync(path.join(world.state, 'record.json'), pick(random, ['', '{', 'null'])),
    'other writer': () => meddle(chaos),
    'token gone': async () => {
      writeFileSync(world.tokenFile, pick(random, ['', 'wrong\n']));
      await pause(200);
      writeFileSync(world.tokenFile, 'canary-api-token\n');
    },
    hangup: () => void chaos.sidecar.child.kill('SIGHUP'),
    pause: async () => {
      chaos.sidecar.child.kill('SIGSTOP');
      await pause(300);
      chaos.sidecar.child.kill('SIGCONT');
    },
    kill: () => restart(chaos, 'SIGKILL', tokenFile),
    term: () => restart(chaos, 'SIGTERM', tokenFile),
  };
  const name = pick(random, Object.keys(deeds));
  chaos.counts[name] = (chaos.counts[name] ?? 0) + 1;
  scene.doing = `${name} (deed ${Object.values(chaos.counts).reduce((sum, count) => sum + count, 0)})`;
  await deeds[name]?.();
}

async function restart(chaos: Chaos, signal: NodeJS.Signals, tokenFile: string): Promise<void> {
  chaos.sidecar.child.kill(signal);
  await chaos.sidecar.ended();
  chaos.outputs.push(chaos.sidecar.output());
  chaos.sidecar = await start(chaos.world, chaos.host, tokenFile);
}

function damage(folder: string, random: () => number): void {
  try {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /pack$|^HEAD$|^config$|shallow$/.test(name),
    );
    if (random() < 0.5 || files.length === 0) writeFileSync(path.join(folder, 'shallow.lock'), '');
    else writeFileSync(path.join(folder, pick(random, files)), 'damaged');
  } catch {
    // the sidecar replaced the clone meanwhile, or a pack is read-only: nothing was damaged then
  }
}

function meddle({ world, random, meddled }: Chaos): void {
  const ids = world.sim.rules().map((rule) => rule.id);
  if (random() < 0.5 || ids.length === 0) {
    world.sim.seed([
      { action: 'accept', destination: `172.16.${Math.floor(random() * 256)}.${Math.floor(random() * 256)}` },
    ]);
    return;
  }
  const id = pick(random, ids);
  meddled.add(id);
  void fetch(`${world.sim.url}/v0/rules/${id}`, {
    method: 'DELETE',
    headers: { authorization: 'Bearer canary-api-token', accept: 'application/json' },
  }).catch(() => undefined); // a fault met the other writer instead
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

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
    outputs: [],
    counts: {},
    models,
    meddled,
  };
  scene.chaos = chaos;
  const end = performance.now() + minutes * 60_000;
  while (performance.now() < end) {
    await deed(chaos, tokenFile);
    await pause(50 + random() * 400);
    if (chaos.sidecar.child.exitCode !== null) {
      chaos.outputs.push(chaos.sidecar.output());
      throw new Error(`the sidecar ended by itself\n${chaos.sidecar.output().slice(-3000)}`);
    }
  }
  scene.doing = 'waiting until it is in sync after the last fault';
  world.sim.faults.clear();
  host.mode = 'serve';
  host.password = canary;
  writeFileSync(world.tokenFile, 'canary-api-token\n');
  const last = randomModel(random);
  const commit = upstream.commit({ 'rules.yaml': remembered(models, last) });
  const healedFrom = performance.now();
  const status = await chaos.sidecar.until(inEffect(commit), healMs);
  const healedMs = performance.now() - healedFrom;
  scene.doing = 'waiting for one more pass';
  const deletesBefore = countOf(world, 'DELETE');
  await chaos.sidecar.until((now) => (now.passes[0]?.startedAt ?? 0) > (status.passes[0]?.startedAt ?? 0));
  const problems = await verdict(chaos, last, countOf(world, 'DELETE') - deletesBefore);
  if (watched.wrongDeletes.length > 0) problems.push(`wrong deletes: ${watched.wrongDeletes.join(', ')}`);
  scene.doing = 'waiting for its end after SIGTERM';
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

function remembered(models: Model[], model: Model): string {
  models.push(model);
  return manifest(model);
}

/** How far behind the newest push a sidecar among faults may be. */
const lag = 8;

interface Watched {
  total: number;
  writes: number;
  /** Rules that the sidecar deleted although every revision it may have been at wants them. */
  readonly wrongDeletes: string[];
}

function watchCalls(world: World, models: readonly Model[], meddled: ReadonlySet<string>): Watched {
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

function countOf(world: World, method: string): number {
  return world.sim.requests().filter((call) => call.method === method).length;
}

async function verdict(chaos: Chaos, last: Model, idleDeletes: number): Promise<string[]> {
  const problems: string[] = [];
  const expected = [...last.keys()].map((destination) => destination.replace(/\/32$/, '')).sort();
  const live = chaos.world.live();
  if (live.join() !== expected.join()) problems.push(`not in sync: ${live.join(' ')} instead of ${expected.join(' ')}`);
  if (idleDeletes > 0) problems.push(`${idleDeletes} deletes although everything was in sync`);
  const journal = readFileSync(path.join(chaos.world.state, 'journal.jsonl'), 'utf8');
  const { openGapsIn } = await import('../../../src/apply/open-gaps.ts');
  if (openGapsIn(journal).size > 0) problems.push('a gap was left open');
  if (/canary/.test(journal)) problems.push('the journal holds a canary');
  const page = `${JSON.stringify(await chaos.sidecar.status())}${await chaos.sidecar.metrics()}`;
  if (/canary/.test(page)) problems.push('status or metrics hold a canary');
  return problems;
}

/** What can be seen from outside of a run that failed or did not end. */
async function describeScene(): Promise<string> {
  const { doing, chaos } = scene;
  if (chaos === null) return `while ${doing}`;
  const { sidecar, host, world, upstream } = chaos;
  const state = await sidecar.status().catch((error: unknown) => `no answer (${String(error)})`);
  const pid = sidecar.child.pid ?? 0;
  const processes = spawnSync('ps', ['-eo', 'pid,ppid,stat,wchan:20,etime,args'], { encoding: 'utf8' }).stdout;
  const related = processes.split('\n').filter((line) => line.includes(String(pid)) || line.includes(world.folder));
  return [
    `while ${doing}`,
    `sidecar ${pid}: exit ${sidecar.child.exitCode}, signal ${sidecar.child.signalCode}`,
    `git host: ${host.mode}, password ${host.password === canary ? 'right' : 'wrong'}, newest ${upstream.git('rev-parse', 'HEAD')}`,
    `status: ${JSON.stringify(state, null, 1)}`,
    `processes:\n${related.join('\n')}`,
    `log:\n${sidecar.output().slice(-6000)}`,
  ].join('\n');
}

/** Ends the run with what it saw, whatever hangs. */
async function giveUp(why: string): Promise<never> {
  say(`FAILED: ${why}`);
  say(await describeScene());
  scene.chaos?.sidecar.child.kill('SIGKILL');
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
