import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Fault } from '../../../../src/simulator/faults.ts';
import type { GitHost, HostMode, Upstream } from '../git-host.ts';
import type { Sidecar, World } from '../sidecar.ts';
import { startSidecar } from '../sidecar.ts';
import type { Model } from './model.ts';
import { pick, randomModel, remembered } from './model.ts';

export const canary = 'canary-git-token-3141';

/** One run: who takes part, and what happened so far. */
export interface Chaos {
  readonly world: World;
  readonly upstream: Upstream;
  readonly host: GitHost;
  readonly random: () => number;
  sidecar: Sidecar;
  /** What is being done, for the report of a run that does not end. */
  doing: string;
  /** Every output of every process so far. */
  readonly outputs: string[];
  readonly counts: Record<string, number>;
  /** The models of the last good pushes, the newest last. */
  readonly models: Model[];
  /** Ids that the other writer deleted. */
  readonly meddled: Set<string>;
}

/** Starts a sidecar in this world, and waits until it answers. */
export async function start(world: World, host: GitHost, tokenFile: string): Promise<Sidecar> {
  const sidecar = await startSidecar(world, [
    ...['--git-url', `${host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http', '--git-token-file', tokenFile],
    ...['--state-dir', world.state, '--interval', '500ms', '--git-timeout', '1s', '--timeout', '1s'],
    ...['--max-deletes', '100%', '--max-changes', '100%'],
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
export async function deed(chaos: Chaos, tokenFile: string): Promise<void> {
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
    'clone damage': () => damage(path.join(world.state, 'reconcile/git/clone.git'), random),
    'record damage': () =>
      writeFileSync(path.join(world.state, 'reconcile/record.json'), pick(random, ['', '{', 'null'])),
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
  chaos.doing = `${name} (deed ${Object.values(chaos.counts).reduce((sum, count) => sum + count, 0)})`;
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

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
