import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseArguments } from '../../src/cli/arguments.ts';
import { commands } from '../../src/cli/commands.ts';
import { version } from '../../src/version.ts';
import { ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

let world: World;
beforeEach(async () => {
  world = await startWorld();
  world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
});
afterEach(() => world.close());

const run = (...args: readonly string[]) => {
  const parsed = parseArguments(args);
  if (parsed.kind === 'text') throw new Error(parsed.text);
  return { command: parsed.command.name, operands: parsed.operands, flags: parsed.flags };
};

describe('verbs', () => {
  it('the older spellings are plan, watch and apply, whatever stands before', () => {
    expect(run('--plan', 'm', '--strict')).toEqual(run('plan', 'm', '--strict'));
    expect(run('--watch', 'm', '--once')).toEqual(run('watch', 'm', '--once'));
    expect(run('m', '--yes')).toEqual(run('apply', '--yes', 'm'));
    expect(run('--base-url', 'plan', '--strict', 'm', '--plan')).toEqual(
      run('plan', '--base-url', 'plan', '--strict', 'm'),
    );
    expect(run('--yes', '--pace', '3', '--plan', '--concurrency', '2', 'm').command).toBe('plan');
    expect(run('--config', 's.yaml', 'validate', 'm')).toEqual(run('validate', 'm', '--config', 's.yaml'));
    expect(run('--', 'plan')).toMatchObject({ command: 'apply', operands: ['plan'] });
    expect(run('--yes', '--', '--watch')).toMatchObject({ command: 'apply', operands: ['--watch'] });
    expect(run('--wait-enforced', 'm')).toMatchObject({ command: 'apply', operands: ['m'] });
  });

  it('a flag that stands where a value is due changes no other word: what was refused is not watched or applied', () => {
    expect(() => run('m', '--interval', '--watch', '1s')).toThrow(/too many arguments/);
    expect(() => run('--watch', '--base', '--save', 'watch')).toThrow(/unknown option '--watch'/);
    expect(run('--state-dir', '--values', 'plan', '--yes')).toMatchObject({ command: 'plan', operands: [] });
    expect(run('--state-dir', '--plan', 'm', '--yes')).toMatchObject({ command: 'plan', operands: ['m'] });
  });

  it('plan never writes; apply does, as the old spelling did', async () => {
    const [plan, old] = [await world.cli(['plan', 'm']), await world.cli(['--plan', 'm'])];
    expect([plan.code, plan.out]).toEqual([0, old.out]);
    expect(world.simulator.rules()).toEqual([]);
    expect((await world.cli(['apply', '--dry-run', 'm'])).out).toBe(plan.out);
    expect(world.simulator.rules()).toEqual([]);
    expect((await world.cli(['apply', 'm'])).code).toBe(0);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it('apply takes a saved plan before PATH, and --dry-run says whether it still holds', async () => {
    await world.cli(['plan', 'm', '--save', 'plan.json']);
    expect((await world.cli(['apply', '--dry-run', 'plan.json', 'm'])).code).toBe(0);
    world.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
    expect((await world.cli(['apply', '--dry-run', 'plan.json', 'm'])).code).toBe(3);
    expect(world.simulator.rules()).toHaveLength(1);
  });

  it.each(['127.0.0.1:1', 'localhost:1', 'http://127.0.0.1:1'])(
    'a proxy is named as curl takes it, too: %s',
    async (proxy) => {
      const env = { RECONCILE_BASE_URL: 'http://vpn.example', RECONCILE_ALLOW_HTTP: 'true', HTTP_PROXY: proxy };
      const ran = await world.cli(['plan', 'm', '--proxy', 'env', '--total-timeout', '1s'], { env });
      expect([ran.code, ran.err]).toEqual([
        1,
        expect.stringContaining('no connection to the proxy: the connection was refused'),
      ]);
    },
  );

  it.each([
    ['a flag', ['--git-verify-ssh', 'signers'], {}],
    ['the environment', [], { RECONCILE_GIT_VERIFY_OPENPGP: 'keys.asc' }],
    ['the settings file', ['--config', 's.yaml'], {}],
  ])('a watch of a directory does not leave out what is asked of commits: %s', async (_, flags, variables) => {
    world.write('s.yaml', 'gitVerifySsh: signers\n');
    const args = ['watch', 'm', '--once', '--state-dir', 'state', ...flags];
    const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token, ...variables };
    const ran = await ended(spawnReconcile(args, { cwd: world.folder, env }));
    expect([ran.code, ran.err]).toEqual([1, expect.stringMatching(/--git-verify-\S+ goes with --git-url only/)]);
    expect(world.simulator.rules()).toEqual([]);
  });

  it('watch stays and applies', async () => {
    const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const ran = await ended(spawnReconcile(['watch', '--once', 'm'], { cwd: world.folder, env }));
    expect([ran.code, world.simulator.rules().length]).toEqual([0, 1]);
  });

  it('version, --version and -V are the same', async () => {
    for (const words of ['version', '--version', '-V']) {
      expect(await world.cli([words])).toMatchObject({ code: 0, out: `${version}\n` });
    }
  });

  it('-y is --yes, -v is --verbose', () => {
    expect(run('apply', '-y', 'm')).toEqual(run('apply', '--yes', 'm'));
    expect(run('-v', 'm')).toEqual(run('--verbose', 'm'));
  });

  it('a verb wins over a directory of that name, and the message says ./NAME', async () => {
    world.write('plan/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
    const bare = await world.cli(['plan']);
    expect([bare.code, bare.err]).toEqual([1, expect.stringContaining('reconcile plan ./plan')]);
    expect((await world.cli(['--plan', './plan'])).code).toBe(0);
  });

  it.each([
    [['sync'], 'Did you mean `reconcile apply`?'],
    [['lint', 'm'], 'Did you mean `reconcile validate`?'],
    [['preview', 'm'], 'Did you mean `reconcile plan`?'],
    [['apply', '--auto-approve', 'm'], 'Use --yes.'],
    [['drift', '--dry-run', 'm'], 'Use reconcile plan PATH, which writes nothing.'],
    [['fmt', '--dry-run', 'm'], 'Use --check.'],
    [['validate', '--yes', 'm'], '--yes goes with `reconcile plan`, `reconcile apply`, '],
    [['export', 'policy'], 'name where it writes with --out'],
    [['plan', 'm', 'office'], 'it takes PATH'],
    [['m', 'plan'], 'The command comes first: reconcile plan m'],
    [['watch', '--plan', 'm'], 'Use --suspend to watch and write nothing.'],
    [['plan', '--token', 'x', 'm'], 'Use --token-file FILE'],
    [['plan', '--json', 'm'], 'Use --output json.'],
  ])('%j: %s', async (args, words) => {
    const said = await world.cli(args);
    expect([said.code, said.err]).toEqual([1, expect.stringContaining(words)]);
    expect(world.simulator.requests()).toEqual([]);
  });

  it.each(['plan', 'apply'])('%s of a file is refused: it would be the whole policy', async (verb) => {
    const said = await world.cli([verb, 'm/a.yaml']);
    expect(said.code).toBe(4);
    expect(said.err).toMatch(/it would be the whole policy[\s\S]*name its directory: reconcile (plan|apply) m;/);
    expect(world.simulator.requests()).toEqual([]);
  });

  it('apply of a saved plan alone says where PATH goes', async () => {
    await world.cli(['plan', 'm', '--save', 'plan.json']);
    expect((await world.cli(['apply', 'plan.json'])).err).toContain('reconcile apply plan.json PATH');
  });
});

describe('help', () => {
  it('is at most 40 lines, with five examples', async () => {
    const { out } = await world.cli(['--help']);
    expect(out.split('\n').length).toBeLessThanOrEqual(41);
    expect(out.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect(out.split('Examples:')[1]?.match(/^ {2}reconcile /gm)).toHaveLength(5);
    for (const { name } of commands) expect(out).toMatch(new RegExp(`^  ${name}\\b`, 'm'));
  });

  it.each(commands.map(({ name }) => name))('of %s has two examples, which parse', async (name) => {
    const { out } = await world.cli(['help', name]);
    const examples = out.split('Examples:\n')[1]?.trim().split('\n') ?? [];
    expect(examples).toHaveLength(2);
    for (const line of examples) {
      const words = /reconcile ([^|)]*)/.exec(line)?.[1]?.trim().split(' ') ?? [];
      expect(() => parseArguments(words)).not.toThrow();
    }
  });

  it('has topics: settings and exit-codes', async () => {
    expect((await world.cli(['help', 'exit-codes'])).out).toMatch(/^ {2}4 {2}.*\n {2}3 {2}.*\n {2}5 {2}/m);
    expect((await world.cli(['help', 'settings'])).out).toMatch(/maxDeletes +RECONCILE_MAX_DELETES/);
    expect((await world.cli(['help', 'watch'])).out).toContain('--git-url');
  });
});

describe('validate of files', () => {
  const named = 'apiVersion: firezone/v0\nkind: RuleSet\nmetadata: {name: s}\nspec:\n  rules:\n';
  const uses = `${named}  - {name: x, action: accept, destinations: [{network: office}], users: [{group: dev}]}\n`;

  it('checks these files alone, each problem at the file as it was named', async () => {
    world.write('m/bad.yaml', rule('bad', 'action: drop, destination: 10.0.0.300'));
    const good = await world.cli(['validate', 'm/a.yaml']);
    expect([good.code, good.out]).toEqual([0, expect.stringContaining('m/a.yaml: 1 rule')]);
    const bad = await world.cli(['validate', 'm/a.yaml', 'm/bad.yaml']);
    expect([bad.code, bad.out]).toEqual([4, expect.stringMatching(/^m\/bad\.yaml:4:/)]);
    const path = world.write('.hidden/rules.txt', rule('bad', 'action: drop, destination: 10.0.0.300'));
    expect((await world.cli(['validate', path])).out).toMatch(/^\S+\/\.hidden\/rules\.txt:4:/);
  });

  it('what other files define is one note', async () => {
    world.write('m/set.yaml', uses);
    const said = await world.cli(['validate', '--output', 'json', 'm/set.yaml']);
    expect(said.json().problems.map(({ code, severity }) => [code, severity])).toEqual([['unknown-names', 'note']]);
    expect(said.code).toBe(0);
  });

  it('- is stdin', async () => {
    const env = { RECONCILE_BASE_URL: '' };
    const child = spawnReconcile(['validate', '-'], { cwd: world.folder, env, stdin: 'pipe' });
    child.stdin?.end(rule('bad', 'action: drop, destination: 10.0.0.300'));
    expect(await ended(child)).toMatchObject({ code: 4, out: expect.stringMatching(/^-:4:/) });
  });

  it.each([
    ['fmt', 'n'],
    ['extend', 'guest', 'n', '--until', '2099-12-31'],
  ])('%s says which file cannot be written', async (...args) => {
    // No name is left for the file that is written beside it.
    const name = `${'a'.repeat(240)}.yaml`;
    world.write(`n/${name}`, rule('guest', 'action:   drop, destination: 10.0.0.0/8, expires: 2099-01-01'));
    const { code, err } = await world.cli(args);
    expect([code, err]).toEqual([1, expect.stringContaining(`${name} cannot be written (ENAMETOOLONG)`)]);
  });

  it('- is stdin for fmt too, which prints it, and writes no file of that name', async () => {
    const child = spawnReconcile(['fmt', '-'], { cwd: world.folder, env: {}, stdin: 'pipe' });
    child.stdin?.end(rule('one', 'destination:   10.0.0.0/8, action: drop'));
    expect(await ended(child)).toMatchObject({ code: 0, out: expect.stringContaining('destination: 10.0.0.0/8') });
    expect(existsSync(join(world.folder, '-'))).toBe(false);
  });

  it('a file that is named twice is looked at once', async () => {
    world.write('n/set.yaml', rule('one', 'action: drop, destination: 10.0.0.0/8'));
    expect((await world.cli(['fmt', '--check', 'n', 'n/set.yaml', 'n'])).err).toContain('1 file, ');
  });
});

describe('schema', () => {
  it('is one self-contained schema, which takes what validate takes and refuses what it refuses', async () => {
    const schema = JSON.parse((await world.cli(['schema'])).out) as object;
    const check = new Ajv2020({ strict: false }).compile(schema);
    const valid = (text: string) => check(parse(text.replace('---\n', '')));
    expect(valid(rule('a', 'action: drop, destination: 10.0.0.0/8'))).toBe(true);
    expect(valid(rule('a', 'action: dorp, destination: 10.0.0.0/8'))).toBe(false);
    expect(valid('apiVersion: firezone/v0\nkind: Nonsense\n')).toBe(false);
  });
});

describe('simulate', () => {
  it('prints the two exports to copy, and answers as late as it is told', async () => {
    const file = join(world.folder, 'a token');
    const args = ['simulate', '--listen', '0', '--latency', '50ms', '--token-file', file];
    const child = spawnReconcile(args, { cwd: world.folder, env: {} });
    const out = await new Promise<string>((resolve) => {
      let text = '';
      child.stdout?.setEncoding('utf8').on('data', (part: string) => {
        text += part;
        if (text.split('\n').length > 3) resolve(text);
      });
    });
    const url = /^listening (\S+)\n/.exec(out)?.[1] ?? '';
    expect(out).toBe(`listening ${url}\nexport RECONCILE_BASE_URL=${url}\nexport RECONCILE_TOKEN_FILE='${file}'\n`);
    const before = performance.now();
    await fetch(`${url}/v0/rules`);
    expect(performance.now() - before).toBeGreaterThan(45);
    child.kill('SIGTERM');
    expect((await ended(child)).code).toBe(0);
  });

  it('a port that is taken is said in a sentence', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const address = taken.address();
    const port = typeof address === 'object' ? address?.port : 0;
    const said = await world.cli(['simulate', '--listen', String(port), '--token-file', 'token']);
    expect([said.code, said.err]).toEqual([1, expect.stringContaining(`another process listens on port ${port}`)]);
    await new Promise((resolve) => taken.close(resolve));
  });

  it('listens on this machine alone', async () => {
    const said = await world.cli(['simulate', '--listen', '0.0.0.0:80', '--token-file', 'token']);
    expect([said.code, said.err]).toEqual([1, expect.stringContaining('no loopback address')]);
  });
});
