import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { OptionName } from '../../src/cli/options.ts';
import { alice, type CliRun, configuration, rule, token } from '../cli/harness.ts';
import { type DocsWorld, liveDestinations, wanted } from './world.ts';

type Env = Readonly<Record<string, string>>;

/** One execution of a flag: what it needs, what is given, and what shows that it counted. */
export interface Sample {
  /** Makes what the flag needs; may give variables. */
  readonly prepare?: (world: DocsWorld, command: string) => Promise<Env | undefined> | Env | undefined | unknown;
  /** The words; without them the flag alone. */
  readonly args?: (world: DocsWorld, command: string) => readonly string[];
  /** The command line that it is added to; without it the one of the command. */
  readonly base?: (command: string) => readonly string[];
  readonly answer?: string;
  readonly code?: number | ((command: string) => number);
  /** The plan that is applied is made under the flag too. */
  readonly shapesPlan?: true;
  readonly shows?: (run: CliRun, world: DocsWorld, command: string) => Promise<unknown> | unknown;
}

const question = ['--destination', '10.1.2.3', '--protocol', 'tcp', '--port', '443'];
const bases: Readonly<Record<string, readonly string[]>> = {
  plan: ['plan', 'policy'],
  validate: ['validate', 'policy'],
  export: ['export'],
  build: ['build', 'policy'],
  fmt: ['fmt', 'policy'],
  schema: ['schema', 'Rule'],
  test: ['test', 'policy'],
  diff: ['diff', 'policy', 'policy'],
  reach: ['reach', 'policy'],
  blame: ['blame', 'policy', ...question],
  log: ['log', 'policy'],
  expiring: ['expiring', 'policy'],
  extend: ['extend', 'metadata', 'policy', '--until', '2099-06-30'],
  explain: ['explain', 'policy', ...question],
  apply: ['apply', 'plan.json', 'policy'],
  snapshot: ['snapshot'],
  drift: ['drift', 'policy'],
  doctor: ['doctor'],
  init: ['init', 'fresh'],
  completion: ['completion', 'bash'],
};

/** A command line of the command that works and ends with 0 (drift: with 2). */
export function baseOf(command: string): readonly string[] {
  return bases[command] ?? [command];
}

const codeOf = (command: string): number => (command === 'drift' ? 2 : 0);
const refuses = (command: string): number => (command === 'drift' ? 2 : 3);
const agrees: Sample = { code: codeOf };
const applied = (_: CliRun, world: DocsWorld): void => expect(liveDestinations(world)).toEqual(wanted);

/** What shows in the text or the steps of a plan. */
const says =
  (words: RegExp) =>
  (run: CliRun): void =>
    expect(run.out + run.err).toMatch(words);

async function call(world: DocsWorld, method: string, path: string, body: unknown): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'content-type': 'application/json' };
  const answer = await fetch(`${world.simulator.url}${path}`, { method, headers, body: JSON.stringify(body) });
  expect(answer.ok).toBe(true);
}

type Samples = Readonly<Partial<Record<OptionName, Sample | ((command: string) => Sample | null)>>>;

/** Flags of every command, or of those that talk to the server. */
const common: Samples = {
  config: {
    prepare: (world) => void world.write('settings.yaml', `baseUrl: ${world.simulator.url}\ntokenFile: token\n`),
    args: () => ['--config', 'settings.yaml'],
    code: codeOf,
  },
  output: {
    args: () => ['--output', 'json'],
    code: codeOf,
    shows: (run) => expect(run.json().format_version).toBe('1.1'),
  },
  logFormat: {
    args: () => ['--log-format', 'json', '--verbose'],
    code: codeOf,
    shows: (run) => {
      for (const line of run.err.split('\n').filter((text) => text.includes('"level"'))) JSON.parse(line);
    },
  },
  verbose: agrees,
  color: {
    prepare: () => ({ FORCE_COLOR: '1' }),
    code: codeOf,
    shows: (run) => expect(run.out + run.err).not.toContain('\u001b['),
  },
  baseUrl: {
    prepare: () => ({ RECONCILE_BASE_URL: '' }),
    args: ({ simulator }) => ['--base-url', simulator.url],
    shapesPlan: true,
    code: codeOf,
  },
  tokenFile: (command) =>
    command === 'simulate'
      ? null
      : {
          prepare: () => ({ RECONCILE_TOKEN_FILE: 'gone' }),
          shapesPlan: true,
          args: () => ['--token-file', 'token'],
          code: codeOf,
        },
  caFile: {
    prepare: async ({ tlsUrl }) => ({ RECONCILE_BASE_URL: await tlsUrl() }),
    args: () => ['--ca-file', 'ca.pem'],
    shapesPlan: true,
    code: codeOf,
  },
  allowHttp: {
    prepare: ({ simulator }) => ({ RECONCILE_BASE_URL: simulator.url.replace('127.0.0.1', '0.0.0.0') }),
    shapesPlan: true,
    code: codeOf,
  },
  proxy: {
    prepare: () => ({ HTTPS_PROXY: 'http://127.0.0.1:1', NO_PROXY: '127.0.0.1' }),
    args: () => ['--proxy', 'env'],
    shapesPlan: true,
    code: codeOf,
  },
  timeout: { args: () => ['--timeout', '5s'], code: codeOf },
  profile: {
    args: () => ['--profile', 'generic'],
    shapesPlan: true,
    code: codeOf,
    shows: (run, _, command) => {
      if (command === 'plan') expect(run.out).toMatch(/Profile generic/);
    },
  },
};

/** Flags of every command that reads manifests. */
const manifests: Samples = {
  values: {
    prepare: (world) => {
      world.write('policy/more.yaml', rule('more', 'action: drop, destination: "${' + 'net}"'));
      world.write('values.yaml', 'net: 172.20.0.0/16\n');
    },
    args: () => ['--values', 'values.yaml'],
    shapesPlan: true,
    code: codeOf,
  },
  overlay: {
    prepare: (world, command) => {
      const overlay = 'apiVersion: firezone/v0\nkind: Overlay\nmetadata: {name: env}\nspec: {bases: [../base]}\n';
      world.write('policy/env/overlay.yaml', overlay);
      if (command === 'extend') world.write('policy/env/rule.yaml', world.read('policy/metadata.yaml'));
      world.write('policy/base/rules.yaml', world.read('policy/office.yaml'));
      // What is asked about commits needs one that holds it.
      const said = ['-c', 'user.name=T', '-c', 'user.email=t@example.com', 'commit', '-qm', 'As it is now'];
      for (const args of command === 'log' || command === 'blame' ? [['add', 'policy'], said] : [])
        execFileSync('git', args, { cwd: world.folder });
    },
    args: () => ['--overlay', 'env'],
    shapesPlan: true,
    code: codeOf,
    shows: (run, _, command) => {
      if (command === 'build') expect(run.out).not.toContain('name: metadata');
      if (command === 'extend') expect(run.out).toMatch(/^policy\/env\/rule\.yaml: metadata ends/);
    },
  },
  strict: {
    prepare: (world) => void world.write('policy/more.yaml', rule('more', 'action: drop, destination: 172.20.1.1/16')),
    code: 4,
    shows: says(/host-bits/),
  },
};

const againstSnapshot: Sample = {
  prepare: async (world) => {
    await world.cli(['snapshot', '--out', 'live.json']);
    return { RECONCILE_BASE_URL: '', RECONCILE_TOKEN_FILE: '' };
  },
  shows: says(/snapshot/),
};

const writesOf = ({ requests }: DocsWorld['simulator']): readonly string[] =>
  requests().flatMap(({ method, path }) => (method === 'GET' ? [] : [`${method} ${path}`]));

/** Flags of plans and applies. */
const plans: Samples = {
  snapshot: {
    ...againstSnapshot,
    args: () => ['--snapshot', 'live.json'],
    shows: (run, _, command) =>
      expect(run.out).toMatch(command === 'reach' ? /everyone but metadata|^who/m : /snapshot/),
  },
  live: { ...againstSnapshot, args: () => ['--live', 'live.json'] },
  dryRun: { base: () => ['apply', 'policy'], shows: (_, { simulator }) => expect(writesOf(simulator)).toEqual([]) },
  save: {
    args: () => ['--save', 'saved.json'],
    shows: (_, world) => expect(JSON.parse(world.read('saved.json'))).toMatchObject({ kind: 'saved-plan' }),
  },
  showEmails: { shows: says(/^Plan for http|a fresh read of the server agrees/m) },
  full: { shows: says(/^Plan for http|a fresh read of the server agrees|^Changes from policy/m) },
  at: { args: () => ['--at', '2099-01-01'], code: codeOf },
  since: { args: () => ['--since', '2099-01-01'], shows: says(/no commit changed it|No traffic was opened/) },
  within: { args: () => ['--within', '4w'], shows: says(/within 4w|3 rules/) },
  until: { args: () => ['--until', '2099-12-31'], shows: says(/metadata ends at 2100-01-01T00:00:00Z/) },
  mergeBase: { base: () => ['diff', 'main..HEAD', 'policy'], shows: says(/main where HEAD left it/) },
  detailedExitcode: { code: (command) => (command === 'plan' ? 2 : 0) },
  ruleUpdates: {
    args: () => ['--rule-updates', 'patch'],
    shapesPlan: true,
    shows: (run, { simulator }, command) => {
      if (command === 'plan') expect(run.out).toMatch(/PATCH/);
      else expect(simulator.requests().map(({ method }) => method)).toContain('PATCH');
    },
  },
  prune: {
    prepare: (world) =>
      void world.write('policy/metadata.yaml', rule('metadata', 'action: drop, destination: 169.254.169.254')),
    args: () => ['--prune', 'none'],
    shapesPlan: true,
    shows: (run, world, command) => {
      if (command === 'plan') expect(run.out).toMatch(/1 skipped/);
      else expect(liveDestinations(world)).toContain('203.0.113.7');
    },
  },
  maxDeletes: {
    args: () => ['--max-deletes', '0'],
    shapesPlan: true,
    code: refuses,
    shows: says(/too-many-deletes|--max-deletes/),
  },
  maxChanges: {
    args: () => ['--max-changes', '0'],
    shapesPlan: true,
    code: refuses,
    shows: says(/too-many-changes|--max-changes/),
  },
  allowEmpty: {
    prepare: (world) => {
      for (const name of ['office', 'metadata', 'tests']) world.write(`policy/${name}.yaml`, '# none\n');
      world.write(
        'policy/none.yaml',
        'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: none}\nspec: {rules: []}\n',
      );
    },
    shapesPlan: true,
    shows: says(/3 to delete|a fresh read/),
  },
  allowLockout: {
    prepare: (world) => void world.write('policy/more.yaml', configuration('local_auth_enabled: false')),
    shapesPlan: true,
    shows: says(/local_auth_enabled|a fresh read/),
  },
  replaceModified: {
    prepare: async (world) => {
      const [first] = world.simulator.rules();
      await call(world, 'PATCH', `/v0/rules/${first?.id}`, { rule: { destination: '10.0.0.0/9' } });
      await call(world, 'PATCH', `/v0/rules/${first?.id}`, { rule: { destination: '10.0.0.0/8' } });
    },
    shapesPlan: true,
    shows: says(/modified in place|a fresh read/),
  },
  maxExposure: { args: () => ['--max-exposure', 'none'], code: refuses, shows: says(/--max-exposure any/) },
  failOn: {
    base: (command) => (command === 'diff' ? ['diff', 'main', 'policy'] : baseOf(command)),
    args: () => ['--fail-on', 'any'],
    code: refuses,
    shows: says(/fail-on/),
  },
  base: {
    args: () => ['--base', 'HEAD'],
    shapesPlan: true,
    code: codeOf,
    shows: (run, _, command) => {
      if (command === 'plan') expect(run.out).toMatch(/drift/);
      // What only the working tree asks for is no drift from what was applied.
      if (command === 'drift') expect(run.out).not.toMatch(/169\.254\.0\.0/);
    },
  },
  bindSecret: {
    prepare: (world) => {
      const fields =
        'id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, auto_create_users: false';
      const provider = `{${fields}, discovery_document_uri: "https://idp.example/d"}`;
      world.write('policy/more.yaml', configuration(`openid_connect_providers: [${provider}]`));
      return { RECONCILE_SECRET_G: 'CANARY-secret' };
    },
    args: () => ['--bind-secret', 'RECONCILE_SECRET_G=g@idp.example'],
    shapesPlan: true,
    shows: says(/openid_connect_providers|a fresh read/),
  },
  approve: {
    prepare: async (world) => {
      const run = await world.cli(['--plan', '--max-deletes', '0', '--output', 'json', 'policy']);
      expect(run.code).toBe(3);
      world.write('digest', run.json().digest ?? '');
      return { RECONCILE_MAX_DELETES: '0' };
    },
    args: (world) => ['--approve', world.read('digest')],
    shows: (run, world, command) => {
      if (command === 'plan') expect(run.out).toMatch(/approved by digest/);
      else applied(run, world);
    },
  },
};

/** Flags of what writes. */
const applies: Samples = {
  suspend: { code: 3, shows: says(/suspended by --suspend/) },
  overrideWindow: {
    prepare: async (world) => {
      world.write('closed.yaml', 'yes: true\nwindows:\n  - {kind: deny, schedule: "* * * * *", duration: 1h}\n');
      return { RECONCILE_CONFIG: 'closed.yaml' };
    },
    args: () => ['--override-window', 'incident 7'],
    shows: applied,
  },
  noSuspend: { prepare: () => ({ RECONCILE_SUSPEND: 'true' }), shows: applied },
  confirmWithin: {
    args: () => ['--confirm-within', '5m', '--state-dir', 'state'],
    answer: 'y',
    shows: (run, world) => {
      expect(run.err).toContain('going back in 5:00 Kept.');
      applied(run, world);
    },
  },
  confirmWith: {
    prepare: () => ({ PATH: process.env['PATH'] ?? '' }),
    args: () => ['--confirm-with', 'true', '--state-dir', 'state'],
    shows: applied,
  },
  stateDir: { args: () => ['--state-dir', 'state'], shows: applied },
  yes: { answer: 'n', shows: applied },
  totalTimeout: { args: () => ['--total-timeout', '1m'], shows: applied },
  concurrency: { args: () => ['--concurrency', '1'], shows: applied },
  pace: { args: () => ['--pace', '1000'], shows: applied },
  journal: {
    args: () => ['--journal', 'journal.jsonl'],
    shows: (_, world) => expect(world.read('journal.jsonl')).toMatch(/"method":"DELETE"/),
  },
};

/** Flags of single commands. */
const others: Samples = {
  out: {
    args: () => ['--out', 'exported'],
    shows: (_, world, command) => {
      const file = command === 'export' ? 'exported/rules/everyone.yaml' : 'exported';
      expect(readFileSync(join(world.folder, file), 'utf8')).toContain('203.0.113.7');
    },
  },
  force: {
    prepare: async (world) => {
      await world.cli(['export', '--out', 'exported']);
      world.write('exported/configuration.yaml', '# changed\n');
      expect((await world.cli(['export', '--out', 'exported'])).code).toBe(1);
    },
    args: () => ['--out', 'exported', '--force'],
    shows: (_, world) => expect(world.read('exported/configuration.yaml')).not.toBe('# changed\n'),
  },
  forge: { args: () => ['--forge', 'gitlab'], shows: says(/written {2}\.gitlab-ci\.yml/) },
  example: { shows: says(/fresh\/policy: 2 rules; no problems/) },
  rulesOnly: { shows: (run) => expect(run.out).not.toContain('kind: Configuration') },
  user: (command) => {
    if (command === 'simulate') return null;
    const seeded: Sample['prepare'] = (world) =>
      void world.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24', user_id: alice }]);
    if (['explain', 'blame'].includes(command))
      return { args: () => ['--user', 'alice'], shows: says(/from a device of alice/) };
    if (command === 'reach') return { args: () => ['--user', 'alice'], shows: says(/^alice +accept/m) };
    return {
      prepare: seeded,
      args: () => ['--user', 'alice@example.com'],
      shows: (run) => {
        expect(run.out).toContain('192.0.2.0/24');
        expect(run.out).not.toContain('203.0.113.7');
      },
    };
  },
  check: {
    prepare: (world) =>
      void world.write(
        'policy/more.yaml',
        '{kind: Network, apiVersion: firezone/v0, metadata: {name: n}, spec: {cidrs: [10.0.0.0/8]}}\n',
      ),
    code: 1,
    shows: (run, world) => {
      expect(run.out).toBe('policy/more.yaml\n');
      expect(world.read('policy/more.yaml')).toMatch(/^\{/);
    },
  },
  checkDiscovery: {
    prepare: (world) => {
      return call(world, 'PATCH', '/v0/configuration', {
        configuration: {
          openid_connect_providers: [
            {
              id: 'g',
              label: 'G',
              client_id: 'c',
              client_secret: 's',
              discovery_document_uri: 'http://127.0.0.1:9/none',
              auto_create_users: false,
            },
          ],
        },
      });
    },
    code: 1,
    shows: says(/discovery/),
  },
  destination: (command) => ({
    base: () => [command, 'policy', '--protocol', command === 'blame' ? 'icmp' : 'tcp'],
    args: () => ['--destination', '10.9.9.9'],
    shows: says(/: drop\n|: drop, since| drop +10\.9\.9\.9 tcp/),
  }),
  protocol: (command) => ({
    base: () => [command, 'policy', '--destination', '10.1.9.9'],
    args: () => ['--protocol', 'icmp'],
    shows: says(/: drop\n|: drop, since| drop +10\.1\.9\.9 other protocols/),
  }),
  port: (command) =>
    command === 'simulate'
      ? null
      : {
          base: () => [command, 'policy', '--destination', '10.1.9.9', '--protocol', 'tcp'],
          args: () => ['--port', '443'],
          shows: says(/: accept\n|: accept, | accept +10\.1\.9\.9 tcp 443/),
        },
  rule: { base: () => ['explain', 'policy'], args: () => ['--rule', 'office/web'], shows: says(/office\/web/) },
  liveRules: {
    base: (command) => (command === 'reach' ? ['reach', 'policy', ...question] : ['explain', ...question]),
    args: () => ['--live'],
    shows: says(/: drop\n| drop +10\.1\.2\.3 tcp 443/), // live, nothing opens the web servers yet
  },
};

export const samples: Samples = { ...common, ...manifests, ...plans, ...applies, ...others };
