import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Terminal } from '../../src/cli/command.ts';
import { runCli } from '../../src/cli/run.ts';
import { startSimulator } from '../../src/simulator/server.ts';

const company = fileURLToPath(new URL('../../examples/company/', import.meta.url));
let folder = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'reconcile-policy-'));
  cpSync(company, join(folder, 'company'), { recursive: true });
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a command line in the temporary folder. */
async function cli(args: readonly string[], env: Readonly<Record<string, string>> = {}, columns?: number) {
  const written = { out: '', err: '' };
  const terminal: Terminal = {
    env,
    cwd: folder,
    stdinIsTerminal: false,
    stdoutIsTerminal: columns !== undefined,
    stderrIsTerminal: columns !== undefined,
    ...(columns === undefined ? {} : { columns }),
    stdout: (text) => {
      written.out += text;
    },
    stderr: (text) => {
      written.err += text;
    },
    ask: async () => null,
    stop: new AbortController().signal,
  };
  const code = await runCli(args, terminal);
  return { code, ...written, json: () => JSON.parse(written.out) as Record<string, unknown> };
}

function addManifest(text: string): void {
  writeFileSync(join(folder, 'company', 'more.yaml'), text);
}

const failingTest = `apiVersion: firezone/v0
kind: PolicyTest
metadata: {name: more}
spec:
  cases:
    - {name: no-staging, user: alice, destination: 10.20.0.0/16, expect: drop}
`;

describe('reconcile test', () => {
  it('passes the example without a server', async () => {
    const { code, out, err } = await cli(['test', 'company']);
    expect([code, out, err]).toEqual([0, '16 cases passed, 0 failed.\n', '']);
  });

  it('exits 3 when a case fails, with a counterexample and the deciding rule at its place', async () => {
    addManifest(failingTest);
    const { code, out } = await cli(['test', 'company']);
    expect(code).toBe(3);
    expect(out).toContain(
      'more.yaml:6:7 error [policy-test-failed] `no-staging` expects drop for 10.20.0.0/16 from alice',
    );
    expect(out).toContain(
      'tcp 10.20.0.0 port 443 from a device of alice gets accept: `contractors/web/alice/10.20.0.0-16',
    );
    expect(out).toMatch(/rules\/contractors\.yaml:\d+:\d+ `[^`]+` decides: accept 10\.20\.0\.0\/16 tcp 443 for alice/);
    expect(out).toContain('16 cases passed, 1 failed.');
  });

  it('says the same as one JSON document', async () => {
    addManifest(failingTest);
    const { code, json } = await cli(['test', 'company', '--output', 'json']);
    expect(code).toBe(3);
    expect(json()).toMatchObject({ passed: 16, failed: 1, problems: [] });
    expect(json()['cases']).toContainEqual(
      expect.objectContaining({
        name: 'no-staging',
        counterexample: expect.objectContaining({
          destination: '10.20.0.0',
          protocol: 'tcp',
          port: 443,
          verdict: 'accept',
        }),
      }),
    );
  });

  it('annotates the failing case for GitHub, relative to the repository', async () => {
    addManifest(failingTest);
    const { out } = await cli(['test', 'company', '--output', 'github']);
    expect(out).toContain(
      '::error file=company/more.yaml,line=6,col=7,title=policy-test-failed::`no-staging` expects drop',
    );
  });

  it('exits 4 for invalid manifests, and runs nothing', async () => {
    addManifest(failingTest.replace('destination', 'destinaton'));
    const { code, out } = await cli(['test', 'company']);
    expect(code).toBe(4);
    expect(out).toContain('unknown-field');
    expect(out).not.toContain('passed');
  });
});

describe('reconcile validate', () => {
  it('shows what the lint finds; --strict makes its warnings errors', async () => {
    addManifest(
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: host}\nspec: {action: accept, destination: 192.0.2.1}\n',
    );
    const { code, out } = await cli(['validate', 'company']);
    expect([code, out]).toEqual([0, expect.stringContaining('[changes-nothing]')]);
    expect((await cli(['validate', 'company', '--strict'])).code).toBe(4);
  });

  it('does not show what a comment with a reason switches off', async () => {
    addManifest(
      '# reconcile-ignore-file: changes-nothing to be used next week\n# reconcile-ignore-file: unrouted-destination routed next week\napiVersion: firezone/v0\nkind: Rule\nmetadata: {name: host}\nspec: {action: accept, destination: 192.0.2.1}\n',
    );
    const { code, out } = await cli(['validate', 'company', '--strict']);
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^company: \d+ rules and the Configuration; no problems\.\n$/),
    ]);
  });
});

describe('reconcile explain', () => {
  const explain = (...args: readonly string[]) => cli(['explain', 'company', ...args]);

  it('names the verdict, the deciding rule at its place, what it overrides and what would change it', async () => {
    const { code, out } = await explain(
      '--destination',
      '10.30.1.5',
      '--protocol',
      'tcp',
      '--port',
      '5432',
      '--user',
      'alice',
    );
    expect(code).toBe(0);
    expect(out).toContain('tcp 10.30.1.5 port 5432 from a device of alice: drop\n');
    expect(out).toMatch(
      /decided by {2}databases\/not-for-contractors\/alice\/10\.30\.1\.0-24 .* rules\/databases\.yaml:\d+:\d+/,
    );
    expect(out).toMatch(/overrides {3}baseline\/closed/);
    expect(out).toContain('would be accepted with a rule to accept this port for this user');
  });

  it('gives verdict, rule and overridden as JSON', async () => {
    const { json } = await explain(
      '--destination',
      '10.30.1.5',
      '--protocol',
      'icmp',
      '--user',
      'carol',
      '--output',
      'json',
    );
    expect(json()).toMatchObject({
      verdict: 'accept',
      rule: { name: 'on-call/everything/carol/10.0.0.0-8', file: 'rules/on-call.yaml', action: 'accept' },
      overridden: [{ name: 'baseline/closed/10.0.0.0-8', action: 'drop' }],
      packet: { protocol: 'other', port: null },
    });
  });

  it('takes any protocol by name or number, and says what a port would change when none is asked about', async () => {
    const printer = ['--destination', '10.10.9.9', '--user', 'guest', '--output', 'json', '--protocol'];
    expect((await explain(...printer, '6')).json()).toMatchObject({
      verdict: 'drop',
      by_port: [{ verdict: 'drop' }, { ports: '631', verdict: 'accept' }, { verdict: 'drop' }],
    });
    expect((await explain(...printer, 'gre')).json()).toMatchObject({ verdict: 'drop', packet: { protocol: 'other' } });
  });

  it('does not call a port unnamed where rules name every one', async () => {
    const text = (high: number) => `apiVersion: firezone/v0
kind: RuleSet
metadata: {name: s}
spec:
  rules:
    - {name: a, action: accept, destination: 10.0.0.1, port_type: tcp, port_range: 0-100}
    - {name: b, action: drop, destination: 10.0.0.1, port_type: tcp, port_range: 101-${high}}
`;
    const asked = async (high: number) => {
      mkdirSync(join(folder, 'ports'), { recursive: true });
      writeFileSync(join(folder, 'ports/a.yaml'), text(high));
      const where = ['--destination', '10.0.0.1', '--protocol', 'tcp', '--profile', 'generic'];
      return (await cli(['explain', 'ports', ...where])).out;
    };
    expect(await asked(65_535)).toContain('asked without --port: port 1, since rules name every one\n');
    expect(await asked(65_534)).toContain('asked without --port: a port that no rule names\n');
  });

  it('says that nothing matches, and the default', async () => {
    const { out } = await explain('--destination', '198.51.100.7', '--protocol', 'udp', '--port', '9');
    expect(out).toContain('accept\n  decided by  no rule: what none matches is accepted');
  });

  it('shows what a rule decides and would decide alone', async () => {
    const { out, json } = await explain('--rule', 'guests/printer/guest', '--output', 'json');
    const piece = {
      user: '0b6f2a52-8e1d-4f5c-9a34-2d7c1e5b9f60',
      destinations: ['10.10.9.9'],
      protocol: 'tcp',
      ports: ['631'],
    };
    expect(out).not.toBe('');
    expect(json()).toMatchObject({ decides: [piece], alone: [piece] });
  });

  it('does not say "everyone" of a rule from which people are exempt altogether', async () => {
    addManifest(`apiVersion: firezone/v0
kind: RuleSet
metadata: {name: shut}
spec:
  rules:
    - {name: all, action: drop, destination: 192.0.2.0/24}
    - {name: but-alice, action: accept, destination: 192.0.2.0/24, user: alice}
`);
    const { out } = await explain('--rule', 'shut/all');
    expect(out).toContain(
      '  decides\n    192.0.2.0/24 for everyone but alice and guest\n  alone it would decide\n    192.0.2.0/24 for everyone\n',
    );
  });

  it.each([
    [['--destination', '10.0.0.1'], '--protocol is missing'],
    [['--destination', '10.0.0.1', '--protocol', 'tpc'], 'Did you mean `tcp`?'],
    [['--destination', '10.0.0.1', '--protocol', 'any'], 'one at a time: tcp, udp, icmp'],
    [['--destination', '10.0.0.0/8', '--protocol', 'tcp'], '--destination 10.0.0.0/8 is not an IP address'],
    [['--destination', '10.0.0.1', '--protocol', 'icmp', '--port', '1'], '--port goes with tcp and udp only'],
    [['--destination', '10.0.0.1', '--protocol', 'tcp', '--user', 'alise'], 'Did you mean `alice`?'],
    [['--rule', 'guests/printer'], 'it makes the rules guests/printer/guest'],
    [['--rule', 'nope'], 'there is no rule nope'],
    [['--rule', 'baseline', '--user', 'alice'], 'two questions'],
    [['--rule', 'baseline', '--protocol', 'tcp', '--port', '22'], 'two questions'],
    [['--rule', 'baseline', '--output', 'markdown'], 'has no output as markdown'],
    [['--rule', 'baseline', '--live', '--at', '2026-12-01'], '--at goes with manifests'],
    [[], 'nothing is asked'],
  ])('refuses %j: %s', async (args, message) => {
    const { code, err } = await explain(...args);
    expect([code, err]).toEqual([1, expect.stringContaining(message)]);
  });

  it("asks about the server's rules with --live, naming those that manifests hold", async () => {
    const simulator = await startSimulator({ token: 'operator' });
    try {
      writeFileSync(join(folder, 'token'), 'operator');
      const env = { RECONCILE_BASE_URL: simulator.url, RECONCILE_TOKEN_FILE: join(folder, 'token') };
      simulator.seed([
        { action: 'drop', destination: '10.0.0.0/8', port_range: null, port_type: null, user_id: null },
        { action: 'accept', destination: '10.9.9.9', port_range: null, port_type: null, user_id: null },
      ]);
      const ask = ['--destination', '10.9.9.9', '--protocol', 'tcp', '--port', '1', '--live', '--output', 'json'];
      const live = await cli(['explain', ...ask], env);
      expect(live.err).toBe('');
      expect(live.json()).toMatchObject({
        verdict: 'accept',
        rule: { name: null, destination: '10.9.9.9' },
        overridden: [{ name: null }],
      });
      const named = await cli(['explain', 'company', ...ask], env);
      expect(named.json()).toMatchObject({
        rule: { name: null },
        overridden: [{ name: 'baseline/closed/10.0.0.0-8' }],
      });
    } finally {
      await simulator.close();
    }
  });
});

describe('answers as a page', () => {
  it.each([
    [['validate', 'company'], 'reconcile validate: company: 27 rules and the Configuration; no problems'],
    [['test', 'company'], 'reconcile test: 16 cases passed, 0 failed'],
    [['expiring', 'company'], '0 rules of company end within 30d'],
    [['reach', 'company'], 'Who can reach what'],
    [['reach', 'company', '--user', 'alice'], 'What alice can reach'],
    [['explain', 'company', '--rule', 'baseline/resolver'], 'baseline/resolver'],
    [['explain', 'company', '--destination', '10.10.0.53', '--protocol', 'icmp'], 'from nobody&#39;s device: drop'],
    [['diff', 'company', './company'], 'Changes from company to ./company'],
    [['validate', 'nowhere'], 'reconcile: 1 error'],
  ])('%j has a headline', async (args, headline) => {
    const { out } = await cli([...args, '--output', 'html']);
    expect(/<h1>(.*)<\/h1>/.exec(out)?.[1]).toContain(headline);
  });

  it('link problems to the lines of a commit where a CI job names one, and never with its token', async () => {
    addManifest(
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: a}\nspec: {action: acept, destination: 10.0.0.1}\n',
    );
    const env = {
      RECONCILE_REVISION: 'a'.repeat(40),
      CI_REPOSITORY_URL: 'https://gitlab-ci-token:CANARY@gitlab.example.com/net/policy.git',
    };
    const { code, out } = await cli(['validate', 'company', '--output', 'html'], env);
    expect([code, out.includes('CANARY')]).toEqual([4, false]);
    expect(out).toContain(`href="https://gitlab.example.com/net/policy/-/blob/${'a'.repeat(40)}/company/more.yaml#L4"`);
    expect(out).toContain('spec: {action: acept, destination: 10.0.0.1}');
  });
});

it('lists what ends soon as a table in Markdown, for an issue that people read', async () => {
  const ends = '{action: accept, destination: 10.7.0.0/24, expires: 2026-01-01}';
  addManifest(`apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ends, owner: 'net | <b>'}\nspec: ${ends}\n`);
  const { code, out } = await cli(['expiring', 'company', '--output', 'markdown']);
  expect([code, out.split('\n')]).toEqual([
    0,
    [
      '### 0 rules of company end within 30d, and 1 has ended',
      '',
      '| rule | traffic | until when | where |',
      '|---|---|---|---|',
      '| ends | accept 10.7.0.0/24 | expired 2026-01-02T00:00:00Z, owner "net \\| \\<b\\>" | company/more.yaml:4:37 |',
      '',
    ],
  ]);
});

it('lists of many rules that end soon as many as an issue holds, and counts the others', async () => {
  const many = Array.from(
    { length: 2000 },
    (_, n) => `    - {name: r${n}, action: accept, destination: 10.${n >> 8}.${n & 255}.0/24, expires: 2026-01-01}\n`,
  );
  addManifest(`apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: ends}\nspec:\n  rules:\n${many.join('')}`);
  const { code, out } = await cli(['expiring', 'company', '--output', 'markdown']);
  expect([code, out.length < 65_536, out.split('\n').filter((line) => line.startsWith('| ends/')).length]).toEqual([
    0,
    true,
    300,
  ]);
  expect(out).toMatch(/\n- and 1700 more \(`--output json=FILE` has all\)\n$/);
});

it.each(['markdown', 'html'])(
  'says as %s that it cannot tell what ends where the manifests hold errors',
  async (format) => {
    addManifest(
      'apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: a}\nspec: {action: acept, destination: 10.0.0.1}\n',
    );
    const { code, out } = await cli(['expiring', 'company', '--output', format]);
    expect([code, out]).toEqual([
      4,
      expect.stringContaining('cannot tell which rules of company end within 30d: 1 error'),
    ]);
    expect(out).not.toContain('0 rules');
  },
);

describe('answers on a narrow terminal', () => {
  const plain = { NO_COLOR: '1' };
  const tooLong = (text: string): readonly string[] => text.split('\n').filter((line) => line.length > 60);

  it.each([
    [['expiring', 'company', '--within', '90000d']],
    [['reach', 'company']],
    [['explain', 'company', '--destination', '10.10.4.2', '--protocol', 'tcp', '--port', '22', '--user', 'alice']],
    [['validate', 'company', 'more']],
  ])('%j are wrapped between words, and lose none', async (args) => {
    const ends = '{action: accept, destination: 10.7.0.0/24, expires: 2090-01-01}';
    addManifest(
      `apiVersion: firezone/v0\nkind: Rule\nmetadata: {name: ends, owner: the network team}\nspec: ${ends}\n`,
    );
    const [wide, narrow] = [await cli(args, plain), await cli(args, plain, 60)];
    const words = ({ out, err }: typeof wide): readonly string[] => `${out} ${err}`.split(/\s+/).sort();
    expect(tooLong(`${narrow.out}${narrow.err}`)).toEqual([]);
    if (args[0] !== 'reach') expect(words(narrow)).toEqual(words(wide));
  });

  it('manifests are not: they are data', async () => {
    const [wide, narrow] = [await cli(['build', 'company'], plain), await cli(['build', 'company'], plain, 60)];
    expect([narrow.out === wide.out, tooLong(narrow.out).length > 0]).toEqual([true, true]);
  });
});
