import { afterEach, beforeEach, expect, it } from 'vitest';
import { alice, bob, rule, startWorld, type World } from './harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
  world.write(
    'm/policy.yaml',
    `apiVersion: firezone/v0
kind: Users
metadata: {name: people}
spec: {alice: ${alice}, bob: ${bob}}
---
apiVersion: firezone/v0
kind: Group
metadata: {name: database}
spec: {members: [alice, bob]}
---
apiVersion: firezone/v0
kind: Network
metadata: {name: replicas}
spec: {cidrs: [10.2.0.0/24]}
---
apiVersion: firezone/v0
kind: RuleSet
metadata: {name: office}
spec:
  rules:
    - {name: closed, action: drop, destination: 10.0.0.0/8}
    - {name: web, action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443}
    - {name: replica, action: accept, destination: 10.2.0.0/24, port_type: tcp, port_range: 5432, users: [{group: database}]}
`,
  );
});
afterEach(() => world.close());

it('says what somebody can reach and cannot, without a server', async () => {
  const run = await world.cli(['reach', 'm', '--user', 'alice'], {
    env: { RECONCILE_BASE_URL: '', RECONCILE_TOKEN: '' },
  });
  expect([run.code, run.err]).toEqual([0, '']);
  expect(run.out).toContain('alice  drop     10.0.0.0/8 but for 10.1.0.0/16 tcp 443 and 10.2.0.0/24 tcp 5432');
  expect(run.out).toContain('alice  accept   0.0.0.0/0 but for 10.0.0.0/8');
});

it('says who can reach something, by group where that is exact', async () => {
  const run = await world.cli(['reach', 'm', '--destination', '10.2.0.5', '--protocol', 'tcp', '--port', '5432']);
  expect(run.out).toMatch(/^group database +accept +10\.2\.0\.5 tcp 5432$/m);
  expect(run.out).toMatch(/everyone but group database +drop +10\.2\.0\.5 tcp 5432/);
});

it('prints people against networks, as CSV for a review that Git compares', async () => {
  const run = await world.cli(['reach', 'm', '--output', 'csv']);
  expect(run.out).toBe('who,replicas\r\neveryone else,nothing\r\nalice,tcp 5432\r\nbob,tcp 5432\r\n');
  const markdown = await world.cli(['reach', 'm', '--output', 'markdown']);
  expect(markdown.out).toContain('| alice | tcp 5432 |');
  const matrix = JSON.parse((await world.cli(['reach', 'm', '--output', 'json'])).out) as { matrix: unknown };
  expect(matrix.matrix).toEqual([
    { who: 'everyone else', networks: { replicas: 'nothing' } },
    { who: 'alice', networks: { replicas: 'tcp 5432' } },
    { who: 'bob', networks: { replicas: 'tcp 5432' } },
  ]);
  const json = JSON.parse((await world.cli(['reach', 'm', '--user', 'bob', '--output', 'json'])).out) as {
    accepted: unknown;
  };
  expect(json.accepted).toContainEqual({
    user: bob,
    destinations: ['10.2.0.0/24'],
    protocol: 'tcp',
    ports: ['5432'],
  });
});

it('names only whom was asked about, with their own id for programs, whoever has rules of their own', async () => {
  world.write(
    'm/more.yaml',
    `apiVersion: firezone/v0
kind: Users
metadata: {name: more}
spec: {carol: ca110c4b-adc3-4574-932a-94461cf85c07}
---
apiVersion: firezone/v0
kind: Group
metadata: {name: mixed}
spec: {members: [alice, carol]}
`,
  );
  const { out } = await world.cli(['reach', 'm', '--user', 'mixed', '--output', 'csv']);
  const who = out.split('\r\n').map((line) => line.split(',')[0]);
  expect([...new Set(who)]).toEqual(['who', 'group mixed', 'alice', 'carol', '']);
  expect(out).toContain('carol,drop,10.2.0.0/24 tcp 5432');
  const json = JSON.parse((await world.cli(['reach', 'm', '--user', 'carol', '--output', 'json'])).out) as {
    accepted: readonly { user: unknown }[];
  };
  expect(new Set(json.accepted.map(({ user }) => user))).toEqual(new Set(['ca110c4b-adc3-4574-932a-94461cf85c07']));
});

const offline = { env: { RECONCILE_BASE_URL: '', RECONCILE_TOKEN: '' } };
const packet = ['--destination', '10.3.0.5', '--protocol', 'tcp', '--port', '1'];

it('says that an address was not looked up, where its rules would be those of somebody who is asked about', async () => {
  const own = 'destination: 10.3.0.0/24, user: alice@example.com';
  world.write('m/own.yaml', rule('own', `action: accept, ${own}`));
  for (const question of [
    ['reach', 'm', '--user', 'alice'],
    ['explain', 'm', '--user', 'alice', ...packet],
    ['explain', 'm', '--rule', 'own'],
  ]) {
    const { code, err } = await world.cli(question, offline);
    expect([code, err]).toEqual([0, expect.stringMatching(/unresolved-email.*alice@example\.com[\s\S]*--live/)]);
  }
  // The server's rules are asked about: whoever is meant is looked up there.
  world.simulator.seed([{ action: 'accept', destination: '10.3.0.0/24', user_id: alice }]);
  const asked = ['explain', 'm', '--live', '--user', 'alice@example.com', ...packet, '--output', 'json'];
  expect((await world.cli(asked)).json()).toMatchObject({
    packet: { user: alice },
    rule: { destination: '10.3.0.0/24' },
  });
  const unknown = ['explain', 'm', '--live', '--user', 'carol@example.com', ...packet];
  world.write('m/carol.yaml', rule('carol', `action: accept, destination: 10.4.0.0/24, user: carol@example.com`));
  expect((await world.cli(unknown)).err).toContain('there is no user carol@example.com');
});

it('a name of a user and of a group is an error, in both questions', async () => {
  const group = (name: string) =>
    `apiVersion: firezone/v0\nkind: Group\nmetadata: {name: ${name}}\nspec: {members: [bob]}\n`;
  world.write('m/group.yaml', group('alice'));
  for (const question of [
    ['reach', 'm'],
    ['explain', 'm', ...packet],
  ]) {
    const { code, err } = await world.cli([...question, '--user', 'alice'], offline);
    expect([code, err]).toEqual([1, expect.stringContaining('alice is a user and a group')]);
    expect(err).toContain(alice);
    expect((await world.cli([...question, '--user', alice], offline)).code).toBe(0);
  }
});

it('finds somebody by each of their names', async () => {
  world.write('m/z.yaml', `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: more}\nspec: {al2: ${alice}}\n`);
  const { out } = await world.cli(['reach', 'm', '--user', 'al2'], offline);
  expect(out).toContain('10.2.0.0/24 tcp 5432');
  expect((await world.cli(['explain', 'm', '--user', 'al2', ...packet], offline)).code).toBe(0);
  expect((await world.cli(['explain', 'm', '--live', '--user', 'al2', ...packet])).code).toBe(0);
  expect((await world.cli(['reach', 'm', '--user', 'al3'], offline)).err).toContain('al2');
});

it('two questions at once, and a table where there is none, are wrong usage', async () => {
  expect((await world.cli(['reach', 'm', '--user', 'alice', '--destination', '10.2.0.5'])).code).toBe(1);
  for (const where of [['--live'], ['--snapshot', 's.json']]) {
    const { code, err } = await world.cli(['reach', 'm', '--at', '2026-12-01', ...where]);
    expect([code, err]).toEqual([1, expect.stringContaining('--at goes with manifests')]);
  }
  // Beside --user they narrowed nothing: whoever asked for one port got them all.
  for (const alone of [
    ['--user', 'alice', '--protocol', 'tcp', '--port', '22'],
    ['--protocol', 'tcp'],
    ['--port', '22'],
  ])
    expect(await world.cli(['reach', 'm', ...alone])).toMatchObject({
      code: 1,
      err: expect.stringContaining('go with --destination'),
    });
  const nobody = await world.cli(['reach', 'm', '--user', '']);
  expect([nobody.code, nobody.err]).toEqual([1, expect.stringContaining('--user is empty')]);
  const run = await world.cli(['validate', 'm', '--output', 'csv']);
  expect([run.code, run.err]).toEqual([1, expect.stringContaining('has no output as csv')]);
});

it('leaves the table of the last review as it is where there is none, and says why', async () => {
  world.write('access.csv', 'who,replicas\r\n');
  world.write('m/broken.yaml', 'kind: [');
  const run = await world.cli(['reach', 'm', '--output', 'csv=access.csv']);
  expect([run.code, run.err]).toEqual([4, expect.stringContaining('broken.yaml')]);
  expect(world.read('access.csv')).toBe('who,replicas\r\n');
});

it('explain and reach say what stands for everyone, and a rule on the server goes by the first digits of its id', async () => {
  world.write('w/a.yaml', rule('open', 'action: accept, destination: 10.77.0.0/16'));
  for (const args of [
    ['reach', 'w'],
    ['explain', 'w', ...packet],
  ]) {
    const said = await world.cli([...args, '--user', 'everyone']);
    expect([said.code, said.err]).toEqual([1, expect.stringContaining('leave --user out')]);
  }
  world.simulator.seed([{ action: 'drop', destination: '10.78.0.0/16' }]);
  const id = world.simulator.rules().find(({ destination }) => destination === '10.78.0.0/16')?.id ?? '';
  const said = await world.cli(['explain', '--live', '--rule', id.slice(0, 8)]);
  expect([said.code, said.out]).toEqual([0, expect.stringContaining('10.78.0.0/16')]);
});
