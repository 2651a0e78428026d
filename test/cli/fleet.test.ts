import { once } from 'node:events';
import { chmodSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startSimulator } from '../../src/simulator/server.ts';
import { until } from '../controller/support/sidecar.ts';
import { ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

type Simulator = Awaited<ReturnType<typeof startSimulator>>;

let world: World;
let servers: Simulator[] = [];
beforeEach(async () => {
  world = await startWorld();
  servers = await Promise.all([1, 2, 3].map(() => startSimulator({ token })));
  world.write('policy/rules.yaml', rule('closed', 'action: drop, destination: 10.0.0.0/8'));
  chmodSync(world.write('ops/token', `${token}\n`), 0o600);
});
afterEach(async () => {
  await Promise.all([world.close(), ...servers.map((server) => server.close())]);
});

const dead = 'http://127.0.0.1:9';

/** Writes the fleet file: a name, an address, and more of each target. */
function fleet(targets: readonly (readonly [name: string, url: string, more?: string])[], defaults = ''): void {
  const lines = targets.map(([name, url, more = '']) => `  - {name: ${name}, baseUrl: "${url}"${more}}\n`);
  world.write(
    'ops/fleet.yaml',
    `defaults: {path: ../policy, tokenFile: token${defaults}}\ntargets:\n${lines.join('')}`,
  );
}

const three = (more: readonly string[] = []): void =>
  fleet(servers.map(({ url }, n) => [`t${n}`, url, more[n] ?? ''] as const));
const run = (...args: readonly string[]) => world.cli([...args, '--fleet', 'ops/fleet.yaml']);
const live = (): readonly number[] => servers.map((server) => server.rules().length);
const lineOf = (out: string, name: string): string => out.split('\n').find((line) => line.startsWith(name)) ?? '';

describe('commands that do not write', () => {
  it('visit every target, fold what is the same, and give the worst exit code', async () => {
    fleet([...servers.map(({ url }, n) => [`t${n}`, url] as const), ['dead', dead]]);
    const { code, out } = await run('plan', '--detailed-exitcode');
    expect(code).toBe(1);
    expect(out).toContain('== 3 targets: the same change: t0, t1, t2 ==');
    expect(out.match(/Digest/g)).toHaveLength(1);
    expect(lineOf(out, 't0')).toMatch(/^t0 +1 to create, 0 unchanged\. 1 request\. \(exit 2\)$/);
    expect(lineOf(out, 'dead')).toMatch(/^dead +GET .* the connection was refused.* \(exit 1\)$/);
    expect(out).toMatch(/4 targets; exit 1, for dead\.\n$/);
    expect(live()).toEqual([0, 0, 0]);
  });

  it('show what is the same in the words of one target: no address of a rule is cut', async () => {
    three();
    world.write('ops/fleet.yaml', world.read('ops/fleet.yaml').replace('../policy', '../0'));
    world.write('0/rules.yaml', rule('closed', 'action: drop, destination: 10.0.0.0/8'));
    const { out } = await run('plan');
    expect(out).toMatch(/ ==\nAs t0 says it:\n/);
    expect(out).toContain(`Plan for ${servers[0]?.url} `);
    expect(out).toMatch(/drop +10\.0\.0\.0\/8 +rules\.yaml:/);
  });

  it('tell what differs of each by itself', async () => {
    servers[1]?.seed([{ action: 'accept', destination: '203.0.113.7' }]);
    three();
    const { out } = await run('plan');
    expect(out).toContain('== 2 targets: the same change: t0, t2 ==');
    expect(out).toMatch(/== t1 ==\n[\s\S]*1 to delete/);
    expect(out).toMatch(/^t0 {2}1 to create, 0 .*\nt1 {2}1 to create, 1 to delete, 0 .*\nt2 {2}1 to create, 0 .*\n\n/);
  });

  it('name ten targets that said the same, and count the others', async () => {
    const [server] = servers;
    const scope = (n: number): string => `, scope: {networks: [10.${n}.0.0/16]}`;
    fleet(Array.from({ length: 12 }, (_, n) => [`n${n}`, server?.url ?? '', scope(n)] as const));
    world.write('policy/rules.yaml', 'tests: [\n');
    const { out, code } = await run('test');
    expect(code).toBe(4);
    expect(out).toContain('== 12 targets: the same: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 2 more ==');
    expect(out).toMatch(/12 targets; exit 4, for n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 2 more\.\n$/);
  });

  it('a fleet of one says the same bytes as one target', async () => {
    fleet([['only', servers[0]?.url ?? '']]);
    const alone = ['--base-url', servers[0]?.url ?? '', '--token-file', 'ops/token', 'policy'];
    for (const command of ['plan', 'drift']) {
      const one = await world.cli([command, ...alone]);
      const { out, code } = await run(command);
      expect([out, code]).toEqual([expect.stringContaining(`== only ==\n${one.err}${one.out}`), one.code]);
      const json = JSON.parse((await run(command, '--output', 'json')).out);
      const single = JSON.parse((await world.cli([command, '--output', 'json', ...alone])).out);
      expect(json).toMatchObject({ exit: one.code, targets: [{ name: 'only', document: single }] });
    }
  });

  it('take some targets, by name and by label', async () => {
    three([', labels: {env: prod}', ', labels: {env: prod, eu: "yes"}']);
    expect((await run('doctor', '--label', 'env=prod')).out).toMatch(/2 targets; exit 0, for t0, t1\./);
    expect((await run('test', '--target', 't2')).out).toMatch(/1 target; exit 0, for t2\./);
    expect((await run('test', '--target', 'gone')).err).toContain('the fleet has no target gone');
    expect((await run('test', '--label', 'env=gone')).err).toContain('no target of the fleet has these labels');
  });
});

describe('the state at a sidecar', () => {
  const state = (name: string, ready: string) => ({
    name,
    headline: { text: `headline of ${name}`, detail: 'why', tone: ready === 'True' ? 'good' : 'bad' },
    conditions: { Ready: { type: 'Ready', status: ready, reason: 'Refused', message: `message of ${name}` } },
  });
  let sidecar: Server;
  let url = '';
  beforeEach(async () => {
    const targets = [state('t0', 'True'), state('t1', 'Unknown'), state('t2', 'False')];
    sidecar = createServer(({ url: asked }, response) => {
      const found = targets.find(({ name }) => asked === `/targets/${name}/status`);
      response.writeHead(found === undefined ? 404 : 200).end(JSON.stringify(found));
    }).listen(0, '127.0.0.1');
    await once(sidecar, 'listening');
    url = `http://127.0.0.1:${(sidecar.address() as AddressInfo).port}`;
    three([', labels: {env: prod}', ', labels: {env: prod}']);
  });
  afterEach(() => sidecar.close());

  it.each([
    [[], 1, '3 targets; exit 1, for t2.', ['t0', 't1', 't2']],
    [['--label', 'env=prod'], 2, '2 targets; exit 2, for t1.', ['t0', 't1']],
    [['--target=t0'], 0, '1 target; exit 0, for t0.', ['t0']],
  ])('with %j gives exit %i for the worst of them', async (chosen, exit, message, names) => {
    const { code, out } = await run('status', url, ...chosen);
    expect([code, out]).toEqual([exit, expect.stringContaining(message)]);
    expect(out.match(/(?<=^\w+ +headline of )\w+/gm)).toEqual(names);
    const json = JSON.parse((await run('status', url, '--output', 'json', ...chosen)).out);
    expect(json).toMatchObject({ targets: names.map((name) => ({ name })) });
  });

  it('says that the fleet file pauses the roll-out, though no target waits', async () => {
    world.write('ops/fleet.yaml', `paused: true\n${world.read('ops/fleet.yaml')}`);
    const { code, out } = await run('status', url, '--target=t0');
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/no target begins a revision\. 1 target; exit 0, for t0\.\n$/),
    ]);
  });

  it('says which target the sidecar does not watch', async () => {
    fleet([['other', dead]]);
    const { code, out } = await run('status', url);
    expect([code, out]).toEqual([
      1,
      expect.stringMatching(/^other +\S+\/targets\/other\/status is not the page of a sidecar/),
    ]);
  });
});

describe('an apply', () => {
  it('writes to every target, and once more to none', async () => {
    three();
    const first = await run('apply', '--yes');
    expect([first.code, lineOf(first.out, 't0')]).toEqual([0, expect.stringMatching(/^t0 {2}Applied: 1 done/)]);
    expect(live()).toEqual([1, 1, 1]);
    const again = await run('apply', '--yes');
    const inSync = 'In sync: 1 object unchanged; nothing to do.';
    const plain = `t0  ${inSync}\nt1  ${inSync}\nt2  ${inSync}\n\n3 targets; exit 0, for t0, t1, t2.\n`;
    expect([again.code, again.out]).toEqual([0, plain]);
  });

  it('stops every target that has not begun after one that was refused', async () => {
    servers[0]?.seed([{ action: 'accept', destination: '203.0.113.7' }]);
    three();
    const { code, out } = await run('apply', '--yes', '--max-deletes', '0');
    expect([code, live()]).toEqual([3, [1, 0, 0]]);
    expect(lineOf(out, 't0')).toMatch(/^t0 {2}refused: 1 of 1 live rules .* \(exit 3\)$/);
    expect([lineOf(out, 't1'), lineOf(out, 't2')]).toEqual(['t1  not begun', 't2  not begun']);
    expect(servers[1]?.requests()).toEqual([]);
  });

  it.each([[422], [401]])(
    'stops every target that has not begun after one where no write succeeded (%i)',
    async (status) => {
      servers[0]?.faults.inject({ match: { method: 'POST' }, fault: { kind: 'status', status } });
      three();
      const { code, out } = await run('apply', '--yes');
      expect([code, live()]).toEqual([1, [0, 0, 0]]);
      expect([lineOf(out, 't1'), lineOf(out, 't2')]).toEqual(['t1  not begun', 't2  not begun']);
    },
  );

  it('ends its wave and begins no later one where a target cannot be reached', async () => {
    fleet([
      ['late', servers[0]?.url ?? '', ', wave: 2'],
      ['dead', dead],
      ['beside', servers[1]?.url ?? ''],
    ]);
    const { code, out } = await run('apply', '--yes');
    expect([code, live()]).toEqual([1, [0, 1, 0]]);
    expect(lineOf(out, 'late')).toMatch(/not begun$/);
    const { targets } = JSON.parse((await run('apply', '--yes', '--output', 'json')).out);
    expect(targets[0]).toMatchObject({ name: 'late', exit: null, result: 'not begun', document: null });
    expect(targets[2]).toMatchObject({ name: 'beside', exit: 0, result: expect.stringContaining('In sync') });
  });

  it('asks nobody, so that it needs --yes', async () => {
    three();
    const { code, err } = await run('apply');
    expect([code, err, live()]).toEqual([1, expect.stringContaining('then add --yes'), [0, 0, 0]]);
    expect((await run('apply', '--dry-run')).code).toBe(0);
    expect(live()).toEqual([0, 0, 0]);
  });
});

describe('outputs of a plan', () => {
  it('are one comment for all targets, and one annotation of each finding', async () => {
    servers[1]?.seed([{ action: 'accept', destination: '203.0.113.7' }]);
    three();
    const summary = join(world.folder, 'summary.md');
    const env = { GITHUB_STEP_SUMMARY: summary };
    const args = ['plan', '--fleet', 'ops/fleet.yaml', '--output', 'markdown=plan.md', '--output', 'json=plan.json'];
    world.write('policy/more.yaml', rule('open', 'action: accept, destination: 10.1.2.3'));
    const { out, code } = await world.cli([...args, '--output', 'github'], { env });
    const text = world.read('plan.md');
    expect(code).toBe(0);
    expect(text.match(/<!-- reconcile-plan -->/g)).toHaveLength(1);
    expect(text).toContain('| t1 | 2 to create, 1 to delete, 0 unchanged. 3 requests. |');
    expect(text).toMatch(/## 2 targets: the same 2 changes: t0, t2\n[\s\S]*## t1\n/);
    expect(world.read('summary.md')).toBe(text);
    expect(JSON.parse(world.read('plan.json'))).toMatchObject({ exit: 0, targets: [{ name: 't0' }, {}, {}] });
    const annotations = out.split('\n').filter((line) => line.startsWith('::'));
    expect(annotations).toEqual([...new Set(annotations)]);
    expect(out).toContain('== 2 targets: the same 2 changes: t0, t2 ==');
  });

  it('are a file a target of snapshots, in a folder', async () => {
    three();
    world.write('shots/.keep', '');
    expect((await run('snapshot')).err).toContain('name the folder for them: --out FOLDER');
    expect((await run('snapshot', '--out', 'shots')).code).toBe(0);
    expect(JSON.parse(world.read('shots/t2.json'))).toMatchObject({ rules: [] });
  });
});

describe('a run that takes long', () => {
  it('says at a terminal which targets are waited for, and takes that away before the answer', async () => {
    three();
    servers[1]?.faults.inject({ match: { times: 1 }, fault: { kind: 'delay', milliseconds: 2500 } });
    const { code, err } = await world.cli(['plan', '--fleet', 'ops/fleet.yaml'], { stderrIsTerminal: true });
    expect([code, err]).toEqual([0, expect.stringMatching(/waiting for [^\r]*t1[^\r]*\r.\[K$/)]);
  });
});

describe('a roll-out by hand', () => {
  it('waits for the soak between two waves, and starts maxParallel targets of a wave at once', async () => {
    three([', wave: 1', ', wave: 2', ', wave: 2']);
    world.write('ops/fleet.yaml', `soak: 300ms\nmaxParallel: 2\n${world.read('ops/fleet.yaml')}`);
    const at: number[] = [];
    let [open, most] = [0, 0];
    for (const server of servers) {
      server.onCall(({ method }) => {
        if (method === 'POST') at.push(performance.now());
        open++;
        most = Math.max(most, open);
        setTimeout(() => open--, 0);
      });
    }
    const { code, err } = await run('apply', '--yes');
    expect(code).toBe(0);
    expect(err).toMatch(/^Wave 2 begins at \S+Z\.\n$/);
    const [first = 0, second = 0, third = 0] = at;
    expect([second - first >= 300, third >= second, live()]).toEqual([true, true, [1, 1, 1]]);
  });

  it('ends with exit code 1, for those that have not begun, when it is told to stop in the soak', async () => {
    three([', wave: 1', ', wave: 2', ', wave: 2']);
    world.write('ops/fleet.yaml', `soak: 1h\n${world.read('ops/fleet.yaml')}`);
    const stop = new AbortController();
    let seen = 0;
    const look = setInterval(() => {
      const asked = servers[0]?.requests().length ?? 0;
      if (asked > 0 && asked === seen) stop.abort();
      seen = asked;
    }, 500);
    const { code, out, err } = await world.cli(['apply', '--yes', '--fleet', 'ops/fleet.yaml'], { stop: stop.signal });
    clearInterval(look);
    expect(err).toContain('Wave 2 begins at ');
    expect([code, live()]).toEqual([1, [1, 0, 0]]);
    expect(out).toMatch(
      /^t0 {2}Applied: 1 done.*\nt1 {2}not begun\nt2 {2}not begun\n[\s\S]*3 targets; exit 1, for t1, t2\.\n$/,
    );
  });

  it.each(['paused: true', 'abort: 3f2a91c', 'abort: 1234567', 'abort: 12345e2'])(
    'does not begin with %s',
    async (member) => {
      three();
      world.write('ops/fleet.yaml', `${member}\n${world.read('ops/fleet.yaml')}`);
      const { code, err } = await run('apply', '--yes');
      expect([code, err, live()]).toEqual([1, expect.stringContaining('nothing is applied until'), [0, 0, 0]]);
      expect((await run('plan')).code).toBe(0);
    },
  );

  it('runs the command that confirms for each target, and stops after one that it does not confirm', async () => {
    three();
    const state = ['--state-dir', 'state'];
    const unasked = await run('apply', '--yes', '--confirm-within', '5m', '--target', 't0', ...state);
    expect([unasked.code, unasked.out]).toEqual([1, expect.stringContaining('asks nobody where it applies a fleet')]);
    const kept = await run('apply', '--yes', '--confirm-with', '/bin/true', '--target', 't0', ...state);
    expect([kept.code, live()]).toEqual([0, [1, 0, 0]]);
    const lost = await run('apply', '--yes', '--confirm-with', '/bin/false', '--confirm-within', '200ms', ...state);
    expect([lost.code, live(), lineOf(lost.out, 't2')]).toEqual([3, [1, 0, 0], 't2  not begun']);
    expect(lineOf(lost.out, 't1')).toBe('t1  Went back: what the apply changed is as it was before. (exit 3)');
  });

  it('takes back what a killed apply left at each target, before the first wave and before paused refuses', async () => {
    const closed = rule('r0', 'action: drop, destination: 10.0.0.0/8');
    const state = ['--state-dir', 'state'];
    const confirm = ['--confirm-with', 'false', '--confirm-within', '1h'];
    const killed = async () => {
      three();
      world.write('ops/fleet.yaml', `maxParallel: 3\n${world.read('ops/fleet.yaml')}`);
      world.write('policy/rules.yaml', closed + rule('r1', 'action: drop, destination: 192.0.2.0/24'));
      const args = ['apply', '--fleet', 'ops/fleet.yaml', '--yes', ...confirm, ...state];
      const child = spawnReconcile(args, { cwd: world.folder, env: {} });
      await until(() => live().join() === '2,2,2');
      child.kill('SIGKILL');
      await ended(child);
      for (const name of ['t0', 't1', 't2']) {
        const record = `state/targets/${name}/reconcile/oneshot/pending.json`;
        world.write(record, JSON.stringify({ ...JSON.parse(world.read(record)), until: 1 }));
      }
      world.write('policy/rules.yaml', closed);
    };
    world.write('policy/rules.yaml', closed);
    three();
    expect((await run('apply', '--yes', ...state)).code).toBe(0);
    await killed();
    // What it says to type is typed as it stands.
    const { out } = await world.cli(['plan', '--fleet', 'ops/fleet.yaml'], { env: { RECONCILE_STATE_DIR: 'state' } });
    const lines = [...out.matchAll(/To do that now: reconcile (confirm .*)\n/g)].map(([, words = '']) =>
      words.split(' '),
    );
    expect([lines.length, (await world.cli(lines[0] ?? [])).code, live().toSorted()]).toEqual([3, 3, [1, 2, 2]]);
    world.write('ops/fleet.yaml', `paused: true\n${world.read('ops/fleet.yaml')}`);
    const paused = await run('apply', '--yes', ...state);
    expect([paused.code, live()], paused.err).toEqual([1, [1, 1, 1]]);
    expect(paused.err).toMatch(/== t2 ==\n[\s\S]*\[went-back\][\s\S]*nothing is applied until/);
    await killed();
    three([', wave: 1', ', wave: 2', ', wave: 2']);
    const next = await run('apply', '--yes', ...state);
    expect([next.code, live()], next.err).toEqual([0, [1, 1, 1]]);
    expect(next.err.match(/\[went-back\]/g)).toHaveLength(3);
    expect(next.out).toMatch(/^t0 {2}In sync.*\nt1 {2}In sync.*\nt2 {2}In sync/);
  });

  it('keeps the state of each target apart, and takes its scope from the fleet file', async () => {
    servers[0]?.seed([{ action: 'accept', destination: '203.0.113.7' }]);
    three([', scope: {networks: [10.0.0.0/8]}']);
    expect((await run('apply', '--yes', '--state-dir', 'state')).code).toBe(0);
    expect(live()).toEqual([2, 1, 1]);
    for (const name of ['t0', 't1', 't2']) {
      expect(world.read(`state/targets/${name}/reconcile/oneshot/record.json`)).toContain(
        servers[Number(name[1])]?.url,
      );
    }
  });
});

describe('a fleet file', () => {
  it('has a schema that is printed', async () => {
    const { code, out } = await world.cli(['schema', 'fleet']);
    const file = join(import.meta.dirname, '../../schemas/fleet.schema.json');
    expect([code, out]).toEqual([0, readFileSync(file, 'utf8')]);
  });

  it.each([
    ['targets: []', 'fleet.yaml:1:'],
    ['targets: [{name: a}]', 'targets.0.baseUrl'],
    ['targets: [{name: a, baseUrl: x, token: y}]', 'the fleet file must not hold the token'],
    ['{pause: true, targets: [{name: a, baseUrl: x}]}', 'did you mean `paused`?'],
    ['targets: [{name: a, baseUrl: x, wav: 2}]', '`reconcile schema fleet` prints every member'],
    ['targets: [{name: a, baseUrl: x}, {name: a, baseUrl: y}]', 'two targets have this name'],
    ['targets: [{name: a_b, baseUrl: x}, {name: A-b, baseUrl: y}]', 'two targets have this name'],
    ['targets: [{name: ../a, baseUrl: x}]', 'must be letters, digits, dots and hyphens'],
    ['targets: [{name: a., baseUrl: x}]', 'must be letters, digits, dots and hyphens'],
    [
      'targets: [{name: a, baseUrl: "https://X.example"}, {name: b, baseUrl: "https://x.example/"}]',
      'two targets have this server',
    ],
    ['{soak: soon, targets: [{name: a, baseUrl: x}]}', '`soak` must be a time with a unit'],
    ['{soak: 1000h, targets: [{name: a, baseUrl: x}]}', '`soak`: at most 24 days'],
    ['{abort: x, targets: [{name: a, baseUrl: x}]}', '`abort` must be the id of a revision'],
    ['targets: [{name: "a b", baseUrl: x}]', 'must be letters, digits, dots and hyphens'],
    ['targets: [{name: a, baseUrl: "http://127.0.0.1:9"}]', 'the target a has no tokenFile'],
    ['targets: [{name: a, baseUrl: "http://127.0.0.1:9", tokenFile: token}]', 'the target a has no path'],
  ])('%s is wrong, and said where', async (text, said) => {
    world.write('ops/fleet.yaml', `${text}\n`);
    const { code, err } = await run('plan');
    expect([code, err]).toEqual([1, expect.stringContaining(said)]);
  });

  it('sends no token of a variable, and is never read from among the manifests', async () => {
    fleet([['a', servers[0]?.url ?? '']]);
    world.write('policy/fleet.yaml', world.read('ops/fleet.yaml').replace('../policy', '.'));
    const inside = await world.cli(['plan', '--fleet', 'policy/fleet.yaml']);
    expect([inside.code, inside.err]).toEqual([1, expect.stringContaining('lies among the manifests of a')]);
    rmSync(join(world.folder, 'policy/fleet.yaml'));
    world.write('ops/token', 'another\n');
    const { out } = await world.cli(['plan', '--fleet', 'ops/fleet.yaml'], { env: { RECONCILE_TOKEN: token } });
    expect(out).toContain('[unauthorized]');
  });

  it('is found among the manifests through links too', async () => {
    fleet([['a', servers[0]?.url ?? '']]);
    const text = world.read('ops/fleet.yaml');
    rmSync(join(world.folder, 'ops/fleet.yaml'));
    world.write('policy/inside/fleet.yaml', text);
    symlinkSync('../policy/inside/fleet.yaml', join(world.folder, 'ops/fleet.yaml'));
    expect((await run('plan')).err).toContain('lies among the manifests of a');
    symlinkSync('policy', join(world.folder, 'alias'));
    world.write('policy/inside/fleet.yaml', text.replace('../policy', '../../alias'));
    const through = await world.cli(['plan', '--fleet', 'policy/inside/fleet.yaml']);
    expect(through.err).toContain('lies among the manifests of a');
  });

  it('has labels of any text, and none of the members of an object', async () => {
    three([', labels: {"a=b c": "x=y, z"}']);
    expect((await run('test', '--label', 'a=b c=x=y, z')).out).toMatch(/1 target; exit 0, for t0\./);
    three([', labels: {"ö ,": "x=y, z"}']);
    expect((await run('test', '--label', 'ö ,=x=y, z')).out).toMatch(/1 target; exit 0, for t0\./);
    expect((await run('test', '--label', 'constructor=')).err).toContain('no target of the fleet');
    expect((await run('test', '--label', 'env')).err).toContain('labels are written --label KEY=VALUE');
  });

  it('goes without PATH, watch, and what is about one server', async () => {
    three();
    expect((await run('plan', 'policy')).err).toContain('--fleet and PATH exclude each other');
    expect((await run('plan', '--save', 'plan.json')).err).toContain('--save is about one server');
    expect((await run('plan', '--base-url', dead)).err).toContain('--base-url is about one server');
    expect((await run('watch', '--token-file', 'ops/token')).err).toContain('--token-file is about one server');
    expect((await run('plan', '--output', 'html=a.html')).err).toContain(
      '`reconcile plan --fleet` has no output as html',
    );
    expect((await world.cli(['plan', '--target', 'a', 'policy'])).err).toContain('add --fleet FILE');
  });
});
