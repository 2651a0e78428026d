import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseArguments } from '../../src/cli/arguments.ts';
import { Failure, listOptions } from '../../src/cli/command.ts';
import { commands } from '../../src/cli/commands.ts';
import { formatFlag, nameVariable, type OptionName, options } from '../../src/cli/options.ts';
import { settle } from '../../src/cli/settings.ts';
import type { SettingsFile } from '../../src/cli/settings-schema.ts';
import { createTokenSource } from '../../src/cli/token.ts';
import { ended, rule, spawnReconcile, startWorld, token, type World } from './harness.ts';

const file = (given: SettingsFile['options']): SettingsFile => ({
  path: '/etc/reconcile/s.yaml',
  folder: '/etc/reconcile',
  options: given,
  nested: {},
});
const none = { flags: {}, env: {}, cwd: '/work', file: null };
const failed = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    if (error instanceof Failure) return error.problems.map(({ summary }) => summary).join('\n');
    throw error;
  }
  return '';
};

describe('precedence', () => {
  it('a flag beats a variable, a variable the settings file, the file the default', () => {
    const all = { flags: { concurrency: '2' }, env: { RECONCILE_CONCURRENCY: '3' }, file: file({ concurrency: 4 }) };
    expect(settle({ ...none, ...all }).concurrency).toBe(2);
    expect(settle({ ...none, ...all, flags: {} }).concurrency).toBe(3);
    expect(settle({ ...none, ...all, flags: {}, env: {} }).concurrency).toBe(4);
    expect(settle(none).concurrency).toBe(8);
  });

  it('an empty variable counts as absent', () => {
    expect(settle({ ...none, env: { RECONCILE_PROFILE: '' } }).profile).toBe('firezone-0.7');
  });

  it('the token: --token-file, then RECONCILE_TOKEN, then RECONCILE_TOKEN_FILE, then the settings file', () => {
    const folder = mkdtempSync(join(tmpdir(), 'reconcile-token-'));
    for (const name of ['a', 'b', 'c']) writeFileSync(join(folder, name), name);
    const read = (sources: Partial<Parameters<typeof settle>[0]>) =>
      createTokenSource(settle({ ...none, ...sources }), sources.env ?? {}).read();
    const env = { RECONCILE_TOKEN: 'x', RECONCILE_TOKEN_FILE: join(folder, 'b') };
    const inFile = file({ tokenFile: join(folder, 'c') });
    expect(read({ env, flags: { tokenFile: join(folder, 'a') }, file: inFile })).toBe('a');
    expect(read({ env, file: inFile })).toBe('x');
    expect(read({ env: { ...env, RECONCILE_TOKEN: '' }, file: inFile })).toBe('b');
    expect(read({ file: inFile })).toBe('c');
    expect(() => read({})).toThrow('there is no API token');
  });

  it('paths are relative to the working directory, in the settings file to its folder', () => {
    expect(settle({ ...none, flags: { caFile: 'ca.pem' } }).caFile).toBe('/work/ca.pem');
    expect(settle({ ...none, file: file({ caFile: 'ca.pem' }) }).caFile).toBe('/etc/reconcile/ca.pem');
  });

  it('what one run does is no setting', () => {
    expect(settle({ ...none, env: { RECONCILE_SAVE: 'plan.json' } }).save).toBeNull();
  });
});

describe('wrong values', () => {
  it.each(['RECONCILE_TOKEN=eyJhbGciOi.eyJzdWIi.abc', '"eyJhbGciOi.eyJzdWIi.abc"', "'eyJhbGciOi.eyJzdWIi.abc'"])(
    'a token with its name or quotes is refused: %s',
    (text) => {
      const read = () => createTokenSource(settle(none), { RECONCILE_TOKEN: text }).read();
      expect(failed(read)).toBe('RECONCILE_TOKEN does not hold a token');
      expect(createTokenSource(settle(none), { RECONCILE_TOKEN: 'QUJD==' }).read()).toBe('QUJD==');
    },
  );

  it('--proxy with an address says where that belongs', () => {
    expect(failed(() => settle({ ...none, flags: { proxy: 'http://u:p@proxy:3128' } }))).toBe(
      '--proxy must be one of env (env: by the proxy that HTTPS_PROXY and NO_PROXY name)',
    );
  });

  it.each([
    ['RECONCILE_MAX_DELETE', 'RECONCILE_MAX_DELETES'],
    ['RECONCILE_MAXDELETES', 'RECONCILE_MAX_DELETES'],
    ['RECONCILE_TOKENFILE', 'RECONCILE_TOKEN_FILE'],
  ])('a misspelt variable is refused, not ignored: %s', (name, meant) => {
    const run = () => settle({ ...none, env: { [name]: '3' } });
    expect(failed(run)).toBe(`there is no setting ${name}`);
    expect(run).toThrow(
      expect.objectContaining({ problems: [expect.objectContaining({ hint: `did you mean ${meant}?` })] }),
    );
  });

  it('variables of others with that prefix are left alone: those of a job, and those of a service in Kubernetes', () => {
    const names = [
      'GIT_TOKEN',
      'WEBHOOK_SECRET',
      'STATE',
      'STATE_PORT',
      'BASE_PORT_443_TCP',
      'GIT_KEY',
      'LISTEN_PORT',
      'REVISION',
      'SECRET_OIDC',
      'IMAGE',
      'PATH',
      'GITLAB_TOKEN',
      'PORT',
      'PORT_8080_TCP_ADDR',
      'SERVICE_HOST',
    ];
    const env = Object.fromEntries(names.map((name) => [`RECONCILE_${name}`, 'x']));
    expect(settle({ ...none, env }).maxDeletes).toBe(settle(none).maxDeletes);
  });

  it('every one is said, with where it was given', () => {
    const text = failed(() =>
      settle({
        ...none,
        flags: { timeout: '15' },
        env: { RECONCILE_PACE: '0', RECONCILE_YES: 'perhaps' },
        file: file({ profile: 'firezone-2' }),
      }),
    );
    expect(text).toContain('--timeout must be a time with a unit');
    expect(text).toContain('RECONCILE_PACE must be a whole number from 1');
    expect(text).toContain('RECONCILE_YES must be true or false');
    expect(text).toContain('profile in the settings file must be one of firezone-0.7, generic');
  });

  it.each(['1d x', '0s', '15', '-1s', '25h30', '1e3s', '99999999h'])('the duration %s is refused', (timeout) => {
    expect(failed(() => settle({ ...none, flags: { timeout } }))).toContain('must be a time with a unit');
  });
});

describe('the environment of the process', () => {
  it('threat 38: a variable that switches the check of certificates off ends every command before it reads a token', async () => {
    const world = await startWorld();
    try {
      const run = await world.cli(['--plan', 'm'], { env: { NODE_TLS_REJECT_UNAUTHORIZED: '0' } });
      expect([run.code, run.err]).toEqual([1, expect.stringContaining('unset it; to trust an authority of your own')]);
      expect(world.simulator.requests()).toEqual([]);
    } finally {
      await world.close();
    }
  });
});

describe('the tables', () => {
  it('every flag is unique within its command, and every variable in all', () => {
    for (const command of commands) {
      const flags = listOptions(command).map(formatFlag);
      expect(flags.filter((flag, index) => flags.indexOf(flag) !== index)).toEqual([]);
    }
    const variables = (Object.keys(options) as OptionName[]).map(nameVariable);
    expect(new Set(variables).size).toBe(variables.length);
  });

  it('no option takes a secret as an argument', () => {
    const suspicious = (Object.keys(options) as OptionName[]).filter(
      // A binding names a secret and does not hold it.
      (name) => /token|secret|password/i.test(name) && !/file$/i.test(name) && name !== 'bindSecret',
    );
    expect(suspicious).toEqual([]);
  });

  it('an unknown flag is wrong usage with a suggestion', () => {
    expect(() => parseArguments(['--concurency', '2', '.'])).toThrow(/unknown option '--concurency'/);
  });

  it('too many operands are wrong usage', () => {
    expect(() => parseArguments(['a', 'b'])).toThrow(/there is no command `a`/);
    expect(() => parseArguments(['plan', 'a', 'b'])).toThrow(/too many arguments/);
  });
});

describe('the settings file', () => {
  let world: World;
  beforeEach(async () => {
    world = await startWorld();
    world.write('m/a.yaml', rule('a', 'action: drop, destination: 10.0.0.0/8'));
  });
  afterEach(() => world.close());

  it('sets what flags set', async () => {
    world.write('s.yaml', 'detailedExitcode: true\noutput: json\n');
    const run = await world.cli(['--plan', '--config', 's.yaml', 'm']);
    expect([run.code, run.json().summary?.['create']]).toEqual([2, 1]);
    expect((await world.cli(['--plan', 'm'], { env: { RECONCILE_CONFIG: 's.yaml' } })).code).toBe(2);
  });

  it('only plans and what is like them take `output` from the file or the variable: other commands overwrite no plan', async () => {
    world.write('s.yaml', 'output: [text, json=plan.json]\n');
    expect((await world.cli(['plan', '--config', 's.yaml', 'm'])).code).toBe(0);
    const plan = world.read('plan.json');
    expect(plan).toContain('"digest"');
    const packet = ['--destination', '10.1.1.1', '--protocol', 'tcp', '--port', '1'];
    for (const line of [['explain', ...packet, 'm'], ['reach', 'm'], ['validate', 'm'], ['doctor'], ['export']]) {
      const byFile = await world.cli([...line, '--config', 's.yaml']);
      const byVariable = await world.cli(line, { env: { RECONCILE_OUTPUT: 'markdown=plan.json' } });
      const said = byFile.err + byVariable.err;
      expect([byFile.code, byVariable.code, world.read('plan.json')], said).toEqual([0, 0, plan]);
    }
  });

  it('a watch refuses an output and a base that it does not have, and leaves those of shared settings alone', async () => {
    world.write('f.yaml', 'targets: [{name: a, baseUrl: http://127.0.0.1:1, tokenFile: t, path: m}]\n');
    const watches = [
      ['watch', '--once', 'm'],
      ['--watch', 'm'],
      ['watch', '--once', '--fleet', 'f.yaml'],
    ];
    for (const line of watches) {
      for (const output of ['json', 'json=w.json', 'text=w.txt', 'bogus']) {
        const run = await world.cli([...line, '--output', output]);
        expect([run.code, `${run.out}${run.err}`]).toEqual([
          1,
          expect.stringContaining(`a watch has no output as ${output}`),
        ]);
        expect(run.out + run.err).toMatch(/reconcile plan.*apply/);
      }
      const run = await world.cli([...line, '--base', 'gone']);
      expect([run.code, run.err]).toEqual([1, expect.stringMatching(/unknown option '--base'[\s\S]*`reconcile plan`/)]);
    }
    world.write('s.yaml', 'output: [json=n.json]\nbase: gone\n');
    const env = { RECONCILE_BASE_URL: world.simulator.url, RECONCILE_TOKEN: token };
    const argv = ['watch', '--once', '--config', 's.yaml', '--output', 'text', 'm'];
    const end = await ended(spawnReconcile(argv, { cwd: world.folder, env }));
    expect([end.code, world.simulator.rules().length], end.err).toEqual([0, 1]);
    expect(existsSync(join(world.folder, 'n.json'))).toBe(false);
  });

  it('a mistake is said with file, line and column, and a suggestion', async () => {
    const path = world.write('s.yaml', 'profile: generic\nconcurency: 3\ntoken: abc\n');
    const run = await world.cli(['--plan', '--config', 's.yaml', 'm']);
    expect(run.code).toBe(1);
    expect(run.err).toContain(`${path}:2:1`);
    expect(run.err).toMatch(/did you mean `concurrency`/);
    expect(run.err).toMatch(/must not hold the token/);
    expect(run.err).not.toContain('abc');
  });

  it.each([
    ['interval: 10', '`interval` must be a time with a unit, such as 500ms, 15s, 10m or 1h'],
    ['require: [{note: owner, users: [alice]}]', '`require.0.users.0` must be the UUID of a user'],
    ['notify: [{type: pager}]', '`notify.0.type` must be generic, slack or github-status'],
    ['notify: [{type: github-status, repository: x, tokenFile: t}]', '`notify.0.repository` must be OWNER/NAME'],
    ['maxDeletes 1', 'the settings file must be a mapping of names to values'],
    ['scope: {rules: yes}', '`scope.rules` must be true or false'],
    ['protect: [{port: 53}]', '`protect.0.destination` is missing'],
    ['require: [ownr]', '`require.0` must be owner, ticket or expires'],
  ])('%j: %s', async (settings, words) => {
    world.write('s.yaml', `${settings}\n`);
    const run = await world.cli(['--plan', '--config', 's.yaml', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining(words)]);
  });

  it('one that cannot be read, or is no YAML, is said', async () => {
    expect((await world.cli(['--plan', '--config', 'nowhere.yaml', 'm'])).err).toContain('cannot be read (ENOENT)');
    world.write('bad.yaml', 'a: [1\n');
    const run = await world.cli(['--plan', '--config', 'bad.yaml', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('bad.yaml:')]);
  });

  it('is never picked up from the manifest directory: who writes manifests cannot send the token elsewhere', async () => {
    const evil = 'baseUrl: http://127.0.0.1:9\n';
    for (const name of ['reconcile.yaml', '.reconcile.yaml', 'settings.yaml', '.env', 'package.json', '.reconcilerc'])
      world.write(`m/${name}`, name.endsWith('yaml') ? `# ${evil}` : evil);
    const run = await world.cli(['--plan', 'm']);
    expect([run.code, world.simulator.requests().length > 0]).toEqual([0, true]);
  });

  it('protects traffic: a plan that would open or cut it off is refused', async () => {
    world.write('s.yaml', 'protect:\n  - {destination: 10.1.0.0/16, protocol: tcp, port: 443}\n');
    const run = await world.cli(['--config', 's.yaml', 'm']);
    expect([run.code, run.out]).toEqual([3, expect.stringContaining('10.1.0.0/16')]);
    expect(world.simulator.rules()).toEqual([]);
  });

  it('limits the scope: rules outside are left alone', async () => {
    world.simulator.seed([{ action: 'drop', destination: '192.0.2.0/24' }]);
    world.write('s.yaml', 'scope:\n  networks: [10.0.0.0/8]\n');
    const run = await world.cli(['--config', 's.yaml', 'm']);
    expect([run.code, world.simulator.rules().length]).toEqual([0, 2]);
  });

  it('a wrong value of a flag or variable is quoted, but for one that may hold a password', async () => {
    const wrong = await world.cli(['plan', '--concurrency', '0', '--proxy', 'http://me:canary@proxy.example', 'm'], {
      env: { RECONCILE_TIMEOUT: '5' },
    });
    expect(wrong.err).toContain('--concurrency must be a whole number from 1 to 64, not "0"');
    expect(wrong.err).toContain('RECONCILE_TIMEOUT must be a time with a unit, such as 500ms, 15s, 10m or 1h, not "5"');
    expect([wrong.code, wrong.err]).toEqual([1, expect.not.stringContaining('canary')]);
  });

  it.each([
    ['protect: [{destination: 10.0.0.0/8, user: alice}]', '`protect.0.user` must be the UUID of a user, or `nobody`'],
    ['scope: {users: [alice]}', '`scope.users.0` must be the UUID of a user, or `global`'],
    ['scope: {networks: [10.0.0.5/8]}', '`scope.networks.0`: write a network without host bits (10.0.0.0/8)'],
    ['scope: {rules: false}\nenforcement: nft', '--enforcement nft compares rules, which are outside `scope`'],
    ['interval: 1d x', '`interval` must be a time with a unit, such as 500ms, 15s'],
    ['proxy: http://me:secret@proxy.example', '`proxy` must be one of env\n'],
    ['limits: {parseMb: 3}', '`limits.parseMb` must be a whole number from 16'],
    ['concurrency: 0', '`concurrency` must be a whole number from 1 to'],
  ])('a wrong value is said with what is wanted: %s', async (text, expected) => {
    world.write('s.yaml', `${text}\n`);
    const run = await world.cli(['--plan', '--config', 's.yaml', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining(expected)]);
    const watch = await world.cli(['--watch', '--once', '--config', 's.yaml', 'm']);
    expect([watch.code, watch.err]).toEqual([1, expect.stringContaining(expected)]);
    expect(watch.err).not.toContain('Watching');
  });

  it('a wrong nested value is said with its name', async () => {
    world.write('s.yaml', 'protect:\n  - {destination: 10.0.0.300}\n');
    const run = await world.cli(['--plan', '--config', 's.yaml', 'm']);
    expect([run.code, run.err]).toEqual([1, expect.stringContaining('protect.0.destination')]);
  });
});
