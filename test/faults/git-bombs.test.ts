import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defaultLimits } from '../../src/desired/context.ts';
import { enterMemoryCgroup, memoryCgroups } from '../controller/support/cgroup.ts';
import { makeUpstream, serveGit, type Upstream } from '../controller/support/git-host.ts';
import { type GitWorld, makeGitWorld, remoteOf } from '../controller/support/git-world.ts';
import { ensureBuilt, inEffect, makeWorld, rules, startSidecar, until } from '../controller/support/sidecar.ts';

const signal = new AbortController().signal;
const megabyte = 1024 * 1024;

let world: GitWorld;
beforeEach(async () => {
  world = await makeGitWorld();
});
afterEach(() => world.close());

/** Writes an object into the remote; gives its id. */
function writeObject({ bare }: Upstream, type: string, content: string | Buffer): string {
  const args = ['-C', bare, 'hash-object', '-w', '--stdin', '--literally', '-t', type];
  return execFileSync('git', args, { input: content, encoding: 'utf8' }).trim();
}

function makeTree(entries: readonly (readonly [mode: string, name: string, id: string])[]): Buffer {
  return Buffer.concat(
    entries.flatMap(([mode, name, id]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]),
  );
}

/** Puts a tree beside `web.yaml` into a commit on top of the branch; gives the commit's id. */
function pushTree(upstream: Upstream, tree: string, message = 'bomb'): string {
  const web = writeObject(upstream, 'blob', rules('10.0.0.1'));
  const root = writeObject(
    upstream,
    'tree',
    makeTree([
      ['40000', 'a', tree],
      ['100644', 'web.yaml', web],
    ]),
  );
  const parent = execFileSync('git', ['-C', upstream.bare, 'rev-parse', 'main'], { encoding: 'utf8' }).trim();
  const who = 'a <a@example.org> 1700000000 +0000';
  const commit = `tree ${root}\nparent ${parent}\nauthor ${who}\ncommitter ${who}\n\n${message}\n`;
  const id = writeObject(upstream, 'commit', commit);
  execFileSync('git', ['-C', upstream.bare, 'update-ref', 'refs/heads/main', id]);
  return id;
}

/** Nine nested trees of ten equal entries: a billion paths in two kilobytes. */
function makeBomb(upstream: Upstream, leaf: string): string {
  const blob = writeObject(upstream, 'blob', rules('10.0.0.2'));
  let tree = '';
  for (let level = 0; level < 9; level++) {
    const entries = Array.from({ length: 10 }, (_, index) =>
      level === 0 ? (['100644', `${index}${leaf}`, blob] as const) : (['40000', `${index}`, tree] as const),
    );
    tree = writeObject(upstream, 'tree', makeTree(entries));
  }
  return tree;
}

const pathsOf = (reading: Awaited<ReturnType<ReturnType<GitWorld['source']>['read']>>): readonly string[] =>
  reading.content?.files.map((file) => file.path) ??
  reading.problems.map(({ code, summary }) => (code === 'git-broken' ? summary : code));

describe('a push that stands for far more than its bytes', () => {
  it('threat 34: nested trees of equal manifests are refused by their number, without a look at each', async () => {
    world.upstream.commit({ 'web.yaml': rules('10.0.0.1') });
    const commit = pushTree(world.upstream, makeBomb(world.upstream, '.yaml'));
    const reading = await world.source().read(signal);
    expect([pathsOf(reading), reading.observed]).toEqual([['source-too-large'], commit]);
    expect(reading.problems[0]?.summary).toContain('more than 10000 manifests');
  });

  it('threat 34: nested trees of other files cost nothing', async () => {
    world.upstream.commit({ 'web.yaml': rules('10.0.0.1') });
    pushTree(world.upstream, makeBomb(world.upstream, '.txt'));
    expect(pathsOf(await world.source().read(signal))).toEqual(['web.yaml']);
  });

  it('threat 34: a chain of folders is refused by its depth, in whatever order it is met', async () => {
    world.upstream.commit({ 'web.yaml': rules('10.0.0.1') });
    const chain = [writeObject(world.upstream, 'tree', makeTree([]))];
    for (let level = 0; level < 50; level++) {
      chain.push(writeObject(world.upstream, 'tree', makeTree([['40000', 'x', chain[level] ?? '']])));
    }
    // Every tree of the chain lies at the first level too, the innermost first.
    const flat = chain.map((id, index) => ['40000', `${String(index).padStart(3, '0')}`, id] as const);
    pushTree(world.upstream, writeObject(world.upstream, 'tree', makeTree(flat)));
    expect(pathsOf(await world.source().read(signal))).toEqual(['source-too-large']);
  });

  it('threat 34: a name that is longer than any path is refused, before it is in the path of each file below it', async () => {
    world.upstream.commit({ 'web.yaml': rules('10.0.0.1') });
    const blob = writeObject(world.upstream, 'blob', rules('10.0.0.2'));
    const files = Array.from({ length: 5000 }, (_, index) => ['100644', `${10_000 + index}.yaml`, blob] as const);
    const folder = writeObject(world.upstream, 'tree', makeTree(files));
    for (const below of [
      [['40000', 'd'.repeat(100_000), folder]],
      [['100644', `${'d'.repeat(5000)}.yaml`, blob]],
    ] as const) {
      const commit = pushTree(world.upstream, writeObject(world.upstream, 'tree', makeTree(below)));
      const reading = await world.source().read(signal);
      expect([pathsOf(reading), reading.observed]).toEqual([['source-too-large'], commit]);
    }
  });

  it('threat 34: a commit with a message of more than a megabyte is refused, and said', async () => {
    world.upstream.commit({ 'web.yaml': rules('10.0.0.1') });
    const empty = writeObject(world.upstream, 'tree', makeTree([]));
    const commit = pushTree(world.upstream, empty, 'x'.repeat(1_100_000));
    const reading = await world.source().read(signal);
    expect([pathsOf(reading), reading.observed]).toEqual([['source-too-large'], commit]);
    expect(reading.problems[0]?.summary).toContain('larger than 1000000 bytes');
  });

  it('threat 34: one folder of millions of names ends at the memory that git may take (long)', async () => {
    const first = world.upstream.commit({ 'web.yaml': rules('10.0.0.1') });
    const limits = { ...defaultLimits, fetchBytes: 24 * megabyte };
    const git = world.source({ limits });
    expect(pathsOf(await git.read(signal))).toEqual(['web.yaml']);
    const id = Buffer.from(writeObject(world.upstream, 'blob', 'x'), 'hex');
    const names = Array.from({ length: 2_600_000 }, (_, index) => [
      Buffer.from(`100644 f${String(index).padStart(8, '0')}\0`),
      id,
    ]);
    pushTree(world.upstream, writeObject(world.upstream, 'tree', Buffer.concat(names.flat())));
    expect(pathsOf(await git.read(signal))).toEqual(['source-too-large']);
    expect(pathsOf(await git.readAt(first, signal))).toEqual(['web.yaml']);
  }, 60_000);
});

describe('a push of more bytes than a fetch may bring', () => {
  it('threat 35: is stopped, leaves nothing, keeps the last good revision, and is not fetched again (long)', async () => {
    const plain = makeUpstream({ filter: false, anyId: false });
    const server = await serveGit(plain);
    try {
      const first = plain.commit({ 'web.yaml': rules('10.0.0.1') });
      const git = world.source({ remote: remoteOf(server), limits: { ...defaultLimits, fetchBytes: 8 * megabyte } });
      expect(pathsOf(await git.read(signal))).toEqual(['web.yaml']);
      const junk = path.join(plain.work, 'junk');
      execFileSync('sh', ['-c', `cat > ${junk}`], { input: randomBytes(20 * megabyte) });
      const second = plain.commit({ 'other.yaml': rules('10.0.0.2') });
      const reading = await git.read(signal);
      expect([pathsOf(reading), reading.observed]).toEqual([['source-too-large'], second]);
      expect(reading.problems[0]?.hint).toContain('limits.fetchBytes');
      const packs = readdirSync(path.join(world.state, 'clone.git/objects/pack'));
      expect(packs.filter((name) => name.startsWith('tmp_'))).toEqual([]);
      server.requests.length = 0;
      expect(pathsOf(await git.read(signal))).toEqual(['source-too-large']);
      expect(server.requests.length).toBeLessThanOrEqual(2);
      expect(pathsOf(await git.readAt(first, signal))).toEqual(['web.yaml']);
      plain.commit({ junk: null });
      expect(pathsOf(await world.source({ remote: remoteOf(server) }).read(signal))).toEqual([
        'other.yaml',
        'web.yaml',
      ]);
    } finally {
      await server.close();
      plain.remove();
    }
  }, 60_000);
});

describe('a sidecar within the memory of its deployment', () => {
  beforeAll(ensureBuilt);

  it.skipIf(memoryCgroups === null)(
    'threat 34: undoes drift while a bomb is the newest commit, and ends in time (long)',
    async () => {
      const sim = await makeWorld();
      const cgroup = enterMemoryCgroup(256 * megabyte);
      try {
        const first = world.upstream.commit({ 'web.yaml': rules('10.0.0.1') });
        const git = ['--git-url', `${world.host.url}/repo.git`, '--git-ref', 'main', '--git-allow', 'http'];
        const car = await startSidecar(sim, [...git, '--state-dir', sim.state, '--interval', '1s']);
        try {
          cgroup.add(car.child.pid ?? 0);
          await car.until(inEffect(first));
          const bomb = pushTree(world.upstream, makeBomb(world.upstream, '.yaml'));
          await car.until(({ revisions }) => revisions.observed === bomb);
          sim.sim.seed([{ action: 'accept', destination: '203.0.113.7' }]);
          await until(() => sim.live().join() === '10.0.0.1');
          const from = performance.now();
          expect(await car.stop()).toBe(0);
          expect(performance.now() - from).toBeLessThan(40_000);
          expect(cgroup.kills()).toBe(0);
        } finally {
          await car.stop();
        }
      } finally {
        cgroup.remove();
        await sim.close();
      }
    },
    120_000,
  );
});
