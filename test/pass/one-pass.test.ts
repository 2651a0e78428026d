import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApiClient } from '../../src/adapters/api/client.ts';
import { createDirectorySource } from '../../src/adapters/source/directory.ts';
import { parseArguments } from '../../src/cli/arguments.ts';
import type { Terminal } from '../../src/cli/command.ts';
import { loadSettings } from '../../src/cli/line.ts';
import { createRecentApplies, createWatchPasses } from '../../src/cli/watch/pass.ts';
import { emptyRecord } from '../../src/controller/record.ts';
import { defaultLimits } from '../../src/desired/context.ts';
import { type PlanRequest, plan, toJson } from '../../src/index.ts';
import { deriveFingerprintKey } from '../../src/model/secret.ts';
import { makeDocument } from '../../src/report/json.ts';
import { makeProblemReport } from '../../src/report/run-report.ts';
import type { RuleSeed } from '../../src/simulator/rules/rule.ts';
import { alice, bob, configuration, rule, startWorld, token, type World } from '../cli/harness.ts';

/** One state of manifests and server, with the settings of the operator, as the command and as the library know them. */
interface Case {
  readonly name: string;
  readonly manifests: Readonly<Record<string, string>>;
  readonly live?: readonly RuleSeed[];
  /** The body of PATCH /v0/configuration. */
  readonly stored?: Readonly<Record<string, unknown>>;
  /** A settings file, and flags. */
  readonly settings?: string;
  readonly flags?: readonly string[];
  readonly library?: Partial<PlanRequest>;
  /** A code that every caller must give as a problem or a refusal. */
  readonly code?: string;
}

const stranger = 'ffffffff-adc3-4574-932a-94461cf85c07';
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const drop = (destination: string): string => `action: drop, destination: ${destination}`;
const valueNamed = (name: string): string => `"\${${name}}"`;
const web = 'action: accept, destination: 10.1.0.0/16, port_type: tcp, port_range: 443';
const seeds = (count: number): readonly RuleSeed[] =>
  Array.from({ length: count }, (_, n) => ({ action: 'drop', destination: `10.0.${n}.0/24` }));
const set = (rules: readonly string[]): string =>
  `apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  rules:\n${rules.map((one) => `    - {${one}}\n`).join('')}`;
const manifest = (kind: string, spec: string): string =>
  `apiVersion: firezone/v0\nkind: ${kind}\nmetadata: {name: ${kind.toLowerCase()}}\nspec: ${spec}\n---\n`;
const test = (spec: string): string => manifest('PolicyTest', `{cases: [{${spec}}]}`);
const one = (spec: string): Readonly<Record<string, string>> => ({ 'a.yaml': rule('a', spec) });

const cases: readonly Case[] = [
  { name: 'a rule to create', manifests: one(drop('10.0.0.0/8')) },
  { name: 'nothing to do', manifests: one(drop('10.0.0.0/24')), live: seeds(1) },
  { name: 'rules to delete', manifests: one(drop('10.0.0.0/24')), live: seeds(3) },
  { name: 'a rule to replace', manifests: one(web), live: [{ action: 'accept', destination: '10.1.0.0/16' }] },
  {
    name: 'a rule for a name',
    manifests: { 'a.yaml': manifest('Users', `{al: ${alice}}`) + rule('a', `${drop('10.0.0.0/8')}, user: al`) },
  },
  { name: 'a rule for an address', manifests: one(`${drop('10.0.0.0/8')}, user: Alice@example.com`) },
  {
    name: 'an address that the server lacks',
    manifests: one(`${drop('10.0.0.0/8')}, user: quite-another-person@elsewhere.test`),
    code: 'unknown-user',
  },
  {
    name: 'an id that the server lacks, beside an address',
    manifests: {
      'a.yaml':
        rule('a', `${drop('10.0.0.0/8')}, user: alice@example.com`) +
        rule('b', `${drop('10.2.0.0/16')}, user_id: ${stranger}`),
    },
    code: 'unknown-user-id',
  },
  {
    name: 'an id that the server lacks, of a rule that it has',
    manifests: {
      'a.yaml':
        rule('a', `${drop('10.0.0.0/8')}, user: bob@example.com`) +
        rule('b', `${drop('10.2.0.0/16')}, user_id: ${bob}`),
    },
    live: [{ action: 'drop', destination: '10.2.0.0/16', user_id: bob }],
  },
  { name: 'an id, without any address', manifests: one(`${drop('10.0.0.0/8')}, user_id: ${stranger}`) },
  { name: 'an unknown name', manifests: one(`${drop('10.0.0.0/8')}, user: nobody-knows`), code: 'unknown-user' },
  {
    name: 'a group',
    manifests: {
      'a.yaml':
        manifest('Group', '{members: [alice@example.com, bob@example.com]}') +
        rule('a', `${drop('10.0.0.0/8')}, group: group`),
    },
  },
  {
    name: 'a network',
    manifests: {
      'a.yaml':
        manifest('Network', '{cidrs: [10.0.0.0/24, 10.0.2.0/24]}') + rule('a', 'action: drop, network: network'),
    },
  },
  { name: 'wrong YAML', manifests: { 'a.yaml': 'kind: [' }, code: 'invalid-yaml' },
  { name: 'an unknown field', manifests: one(`${drop('10.0.0.0/8')}, prot: tcp`), code: 'unknown-field' },
  { name: 'host bits', manifests: one(drop('10.0.0.1/8')), code: 'host-bits' },
  {
    name: 'a name twice',
    manifests: {
      'a.yaml': one(drop('10.0.0.0/8'))['a.yaml'] ?? '',
      'b.yaml': one(drop('10.1.0.0/16'))['a.yaml'] ?? '',
    },
    code: 'duplicate-name',
  },
  {
    name: 'rules that collide',
    manifests: { 'a.yaml': rule('a', web) + rule('b', web.replace('443', '400-500')) },
    code: 'collision',
  },
  {
    name: 'a suppressed note',
    manifests: { 'a.yaml': `# reconcile-ignore: no-rules\n${configuration('vpn_session_duration: 3600')}` },
  },
  { name: 'no rules at all', manifests: { 'a.yaml': set([]).replace('rules:\n', 'rules: []\n') } },
  {
    name: 'everything deleted',
    manifests: { 'a.yaml': set([]).replace('rules:\n', 'rules: []\n') },
    live: seeds(2),
    code: 'deletes-everything',
  },
  {
    name: 'too many deletes',
    manifests: { 'a.yaml': set(seeds(10).map(({ destination }, n) => `name: r${n}, ${drop(String(destination))}`)) },
    live: seeds(20),
    code: 'too-many-deletes',
  },
  {
    name: 'a limit of deletes',
    manifests: one(drop('10.0.0.0/24')),
    live: seeds(3),
    settings: 'maxDeletes: 1\n',
    library: { options: { maxDeletes: { count: 1 } } },
    code: 'too-many-deletes',
  },
  {
    name: 'no pruning',
    manifests: one(drop('10.9.0.0/16')),
    live: seeds(3),
    settings: 'prune: none\n',
    library: { options: { prune: 'none' } },
  },
  {
    name: 'patches',
    manifests: one(web),
    live: [{ action: 'accept', destination: '10.1.0.0/16' }],
    settings: 'ruleUpdates: patch\n',
    library: { ruleUpdates: 'patch' },
  },
  {
    name: 'a refused opening',
    manifests: one(web),
    live: [{ action: 'drop', destination: '10.0.0.0/8' }],
    settings: 'failOn: [opens]\nallowEmpty: true\nmaxDeletes: 9\n',
    library: { options: { failOn: ['opens'], allowEmpty: true, maxDeletes: { count: 9 } } },
    code: 'fail-on-opens',
  },
  {
    name: 'no exposure allowed',
    manifests: one('action: accept, destination: 10.1.0.0/16'),
    live: [{ action: 'drop', destination: '10.1.0.0/16' }],
    settings: 'maxExposure: none\n',
    library: { options: { maxExposure: 'none' } },
  },
  {
    name: 'a scope of networks',
    manifests: one(drop('10.0.1.0/24')),
    live: [...seeds(3), { action: 'drop', destination: '192.0.2.0/24' }],
    settings: 'scope: {networks: [10.0.0.0/8]}\n',
    library: { scope: { networks: ['10.0.0.0/8'] } },
  },
  {
    name: 'a scope of users',
    manifests: one(`${drop('10.0.1.0/24')}, user_id: ${alice}`),
    live: seeds(2),
    settings: `scope: {users: [${alice}]}\n`,
    library: { scope: { users: [alice] } },
  },
  {
    name: 'outside the scope',
    manifests: one(drop('192.0.2.0/24')),
    settings: 'scope: {networks: [10.0.0.0/8]}\n',
    library: { scope: { networks: ['10.0.0.0/8'] } },
    code: 'outside-scope',
  },
  {
    name: 'a scope without rules',
    manifests: { 'a.yaml': configuration('vpn_session_duration: 3600') },
    live: seeds(2),
    settings: 'scope: {rules: false}\n',
    library: { scope: { rules: false } },
  },
  {
    name: 'a Configuration to write',
    manifests: { 'a.yaml': configuration('vpn_session_duration: 3600') + rule('a', drop('10.0.0.0/8')) },
  },
  {
    name: 'a Configuration in sync',
    manifests: { 'a.yaml': configuration('vpn_session_duration: 7200') + rule('a', drop('10.0.0.0/8')) },
    stored: { vpn_session_duration: 7200 },
  },
  { name: 'a lock-out', manifests: { 'a.yaml': configuration('local_auth_enabled: false') }, code: 'locks-out' },
  {
    name: 'a secret that is not here',
    manifests: {
      'a.yaml': configuration(
        'openid_connect_providers:\n  - {id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}',
      ),
    },
    code: 'unknown-secret',
  },
  {
    name: 'values',
    manifests: one(drop(valueNamed('net'))),
    flags: ['--values', 'values.yaml'],
    library: { values: { net: '10.7.0.0/16' } },
  },
  {
    name: 'a value that is missing',
    manifests: one(drop(valueNamed('other'))),
    flags: ['--values', 'values.yaml'],
    library: { values: { net: '10.7.0.0/16' } },
  },
  {
    name: 'an environment',
    manifests: {
      'base/a.yaml': rule('a', drop('10.0.0.0/8')),
      'prod/o.yaml': manifest('Overlay', '{bases: [../base]}') + rule('b', drop('172.16.0.0/12')),
    },
    settings: 'overlay: prod\n',
    library: { overlay: 'prod' },
  },
  {
    name: 'a policy test that fails',
    manifests: {
      'a.yaml':
        rule('a', drop('10.0.0.0/8')) +
        test('name: t, destination: 10.1.2.3, protocol: tcp, port: 443, expect: accept'),
    },
    code: 'policy-test-failed',
  },
  {
    name: 'a policy test that holds',
    manifests: {
      'a.yaml':
        rule('a', drop('10.0.0.0/8')) +
        test('name: t, destination: 10.1.2.3, protocol: tcp, port: 443, expect: drop, always: true'),
    },
  },
];

/** What every caller must agree on: the document of the plan without where it was looked at. */
function essence(document: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { snapshot: _snapshot, server: _server, problems, ...rest } = document;
  // Whether this machine applied to the server before is known to a command alone.
  const shared = (problems as readonly { code: string }[]).filter(({ code }) => code !== 'unknown-live-rules');
  return JSON.parse(JSON.stringify({ ...rest, problems: shared })) as Readonly<Record<string, unknown>>;
}

describe.each(cases)('$name', (given) => {
  let world: World;
  let callers: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  const flags = ['--config', 'reconcile.yaml', ...(given.flags ?? [])];

  beforeAll(async () => {
    world = await startWorld();
    for (const [path, text] of Object.entries(given.manifests)) world.write(`m/${path}`, text);
    world.write('reconcile.yaml', given.settings ?? '{}\n');
    world.write('values.yaml', 'net: 10.7.0.0/16\n');
    world.simulator.seed(given.live ?? []);
    if (given.stored !== undefined) await call('PATCH', 'configuration', { configuration: given.stored });
    const command = (await world.cli(['--plan', '--output', 'json', ...flags, 'm'])).json();
    expect((await world.cli(['snapshot', '--out', 'live.json'])).code).toBe(0);
    const env = { RECONCILE_TOKEN: '', RECONCILE_BASE_URL: '' };
    const offline = ['--plan', '--live', 'live.json', '--output', 'json', ...flags, 'm'];
    const snapshot = (await world.cli(offline, { env })).json();
    callers = {
      command: essence({ ...command }),
      snapshot: essence({ ...snapshot }),
      library: essence(await runLibrary()),
      controller: essence(await runController()),
    };
  });
  afterAll(() => world.close());

  async function call(method: string, path: string, body?: unknown): Promise<unknown> {
    const answer = await fetch(`${world.simulator.url}/v0/${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    expect(answer.status).toBe(200);
    return await answer.json();
  }

  async function runLibrary(): Promise<Readonly<Record<string, unknown>>> {
    const manifests = Object.keys(given.manifests).map((path) => ({
      path,
      text: readFileSync(join(world.folder, 'm', path), 'utf8'),
    }));
    const [rules, stored, users] = await Promise.all(
      ['rules', 'configuration', 'users'].map((path) => call('GET', path)),
    );
    return toJson(plan({ manifests, live: { rules, configuration: stored, users }, ...given.library }));
  }

  async function runController(): Promise<Readonly<Record<string, unknown>>> {
    const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const terminal: Terminal = {
      env,
      cwd: world.folder,
      stdinIsTerminal: false,
      stdoutIsTerminal: false,
      stderrIsTerminal: false,
      stdout: () => {},
      stderr: () => {},
      ask: () => Promise.resolve(null),
      stop: new AbortController().signal,
    };
    const parsed = parseArguments(['--watch', ...flags, 'm']);
    if (parsed.kind !== 'run') throw new Error(parsed.text);
    const settings = await loadSettings(parsed.flags, terminal);
    const api = createApiClient({ baseUrl: world.simulator.url, token: () => token });
    if (!api.ok) throw new Error(api.error);
    const root = join(world.folder, 'm');
    const runner = createWatchPasses({
      invocation: { operands: [], settings, terminal },
      api: api.value,
      fingerprintKey: () => deriveFingerprintKey(token),
      journal: { path: '', write: () => Promise.resolve() },
      logger: silent,
      root,
      recent: createRecentApplies(null),
      openGaps: new Set(),
    });
    const { content } = await createDirectorySource(root, defaultLimits).read(terminal.stop);
    if (content === null) throw new Error('no content');
    const result = await runner.run({
      content,
      base: null,
      record: emptyRecord,
      serverWasDown: false,
      stop: terminal.stop,
      approve: async () => false,
      onOutcome: () => {},
    });
    await api.value.close();
    const { plan: made, digest, problems } = result;
    return makeDocument({
      ...makeProblemReport(problems),
      revision: content.revision,
      plan: made,
      digest: digest?.plan ?? null,
    });
  }

  it('gives the same plan and the same problems to the command, a snapshot, the library and the controller', () => {
    const { command, ...others } = callers;
    for (const [caller, document] of Object.entries(others))
      expect({ caller, ...document }).toEqual({ caller, ...command });
    const found = JSON.stringify([command?.['problems'], command?.['refusals']]);
    expect(found).toContain(given.code === undefined ? '' : `"code":"${given.code}"`);
  });
});

it('a digest that CI printed approves the same plan in a sidecar with another address and token', async () => {
  const world = await startWorld();
  try {
    world.simulator.seed(seeds(3));
    const admin = world.simulator.users().find(({ role }) => role === 'admin')?.id ?? '';
    world.simulator.tokens.register('sidecar-token', admin);
    world.write('m/a.yaml', rule('a', drop('10.0.0.0/24')));
    const limit = ['--max-deletes', '0'];
    const ci = (await world.cli(['--plan', '--output', 'json', ...limit, 'm'])).json();
    expect(ci.refusals.map(({ code }) => code)).toEqual(['too-many-deletes']);
    const env = {
      RECONCILE_BASE_URL: world.simulator.url.replace('127.0.0.1', 'localhost'),
      RECONCILE_TOKEN: 'sidecar-token',
    };
    const sidecar = [
      '--watch',
      '--once',
      '--listen',
      '127.0.0.1:0',
      '--quiet',
      '1ms',
      '--delete-quiet',
      '1ms',
      ...limit,
    ];
    const refused = await world.cli([...sidecar, 'm'], { env });
    expect([refused.code, refused.out + refused.err]).toEqual([3, expect.stringContaining('Refused')]);
    expect((await world.cli([...sidecar, '--approve', String(ci.digest), 'm'], { env })).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(1);
  } finally {
    await world.close();
  }
});

it('there are 40 worlds', () => {
  expect(cases.length).toBe(40);
});
