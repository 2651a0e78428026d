import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  apply,
  effectBetween,
  explain,
  plan,
  reach,
  runTests,
  toJson,
  toText,
  validate,
  verdictHistory,
  verdicts,
} from '../../src/index.ts';
import { startSimulator } from '../../src/simulator/server.ts';

const root = new URL('../../', import.meta.url).pathname;
const token = 'library-token';

function ruleFile(name: string, spec: string) {
  return {
    path: `${name}.yaml`,
    text: `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ${name}}\nspec: ${spec}\n`,
  };
}

const manifests = [ruleFile('closed', '{action: drop, destination: 10.0.0.0/8}')];

describe('the examples of docs/library.md', () => {
  let folder: string;
  const page = readFileSync(path.join(root, 'docs/library.md'), 'utf8');
  const examples = [...page.matchAll(/^## (.+)\n(?:(?!^## )[\s\S])*?```ts\n([\s\S]+?)```/gm)].map(
    ([, title, code]) => ({
      title: title ?? '',
      code: code ?? '',
    }),
  );
  const printed: Readonly<Record<string, readonly string[]>> = {
    'Plan a change': ['closes tcp to 169.254.169.254', 'no-metadata-service'],
    'Ask a policy about traffic': ['accept, because of web', 'accept, drop', 'web.yaml opens 10.1.0.0/16 on 443'],
    'Ask who reaches what, and since when': [
      'alice reaches 10.2.0.5',
      'alice cannot reach 10.2.0.0/16',
      'first: accept -> drop, by db/closed',
      'second: drop -> accept, by db/alice',
    ],
    'Check manifests and run their tests': ['1 passed, 0 failed'],
    Apply: ['no-metadata-service', 'applied converged'],
  };

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'library-'));
    const installed = path.join(folder, 'node_modules/firezone-reconcile');
    mkdirSync(installed, { recursive: true });
    const banner = { js: "import { createRequire as r } from 'node:module'; const require = r(import.meta.url);" };
    const outfile = path.join(installed, 'index.js');
    const entryPoints = [path.join(root, 'src/index.ts')];
    await build({ entryPoints, outfile, bundle: true, format: 'esm', platform: 'node', banner });
    writeFileSync(path.join(installed, 'package.json'), '{"type": "module", "exports": "./index.js"}');
    symlinkSync(path.join(root, 'node_modules/esbuild'), path.join(folder, 'node_modules/esbuild'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('are those that are run here', () => {
    expect(examples.map(({ title }) => title)).toEqual(Object.keys(printed));
  });

  it.each(Object.keys(printed))('%s: runs and prints what it should', async (title) => {
    const file = path.join(folder, 'example.mjs');
    const stdin = { contents: examples.find((one) => one.title === title)?.code ?? '', loader: 'ts' as const };
    await build({ stdin, outfile: file, format: 'esm', platform: 'node', allowOverwrite: true });
    const simulator = await startSimulator({ token });
    try {
      const env = { ...process.env, RECONCILE_BASE_URL: simulator.url, RECONCILE_TOKEN: token };
      const child = spawn(process.execPath, [file], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      let out = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (out += String(text)));
      const code = await new Promise((resolve) => child.once('close', resolve));
      expect([code, out]).toEqual([0, expect.any(String)]);
      for (const text of printed[title] ?? []) expect(out).toContain(text);
      expect(simulator.rules()).toHaveLength(title === 'Apply' ? 1 : 0);
    } finally {
      await simulator.close();
    }
  });
});

describe('a plan of the library', () => {
  const live = { rules: { data: [] } };

  it('goes through JSON, its rules and networks too', () => {
    const planned = plan({ manifests, live });
    expect(JSON.parse(JSON.stringify(planned.plan))).toMatchObject({
      changes: [{ action: 'create', desired: { rule: { destination: '10.0.0.0/8' } } }],
    });
    expect(JSON.parse(JSON.stringify(toJson(planned)))).toMatchObject({
      digest: planned.digest,
      revision: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      summary: { create: 1 },
    });
  });

  it('its text names what ends next, as that of --plan', () => {
    const temp = ruleFile('temp', '{action: accept, destination: 10.5.0.0/16, expires: 2026-06-01}');
    const planned = plan({ manifests: [temp], live, at: Date.parse('2026-05-01') });
    expect(toText(planned)).toContain('Next, at 2026-06-02T00:00:00Z: temp ends.');
  });

  it('validate says which policy test fails later', () => {
    const text = `${ruleFile('open', '{action: accept, destination: 10.1.0.0/16, expires: 2026-06-01}').text}---
apiVersion: firezone/v0
kind: PolicyTest
metadata: {name: t}
spec: {cases: [{destination: 10.1.2.3, expect: accept}]}
`;
    const closed = ruleFile('closed', '{action: drop, destination: 10.0.0.0/8}');
    const codes = (date: string): readonly string[] =>
      validate({ manifests: [{ path: 'o.yaml', text }, closed], at: Date.parse(date) }).map(({ code }) => code);
    expect([codes('2026-05-01'), codes('2026-07-01')]).toEqual([['policy-test-fails-later'], ['expired']]);
  });

  it('knows secrets through a resolver, and shows none', () => {
    const provider =
      '{id: g, label: G, client_id: c, client_secret: {env: RECONCILE_SECRET_G}, discovery_document_uri: "https://idp.example/d", auto_create_users: false}';
    const text = `apiVersion: firezone/v0\nkind: Configuration\nmetadata: {name: main}\nspec: {openid_connect_providers: [${provider}]}\n`;
    const codes = (resolveSecret: () => string | undefined): readonly string[] =>
      validate({ manifests: [{ path: 'c.yaml', text }], resolveSecret }).map(({ code }) => code);
    expect(codes(() => undefined)).toContain('unknown-secret');
    expect(codes(() => 'CANARY')).not.toContain('unknown-secret');
    const asked: unknown[] = [];
    validate({ manifests: [{ path: 'c.yaml', text }], resolveSecret: (reference) => void asked.push(reference) });
    expect(asked).toEqual([{ env: 'RECONCILE_SECRET_G' }]);
  });

  it('tells drift from changes with a base, and honours approvals', () => {
    const request = { manifests, live, base: manifests, options: { failOn: ['closes'] as const } };
    const refused = plan(request);
    expect(refused.plan?.changes[0]?.origin).toBe('earlier-not-applied');
    expect(refused.plan?.refusals.map(({ code }) => code)).toEqual(['fail-on-closes']);
    expect(refused.approved).toBe(false);
    expect(plan({ ...request, approvals: [refused.digest ?? ''] }).approved).toBe(true);
    const broken = plan({ ...request, base: [{ path: 'a.yaml', text: 'kind: Rule' }] });
    expect(broken.problems.map(({ code }) => code)).toContain('base-invalid');
  });
});

describe('an apply of the library', () => {
  it('writes what was approved, nothing else, and says what a server did', async () => {
    const simulator = await startSimulator({ token });
    try {
      const server = { baseUrl: simulator.url, token };
      const declined = await apply({ manifests, server, approve: () => false });
      expect([declined.end, simulator.rules()]).toEqual(['declined', []]);
      const text = await apply({ manifests, server, approve: (() => 'false') as never });
      expect([text.end, simulator.rules()]).toEqual(['declined', []]);
      const applied = await apply({ manifests, server, approve: ({ digest }) => digest === declined.digest });
      expect([applied.end, applied.apply?.end]).toEqual(['applied', 'converged']);
      expect(toText(applied)).toContain('10.0.0.0/8');
      expect((await apply({ manifests, server, approve: () => true })).end).toBe('in-sync');
      const broken = { manifests, server, base: [{ path: 'a.yaml', text: 'kind: Rule' }], approve: () => true };
      expect((await apply(broken)).problems.map(({ code }) => code)).toEqual(['base-invalid']);
      const later = { manifests, server, at: Date.UTC(2100, 0), approve: () => true };
      await expect(apply(later)).rejects.toThrow('apply: `at` is for plan');
      const wrongToken = { ...server, token: 'other' };
      const unreadable = await apply({ manifests, server: wrongToken, approve: () => true });
      expect(unreadable).toMatchObject({ end: 'unreadable', plan: null, problems: [{ code: 'api-unauthorized' }] });
    } finally {
      await simulator.close();
    }
  });
});

it('sends no step that `approve` was not asked about, though the server changes while it writes', async () => {
  const simulator = await startSimulator({ token });
  try {
    const server = { baseUrl: simulator.url, token };
    const [own] = simulator.seed([{ action: 'drop', destination: '10.9.0.0/16' }]);
    const asked: number[] = [];
    const off = simulator.onCall(({ method }) => {
      if (method !== 'POST') return;
      off();
      simulator.seed([{ action: 'drop', destination: '10.66.0.0/16' }]);
    });
    const approve = ({ plan: made }: { plan: { steps: readonly unknown[] } }): boolean =>
      asked.push(made.steps.length) > 0;
    const applied = await apply({
      manifests,
      server,
      options: { maxDeletes: { count: 9 }, maxChanges: { count: 9 } },
      approve,
    } as never);
    expect([asked.length, applied.apply?.end]).toEqual([1, 'not-converged']);
    expect(simulator.rules().map(({ destination }) => destination)).toContain('10.66.0.0/16');
    expect(simulator.rules().map(({ id }) => id)).not.toContain(own);
  } finally {
    await simulator.close();
  }
});

it('opens no rule that ended while `approve` decided', async () => {
  const simulator = await startSimulator({ token });
  const times = vi.spyOn(Date, 'now');
  try {
    const server = { baseUrl: simulator.url, token };
    const ends = Math.ceil(Date.now() / 1000) * 1000 + 60_000;
    const temporary = `{action: accept, destination: 10.55.0.0/16, expires: "${new Date(ends).toISOString()}"}`;
    let asked = 0;
    const approve = () => {
      asked++;
      times.mockReturnValue(ends + 1000);
      return true;
    };
    const applied = await apply({ manifests: [...manifests, ruleFile('temp', temporary)], server, approve });
    expect([asked, applied.end, applied.apply, simulator.rules()]).toEqual([1, 'declined', null, []]);
    expect(applied.problems.map(({ code }) => code)).toContain('stale-plan');
  } finally {
    times.mockRestore();
    await simulator.close();
  }
});

describe('questions', () => {
  const alice = 'a1520c4b-adc3-4574-932a-94461cf85c07';
  const people = {
    path: 'people.yaml',
    text: `apiVersion: firezone/v0\nkind: Users\nmetadata: {name: people}\nspec: {alice: ${alice}, al2: ${alice}}\n`,
  };
  const forAlice = ruleFile('alice', '{action: accept, destination: 10.1.0.0/16, user: alice}');
  const policy = { manifests: [...manifests, people, forAlice] };

  it('are answered for a user by name, address or id', () => {
    const packet = { destination: '10.1.2.3', protocol: 'tcp', port: 22 } as const;
    expect(
      verdicts({ ...policy, packets: [packet, { ...packet, user: 'alice' }, { ...packet, user: alice }] }),
    ).toEqual(['drop', 'accept', 'accept']);
    const explained = explain({ ...policy, packet: { ...packet, user: 'al2' } });
    expect(explained).toMatchObject({ verdict: 'accept', rule: 'alice', json: { verdict: 'accept' } });
    expect(explain({ ...policy, packet: { destination: '192.0.2.1', protocol: 'other' } })).toMatchObject({
      verdict: 'accept',
      rule: null,
    });
    const { opens, closes } = effectBetween({ manifests }, policy);
    expect(opens.map(({ user, destinations }) => [user, destinations])).toContainEqual([alice, ['10.1.0.0/16']]);
    expect(closes).toEqual([]);
    expect(runTests(policy)).toEqual({ passed: 0, failed: 0, problems: [] });
  });
});

describe('wrong arguments', () => {
  const live = { rules: { data: [] } };
  const packet = { destination: '10.0.0.1', protocol: 'tcp' } as const;
  const wrong: readonly (readonly [string, (given: never) => unknown, unknown, RegExp])[] = [
    ['nothing', plan, undefined, /^plan takes one object: plan\(\{manifests: /],
    ['a list, as in 0.1', validate, [], /^validate takes one object: validate\(\{manifests/],
    ['a misspelt member', plan, { manifest: [], live }, /does not know `manifest`.*`manifests`/],
    ['no manifests', plan, { live }, /`manifests` is missing/],
    ['a file without text', plan, { manifests: [{ path: 'a' }], live }, /`manifests\[0\]` needs a path and a text/],
    ['no live state', plan, { manifests }, /^plan: `live` takes one object/],
    ['an unknown profile', validate, { manifests, profile: 'x' }, /`profile` must be one of firezone-0.7, generic/],
    [
      'an unknown option',
      plan,
      { manifests, live, options: { maxDelete: 1 } },
      /does not know `maxDelete`.*maxDeletes/,
    ],
    [
      'a flag as a text',
      plan,
      { manifests, live, options: { allowEmpty: 'false' } },
      /`options\.allowEmpty` must be true/,
    ],
    [
      'a limit as a number',
      plan,
      { manifests, live, options: { maxDeletes: 3 } },
      /`options\.maxDeletes` must be \{count/,
    ],
    [
      'a limit that is none',
      plan,
      { manifests, live, options: { maxChanges: { count: Number.NaN } } },
      /maxChanges` must/,
    ],
    ['a scope as a text', plan, { manifests, live, scope: { rules: 'false' } }, /`scope\.rules` must be true or false/],
    [
      'one network as the scope',
      plan,
      { manifests, live, scope: { networks: '10.0.0.0/8' } },
      /`scope\.networks` must/,
    ],
    ['no time', validate, { manifests, at: Number.NaN }, /`at` must be a time in ms/],
    ['a value that is no text', validate, { manifests, values: { a: 1 } }, /`values` must be an object of texts/],
    ['a folder as the base', plan, { manifests, live, base: 'policy' }, /`base` must be a list/],
    [
      'no signal',
      apply,
      { manifests, server: { baseUrl: 'http://127.0.0.1:1', token: 'x' }, approve: () => true, signal: {} },
      /`signal` must be an AbortSignal/,
    ],
    ['one approval', plan, { manifests, live, approvals: 'x' }, /`approvals` must be a list of texts/],
    [
      'an option of the command alone',
      plan,
      { manifests, live, options: { goesBack: true } },
      /does not know `goesBack`/,
    ],
    ['host bits in the scope', validate, { manifests, scope: { networks: ['10.0.0.1/8'] } }, /scope\.networks\.0/],
    [
      'a misspelt way to fail',
      plan,
      { manifests, live, options: { failOn: ['open'] } },
      /failOn` must be a list of opens,/,
    ],
    ['a way to prune', plan, { manifests, live, options: { prune: 'managed' } }, /prune` must be all, none/],
    ['an exposure', plan, { manifests, live, options: { maxExposure: '5m' } }, /maxExposure` must be one of none, any/],
    ['a number as the user', reach, { manifests, user: 1 }, /`user` must be a user's e-mail address or id, a text/],
    ['no question', verdictHistory, undefined, /^verdictHistory takes one object: verdictHistory\(\{versions: /],
    ['no version', verdictHistory, { versions: [null], packet }, /`versions\[0\]` takes one object/],
    [
      'a version of no time',
      verdictHistory,
      { versions: [{ id: 'a', manifests }], packet },
      /needs an `id`, a text, and/,
    ],
    ['no server', apply, { manifests, approve: () => true }, /^apply: `server` takes one object/],
    ['no approval', apply, { manifests, server: { baseUrl: 'https://a.example', token } }, /`approve` is missing/],
    ['plain http', apply, { manifests, server: { baseUrl: 'http://a.example', token }, approve: () => true }, /http/],
    ['a network', explain, { manifests, packet: { ...packet, destination: '10.0.0.0/8' } }, /must be one IP address/],
    ['an unknown user', explain, { manifests, packet: { ...packet, user: 'zoe' } }, /there is no user zoe/],
    ['a port that cannot be', explain, { manifests, packet: { ...packet, port: 70_000 } }, /`port` is a whole number/],
    ['manifests with errors', runTests, { manifests: [ruleFile('a', '{action: maybe}')] }, /a\.yaml:4: .*`validate`/],
  ];

  it.each(wrong)('%s: say what to write', async (_, call, given, message) => {
    const failure: unknown = await (async () => call(given as never))().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(TypeError);
    expect(String((failure as TypeError).message)).toMatch(message);
  });
});
